package join

import (
	"fmt"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// route is a compiled address.
type route struct {
	port   *Port
	dlid   ci.LID
	sl     ci.SL
	bits   uint8
	global bool
	grh    wire.GRH // without length
}

// Peer returns the destination's LID: within a subnet LIDs identify ports, with a GRH or without.
func (r *route) Peer() rvt.Addr { return rvt.Addr{LID: r.dlid} }

// Local returns the source GID of the GRH. It is zero without one.
func (r *route) Local() ci.GID { return r.grh.SGID }

// Route compiles an address with a LID. Multicast needs its GRH, which names the group.
func (p *Port) Route(av *ci.AVAttr, _ rvt.Flow) (rvt.Route, error) {
	bad := func(s ci.Status, format string, args ...any) (rvt.Route, error) {
		return nil, &ci.Error{Verb: "Port.Route", Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	a := p.attr.Load()
	r := &route{port: p, dlid: av.DLID, sl: av.SL, bits: av.PathBits & (1<<a.LMC - 1), global: av.Global}
	if av.Global {
		i := int(av.GRH.SGIDIndex)
		if i >= len(a.GIDs) || a.GIDs[i].GID == (ci.GID{}) {
			return bad(ci.InvalidIndex, "source GID index %d is not in use", i)
		}
		r.grh = wire.GRH{TrafficClass: av.GRH.TrafficClass, FlowLabel: av.GRH.FlowLabel, HopLimit: av.GRH.HopLimit,
			NextHeader: wire.NextHeaderIBA, SGID: a.GIDs[i].GID, DGID: av.GRH.DGID}
	}
	isMulticast := r.dlid >= firstMulticastLID && r.dlid != permissiveLID
	switch {
	case r.dlid == 0:
		return bad(ci.InvalidParameter, "DLID 0 names no port: get the LID of a GID from subnet administration")
	case isMulticast && !(av.Global && av.GRH.DGID[0] == 0xff):
		return bad(ci.InvalidParameter, "multicast DLID %#x without a GRH that names the group", r.dlid)
	}
	return r, nil
}

// sentAddress addresses packets that the adapter sends.
type sentAddress struct{}

func (sentAddress) address(w *wire.LinkPacket, p *rvt.Packet) bool {
	r, ok := p.Route.(*route)
	if !ok {
		return false
	}
	w.LRH = wire.LRH{LNH: wire.LNHLocal, SL: uint8(r.sl), SLID: uint16(r.port.attr.Load().LID) | uint16(r.bits),
		DLID: uint16(r.dlid)}
	lane(w, p)
	if r.global {
		w.LRH.LNH, w.GRH = wire.LNHGlobal, r.grh
	}
	return true
}
