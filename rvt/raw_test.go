package rvt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A rawPeer is the other end of a link without an engine: a test inspects each packet and sends each packet itself.
type rawPeer struct {
	*linkPort
	got  []Packet
	side *side
	typ  ci.QPType
}

const rawQPN = 0x123456

func (r *rawPeer) Deliver(pkts []Packet, _, _ bool) {
	for i := range pkts {
		r.got = append(r.got, own(&pkts[i]))
	}
}
func (r *rawPeer) FlushAcks()             {}
func (r *rawPeer) PortEvent(ci.EventType) {}
func (r *rawPeer) Count(Counter, int)     {}

// A rawPair is one side, connected to a rawPeer, in virtual time.
func rawPair(t *testing.T, l *wireLink, typ ci.QPType, tweak func(*ci.QPAttr)) (*side, *rawPeer, *fakeClock) {
	if l.mtu == 0 {
		l.mtu = ci.MTU4096
	}
	r := &rawPeer{linkPort: l.port(), typ: typ}
	r.linkPort.rx = r
	c := newClock()
	s := newSide(t, l, 0xa, c, typ, nil)
	r.side = s
	a := s.attrTo(rawQPN, r.lid)
	if tweak != nil {
		tweak(&a)
	}
	s.toRTS(a)
	return s, r, c
}

// take returns the packets since the last take.
func (r *rawPeer) take() []Packet {
	p := r.got
	r.got = nil
	return p
}

// one returns the only packet since the last take.
func (r *rawPeer) one() Packet {
	r.side.t.Helper()
	p := r.take()
	require.Len(r.side.t, p, 1)
	return p[0]
}

// say delivers packets to the side in one call, as sent by the QP's peer.
func (r *rawPeer) say(pkts ...Packet) { r.sayOf(1024, pkts...) }

// sayOf is say for packets of another MTU.
func (r *rawPeer) sayOf(mtu uint32, pkts ...Packet) {
	for i := range pkts {
		p := &pkts[i]
		p.Service, p.DestQP, p.PKey = services[r.typ], r.side.qp.Num(), 0xffff
		p.MigReq, p.Src = true, Addr{LID: r.lid}
		if p.N == 0 {
			p.N = 1
		}
		p.MTU = mtu
		p.Len = 0
		for _, b := range p.Payload {
			p.Len += uint32(len(b))
		}
	}
	receiverOf(r.side.hca, 0).Deliver(pkts, true, false)
}

const psn0 = ci.PSN(0xfffff0) // starting PSN of the rig's QPs

func psnAt(k int) ci.PSN { return psnAdd(psn0, uint32(k)) }

func ack(k int) Packet {
	return Packet{Op: wire.OpAcknowledge, Start: true, End: true, PSN: psnAt(k),
		Syndrome: wire.ACK(wire.CreditsInvalid)}
}

func nak(k int, s wire.Syndrome) Packet {
	return Packet{Op: wire.OpAcknowledge, Start: true, End: true, PSN: psnAt(k), Syndrome: s}
}

// sendPkt returns a SEND of one packet.
func sendPkt(k int, data string) Packet {
	return Packet{Op: wire.OpSend, Start: true, End: true, Ack: true, PSN: psnAt(k), Payload: [][]byte{[]byte(data)}}
}

// advance advances the time by d and returns the resulting packets.
func (r *rawPeer) after(c *fakeClock, d time.Duration) []Packet {
	c.Advance(d)
	return r.take()
}
