package fabric

import (
	"time"

	"ciddk/rvt"
	"ciddk/sma"
)

// maxCopies bounds the copies of a multicast packet. A spanning tree makes fewer, since no subnet has more end ports.
const maxCopies = 48 << 10

// branch is a copy of a multicast packet that has arrived at a port.
type branch struct {
	at   *Port
	time time.Duration
	hops int
}

// departMulticast moves a packet to all ports of its group, the sender's own included.
func (c *CAPort) departMulticast(r *route, pkts []rvt.Packet) {
	f := c.port.node.fabric
	p := &pkts[0]
	x := r.parcel(pkts)
	t := f.now()
	if !c.port.maySend(&x) {
		c.port.drop(dropState, &x)
		return
	}
	if !c.port.fits(&x) {
		return
	}
	c.receiveCopy(r, p, t)
	f.spread(c.port, &x, t, func(to *Port, t time.Duration) {
		if ca := to.ca.Load(); ca != nil {
			ca.receiveCopy(r, p, t)
		}
	})
}

// receiveCopy delivers a copy of a multicast packet.
func (c *CAPort) receiveCopy(r *route, p *rvt.Packet, t time.Duration) {
	g := rooms.Get().(*room)
	g.pkt[0] = *p
	g.list = append(g.list[:0], p.Payload...)
	g.pkt[0].Payload = g.list
	r.address(&g.pkt[0], c.port)
	r.putGRH(g.grh[:], p)
	g.pkt[0].GRH = g.grh[:]
	c.hand(g.pkt[:], t, false)
	clear(g.list)
	g.pkt[0] = rvt.Packet{}
	rooms.Put(g)
}

// spread moves copies of a multicast parcel from an adapter's port along the forwarding tables, and calls arrive for
// each adapter's port that one arrives at.
func (f *Fabric) spread(from *Port, x *parcel, t time.Duration, arrive func(to *Port, t time.Duration)) {
	first := f.cross(from, x, &t)
	if first == nil {
		return
	}
	todo := []branch{{first, t, 0}}
	for copies := 0; len(todo) > 0; {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := b.at.node
		if n.sw == nil {
			if b.at.admits(x) {
				arrive(b.at, b.time)
			}
			continue
		}
		if b.hops >= maxHops {
			b.at.drop(dropLoop, x)
			continue
		}
		var mask sma.PortMask
		if !n.soft.MulticastPorts(x.dlid, &mask) {
			n.defaultPorts(b.at.num, &mask)
		}
		sent := false
		for num := 1; num < len(n.ports); num++ {
			out := &n.ports[num]
			if !mask.Has(uint8(num)) || out == b.at {
				continue
			}
			sent = true
			if copies++; copies > maxCopies {
				b.at.drop(dropLoop, x)
				return
			}
			if !n.switchOver(b.at, out, x) {
				continue
			}
			t := b.time
			if to := f.cross(out, x, &t); to != nil {
				todo = append(todo, branch{to, t, b.hops + 1})
			}
		}
		if !sent && !mask.Has(0) {
			b.at.drop(dropNoRoute, x)
		}
	}
}

// defaultPorts sets mask to where a switch forwards a multicast LID that its table does not have (IBTA volume 1,
// 18.2.4.3.3): by whether it came in at the primary default port.
func (n *node) defaultPorts(in uint8, mask *sma.PortMask) {
	s := n.soft.SwitchInfo()
	num := s.DefaultMcastPrimary
	if in == num {
		num = s.DefaultMcastNotPrimary
	}
	if num != 0 && int(num) < len(n.ports) {
		mask[num/64] |= 1 << (num % 64)
	}
}
