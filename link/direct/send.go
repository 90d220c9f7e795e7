package direct

import (
	"sync"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// copyRoom holds one receiver's copy of a packet that goes to several, or a GRH.
type copyRoom struct {
	pkt  [1]rvt.Packet
	list [][]byte
	grh  [wire.GRHLen]byte
}

var copies = sync.Pool{New: func() any { return new(copyRoom) }}

// Send delivers packets. Packets that cannot be delivered are counted at the sender.
func (p *Port) Send(pkts []rvt.Packet) {
	lost := 0
	for i := 0; i < len(pkts); {
		r, ok := pkts[i].Route.(*route)
		if !ok || !p.maySend(pkts[i].DestQP) {
			lost += int(pkts[i].N)
			i++
			continue
		}
		if r.multicast() {
			p.flood(r, &pkts[i])
			i++
			continue
		}
		to := r.to()
		if to == nil {
			lost += int(pkts[i].N)
			i++
			continue
		}
		if r.global && pkts[i].Service == wire.UD {
			p.sendGlobal(r, to, pkts[i:i+1])
			i++
			continue
		}
		j := i
		for ; j < len(pkts) && pkts[j].Route == rvt.Route(r) && pkts[j].DestQP == pkts[i].DestQP; j++ {
			r.address(&pkts[j], to)
		}
		to.deliver(pkts[i:j])
		i = j
	}
	if lost > 0 {
		p.count(rvt.DropSendFailed, lost)
	}
}

func (r *route) multicast() bool { return r.dlid >= firstMulticastLID && r.dlid != permissiveLID }

// address sets the addresses of a packet as its receiver sees them.
func (r *route) address(p *rvt.Packet, to *Port) {
	slid, _ := r.from.lids()
	p.Src.LID, p.Dst.LID = slid|ci.LID(r.bits), r.dlid // the engine's packets come without addresses
	p.SL, p.PathBits = r.sl, 0
	if !r.multicast() {
		_, lmc := to.lids()
		p.PathBits = uint8(r.dlid) & (1<<lmc - 1)
	}
	if r.global {
		p.Dst.GID = r.grh.DGID
	}
}

// putGRH writes the GRH of a datagram.
func (r *route) putGRH(b []byte, p *rvt.Packet) {
	op := wire.UDSendOnly
	if p.HasImm {
		op = wire.UDSendOnlyImm
	}
	g := r.grh
	g.PayloadLen = uint16(wire.PacketLen(op, int(p.Len)))
	g.Put(b)
}

// sendGlobal sends one datagram with its GRH.
func (p *Port) sendGlobal(r *route, to *Port, pkt []rvt.Packet) {
	c := copies.Get().(*copyRoom)
	r.address(&pkt[0], to)
	r.putGRH(c.grh[:], &pkt[0])
	pkt[0].GRH = c.grh[:]
	to.deliver(pkt)
	pkt[0].GRH = nil
	copies.Put(c)
}

// flood delivers a packet to every port, each with a copy of packet and gather list, which a receiver may change.
func (p *Port) flood(r *route, pkt *rvt.Packet) {
	c := copies.Get().(*copyRoom)
	for _, to := range p.link.now().all {
		c.pkt[0] = *pkt
		c.list = append(c.list[:0], pkt.Payload...)
		c.pkt[0].Payload = c.list
		r.address(&c.pkt[0], to)
		r.putGRH(c.grh[:], pkt)
		c.pkt[0].GRH = c.grh[:]
		to.deliver(c.pkt[:])
	}
	clear(c.list)
	c.pkt[0] = rvt.Packet{}
	copies.Put(c)
}
