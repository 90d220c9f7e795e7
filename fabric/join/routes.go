package join

import (
	"sync"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/rvt"
	"ciddk/wire"
)

// maxRoutes bounds the compiled addresses of a session (200 bytes each). When there are more, all are forgotten.
const maxRoutes = 4096

// routeKey is what an address is compiled from.
type routeKey struct {
	dlid, bits uint16
	sl         uint8
	global     bool
	grh        wire.GRH // without lengths
}

// routes are the compiled addresses of the packets of a session.
type routes struct {
	ca *fabric.CAPort

	mu   sync.Mutex
	list map[routeKey]rvt.Route
}

func newRoutes(ca *fabric.CAPort) *routes { return &routes{ca: ca, list: make(map[routeKey]rvt.Route)} }

// forget forgets all addresses, since those of the port have changed.
func (r *routes) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.list)
}

// find returns the compiled address of a packet, or nil if the port cannot send there.
func (r *routes) find(w *wire.LinkPacket) rvt.Route {
	key := routeKey{dlid: w.LRH.DLID, bits: w.LRH.SLID & 0x7f, sl: w.LRH.SL, global: w.Global()}
	if key.global {
		key.grh = w.GRH
		key.grh.PayloadLen = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x, ok := r.list[key]; ok {
		return x
	}
	av := ci.AVAttr{DLID: ci.LID(key.dlid), SL: ci.SL(key.sl), PathBits: uint8(key.bits), Global: key.global}
	if key.global {
		index, ok := r.source(ci.GID(key.grh.SGID))
		if !ok {
			return nil
		}
		av.GRH = ci.GRH{SGIDIndex: index, DGID: ci.GID(key.grh.DGID), TrafficClass: key.grh.TrafficClass,
			FlowLabel: key.grh.FlowLabel, HopLimit: key.grh.HopLimit}
	}
	x, err := r.ca.Route(&av, rvt.Flow{Datagram: true})
	if err != nil {
		return nil
	}
	if len(r.list) >= maxRoutes {
		clear(r.list)
	}
	r.list[key] = x
	return x
}

// source returns the index of a GID of the port.
func (r *routes) source(gid ci.GID) (uint16, bool) {
	for i, e := range r.ca.Attr().GIDs {
		if e.GID == gid {
			return uint16(i), true
		}
	}
	return 0, false
}
