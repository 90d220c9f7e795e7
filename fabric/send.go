package fabric

import (
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/wire"
)

// Send moves packets to the ports that have their LIDs. Packets that cannot be delivered are counted where they were
// dropped; those that do not leave the port are also counted by the adapter.
func (c *CAPort) Send(pkts []rvt.Packet) {
	lost := 0
	for i := 0; i < len(pkts); {
		p := &pkts[i]
		r, ok := p.Route.(*route)
		if !ok || c.closed.Load() {
			lost += int(p.N)
			i++
			continue
		}
		if d, ok := r.datagram(p); ok {
			if !c.sendManagement(d) {
				lost++
			}
			i++
			continue
		}
		if r.isMulticast() {
			c.sendRun(r, pkts[i:i+1])
			i++
			continue
		}
		j := i + 1
		for j < len(pkts) && pkts[j].Route == p.Route && pkts[j].DestQP == p.DestQP && pkts[j].PKey == p.PKey &&
			!(r.global && p.Service == wire.UD) {
			j++
		}
		if !c.sendRun(r, pkts[i:j]) {
			lost += count(pkts[i:j])
		}
		i = j
	}
	if lost > 0 && c.started.Load() {
		c.recv.Count(rvt.DropSendFailed, lost)
	}
}

func count(pkts []rvt.Packet) int {
	n := 0
	for i := range pkts {
		n += int(pkts[i].N)
	}
	return n
}

// parcel returns what switches look at in a run of packets.
func (r *route) parcel(pkts []rvt.Packet) parcel {
	x := parcel{slid: r.slid(), dlid: r.dlid, sl: r.sl, pkey: pkts[0].PKey, srcQP: pkts[0].SrcQP,
		destQP: pkts[0].DestQP, management: pkts[0].DestQP == 0}
	for i := range pkts {
		p := &pkts[i]
		x.packets += p.N
		x.bytes += linkBytes(p, r.global)
		largest := p.Len
		if p.N > 1 {
			largest = p.MTU
		}
		x.largest = max(x.largest, largest)
	}
	return x
}

// linkBytes returns the length of a train on the link: its packets from LRH to ICRC.
func linkBytes(p *rvt.Packet, global bool) uint64 {
	each := uint64(wire.LRHLen + wire.BTHLen + wire.ICRCLen)
	if global {
		each += wire.GRHLen
	}
	n := each*uint64(p.N) + uint64(p.Len+3)&^3
	if p.Service == wire.UD {
		n += wire.DETHLen
	}
	switch p.Op {
	case wire.OpWrite, wire.OpReadRequest:
		if p.Start {
			n += wire.RETHLen
		}
	case wire.OpAtomicWrite:
		n += wire.RETHLen
	case wire.OpFlush:
		n += wire.FETHLen + wire.RETHLen
	case wire.OpCompareSwap, wire.OpFetchAdd:
		n += wire.AtomicETHLen
	case wire.OpReadResponse:
		if p.Start {
			n += wire.AETHLen
		}
		if p.End && !(p.Start && p.N == 1) {
			n += wire.AETHLen
		}
	case wire.OpAcknowledge:
		n += wire.AETHLen
	case wire.OpAtomicAcknowledge:
		n += wire.AETHLen + wire.AtomicAckETHLen
	}
	if p.HasImm {
		n += wire.ImmDtLen
	}
	if p.HasInv {
		n += wire.IETHLen
	}
	return n
}

// room holds the copy of a packet that goes to several ports, or a GRH.
type room struct {
	pkt  [1]rvt.Packet
	list [][]byte
	grh  [wire.GRHLen]byte
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// sendRun sends packets with one address, or queues them for the link. It reports whether the port has taken them.
func (c *CAPort) sendRun(r *route, pkts []rvt.Packet) bool {
	x := r.parcel(pkts)
	switch {
	case !c.port.maySend(&x):
		c.port.drop(dropState, &x)
		return false
	case c.port.node.fabric.timing && !c.port.owns(r.dlid):
		c.out.put(r, pkts)
	default:
		c.depart(r, pkts, false)
	}
	return true
}

// depart moves packets with one address to the ports that have it. own reports that nothing else uses the packets.
func (c *CAPort) depart(r *route, pkts []rvt.Packet, own bool) {
	if r.isMulticast() {
		c.departMulticast(r, pkts)
		return
	}
	f := c.port.node.fabric
	t := f.now()
	x := r.parcel(pkts)
	if !c.port.fits(&x) {
		return
	}
	to := f.carry(c.port, &x, &t)
	if to == nil {
		return
	}
	ca := to.ca.Load()
	if ca == nil {
		to.drop(dropManager, &x)
		return
	}
	if !to.admits(&x) {
		return
	}
	for i := range pkts {
		r.address(&pkts[i], to)
	}
	if r.global && pkts[0].Service == wire.UD {
		g := rooms.Get().(*room)
		r.putGRH(g.grh[:], &pkts[0])
		pkts[0].GRH = g.grh[:]
		ca.hand(pkts, t, false)
		pkts[0].GRH = nil
		rooms.Put(g)
		return
	}
	ca.hand(pkts, t, own)
}

// hand delivers packets at their time of arrival. Unless they are its own, they are the caller's again afterwards.
func (c *CAPort) hand(pkts []rvt.Packet, t time.Duration, own bool) {
	if !c.port.node.fabric.timing {
		c.deliver(pkts)
		return
	}
	if !own {
		pkts = copyPackets(pkts)
	}
	c.queue.put(pkts, t)
}

// datagram returns a packet for QP0 or QP1 as a management datagram. ok is false for any other packet: one of another
// length, or on QP0 of another class, which is for the adapter at the destination as it is.
func (r *route) datagram(p *rvt.Packet) (d *Datagram, ok bool) {
	if p.DestQP > 1 || p.Service != wire.UD || p.Len != mad.Size || p.N != 1 {
		return nil, false
	}
	var m ci.MAD
	n := 0
	for _, b := range p.Payload {
		n += copy(m[n:], b)
	}
	class := mad.Class(m[1])
	if n != mad.Size || p.DestQP == 0 && class != mad.ClassSubnetLID && class != mad.ClassSubnetDirected {
		return nil, false
	}
	d = &Datagram{SLID: r.slid(), DLID: r.dlid, SL: r.sl, SrcQP: p.SrcQP, DestQP: p.DestQP, PKey: p.PKey, QKey: p.QKey,
		MAD: &m}
	if r.global {
		d.GRH = make([]byte, wire.GRHLen)
		r.putGRH(d.GRH, p)
	}
	return d, true
}

// sendManagement sends a management datagram. It reports whether it has left the port.
func (c *CAPort) sendManagement(d *Datagram) bool {
	f := c.port.node.fabric
	if d.DestQP == 0 {
		return f.subnet(c.port, d) == nil
	}
	_ = f.general(c.port, d) // counted where it was dropped
	return true
}
