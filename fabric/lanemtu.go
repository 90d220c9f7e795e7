package fabric

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/sma"
)

// Lanes of a port may have MTUs of their own, as on Omni-Path. NeighborMTU, which the subnet manager reads and sets,
// is the largest one of all lanes: a lane has the smaller one of its own MTU and NeighborMTU. A packet takes the lane
// that SLtoVL has for its service level, so an adapter sees MTUs by service level (ci.PortAttr.MTUs).

// laneMTUs are the MTU codes of the lanes of a port, 4 bits each; 0: no MTU of its own.
type laneMTUs struct{ w atomic.Uint64 }

// init sets the MTUs of the first lanes.
func (l *laneMTUs) init(list []ci.MTU) {
	for lane, m := range list {
		l.set(uint8(lane), m)
	}
}

// set sets the MTU of a lane. It reports whether that changes it.
func (l *laneMTUs) set(lane uint8, m ci.MTU) bool {
	for {
		old := l.w.Load()
		w := old&^(15<<(4*lane)) | uint64(m)<<(4*lane)
		if l.w.CompareAndSwap(old, w) {
			return w != old
		}
	}
}

// of returns the MTU of a lane on a port with the NeighborMTU most.
func (l *laneMTUs) of(lane uint8, most ci.MTU) ci.MTU {
	if m := ci.MTU(l.w.Load() >> (4 * (lane & 15)) & 15); m != 0 {
		return min(m, most)
	}
	return most
}

// SetLaneMTU sets the MTU of a data lane at a port; 0 removes it. The lane then has the port's MTU. It concerns packets
// that leave at the port: set it at all ports of the fabric alike, or as Config.LaneMTUs. Errors: a lane above 14; an
// MTU code above that of 4096 bytes.
func (p *Port) SetLaneMTU(lane uint8, m ci.MTU) error {
	if lane >= managementLane || m > ci.MTU4096 {
		return fmt.Errorf("fabric: MTU code %d for lane %d: want codes up to %d, and lanes below %d", m, lane,
			ci.MTU4096, managementLane)
	}
	if p.lanes.set(lane, m) {
		p.node.Changed(p.num, sma.ChangeMTU)
	}
	return nil
}

// laneMTU returns the most bytes of payload of a packet on a lane of the port. w is the port's word.
func (p *Port) laneMTU(w fastWord, lane uint8) uint32 {
	return uint32(p.lanes.of(lane, w.mtu()).Bytes())
}

// mtus returns the MTUs of an adapter's port by service level, or nil if all lanes have that of the port. A service
// level without a lane has the port's MTU: its packets are dropped for another reason.
func (p *Port) mtus() []ci.MTU {
	if p.lanes.w.Load() == 0 {
		return nil
	}
	w := p.fast.load()
	list := make([]ci.MTU, 16)
	for sl := range list {
		list[sl] = w.mtu()
		if lane := p.node.soft.VL(0, 0, uint8(sl)); lane < w.lanes() {
			list[sl] = p.lanes.of(lane, w.mtu())
		}
	}
	return list
}

// fits reports whether a parcel of an adapter is within the MTU of its lane. It counts one that is not as dropped.
func (p *Port) fits(x *parcel) bool {
	if x.largest <= p.laneMTU(p.fast.load(), p.node.soft.VL(0, 0, uint8(x.sl))) {
		return true
	}
	p.drop(dropMTU, x)
	return false
}
