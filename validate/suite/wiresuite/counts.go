package wiresuite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// counts are the cases of the counters of performance management for packets that are not received or not sent, and of
// ports that are down. (IBTA 16.1.3.5, 7.2.7.)
var counts = area().Needing(validate.Needs{Caps: ci.CapLocalMAD})

// Offsets of 16-bit counters in PortCounters (IBTA volume 1, 16.1.3.5), in bytes.
const (
	counterRcvErrors    = 8
	counterXmitDiscards = 14
)

// counter returns a 16-bit counter of the port. It skips the case if the port does not count it.
func (s *station) counter(at int) uint16 {
	var in, out ci.MAD
	q := mad.Perf{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerformance,
		ClassVersion: mad.ClassVersionPerformance, Method: mad.Get, TID: 7, Attribute: mad.AttrPortCounters}}
	q.Data[1] = s.ca.Port.Num
	q.Put(in[:])
	kit.OK(s.t, s.ca.LocalMAD(s.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of PortCounters")
	q.Parse(out[:])
	if q.Method != mad.GetResp || q.Status != mad.StatusOK {
		s.t.Skip("the port has no agent of performance management: method %#x, status %#x", q.Method, q.Status)
	}
	return binary.BigEndian.Uint16(q.Data[at:])
}

var WIRECount01 = counts.Must("WIRE-Count-01", "IBTA 16.1.3.5", "PortRcvErrors",
	"PortRcvErrors counts each packet with a wrong CRC or a wrong length once. It does not count a packet that is "+
		"dropped for another reason.")

var _ = counts.Add("wire.count.errors",
	"packets with wrong CRCs and lengths, and packets that are dropped for other reasons", countErrors, WIRECount01)

// counted is a packet that is dropped.
type counted struct {
	what  string
	isBad bool // PortRcvErrors counts it
	twist twist
}

func countErrors(t *validate.T) {
	p := dial(t)
	p.needBytes()
	cut := func(n int) twist { return func(o *outgoing) { o.cut = func(b []byte) []byte { return b[:n] } } }
	list := []counted{
		{"an ICRC that is off by 1", true, func(o *outgoing) { o.icrcDelta = 1 }},
		{"an ICRC whose highest bit is wrong", true, func(o *outgoing) { o.icrcDelta = 1 << 31 }},
		{"12 bytes after the headers of the link", true, cut(12)},
		{"13 bytes after the headers of the link", true, cut(13)},
		{"no RETH", true, func(o *outgoing) {
			o.Payload, o.BTH.Opcode = nil, wire.RCSendOnly
			o.alter = func(b []byte) { b[0] = byte(wire.RCWriteOnly) }
		}},
		{"another partition", false, func(o *outgoing) { o.BTH.PKey ^= 0x0100 }},
		{"the number of no QP", false, func(o *outgoing) { o.BTH.DestQP ^= 0x3ff }},
		{"the opcode of another service", false, func(o *outgoing) { o.BTH.Opcode = wire.UCWriteOnly }},
	}
	if p.info.Link == ci.LinkInfiniBand {
		list = append(list,
			counted{"a wrong VCRC", true, func(o *outgoing) { o.whole = func(b []byte) { b[len(b)-1] ^= 1 } }},
			counted{"link version 1", true, front(func(b []byte) { b[0] |= 1 })},
			counted{"VL 15", false, func(o *outgoing) { o.vl = 15 }})
	} else if p.info.SendsHeader && p.info.Header {
		list = append(list,
			counted{"protocol 6", true, summed(func(b []byte) {
				if b[0]>>4 == 4 {
					b[9] = 6
				} else {
					b[6] = 6
				}
			})},
			counted{"another UDP length", true, front(func(b []byte) { add(b, len(b)-udpLen+4, 4) })},
			counted{"another UDP port", false, front(func(b []byte) { add(b, len(b)-udpLen+2, 1) })})
	}
	for _, x := range kit.Variants(t, "", list) {
		before := p.counter(counterRcvErrors)
		p.ignored("a WRITE with "+x.what, wire.RCWriteOnly, x.twist)
		want := uint16(0)
		if x.isBad {
			want = 1
		}
		kit.Equal(t, "PortRcvErrors after a WRITE with "+x.what, p.counter(counterRcvErrors)-before, want)
	}
}

var WIRECount02 = counts.Must("WIRE-Count-02", "IBTA 16.1.3.5", "PortXmitDiscards",
	"PortXmitDiscards counts each packet that is discarded because the port is down.")

var _ = counts.Case(validate.Case{
	ID:     "wire.count.discards",
	Title:  "datagrams of a port that is down",
	Needs:  validate.Needs{Caps: ci.CapLocalMAD | ci.CapUD | ci.CapAV},
	Spoils: true,
	Run:    countDiscards,
}, WIRECount02)

func countDiscards(t *validate.T) {
	p := dial(t, kit.Type(ci.UD))
	t.SetLink(false)
	defer t.SetLink(true)
	for i, n := range kit.Variants(t, "datagrams", []int{1, 3}) {
		before := p.counter(counterXmitDiscards)
		var wrs []ci.SendWR
		for k := range n {
			wrs = append(wrs, p.SendWR(uint64(10*i+k+1), 0, 8))
		}
		p.Send(wrs...)
		for _, wr := range wrs {
			p.CQ.WaitOK(wr.ID)
		}
		what := fmt.Sprintf("PortXmitDiscards after %d datagrams of a port that is down", n)
		kit.Equal(t, what, p.counter(counterXmitDiscards)-before, uint16(n))
	}
}

var WIREDrop19 = counts.Must("WIRE-Drop-19", "IBTA 7.2.7", "port state Down",
	"A port that is down receives no packet and sends none. When it is up again, connections continue.")

var _ = counts.Case(validate.Case{
	ID:     "wire.drop.down",
	Title:  "requests to a port that is down",
	Spoils: true,
	Run:    dropDown,
}, WIREDrop19)

func dropDown(t *validate.T) {
	p := dial(t)
	if p.info.Link == ci.LinkEthernet && !p.info.SendsHeader {
		t.Skip("packets to the port and to the certifier are not in order on this link")
	}
	p.taken("a WRITE before the port is down", 16)
	p.blank()
	p.Recv(p.RecvWR(1, 1024, 64))
	t.SetLink(false)
	for range 2 {
		p.stray(wire.RCWriteOnly, p.bytes(16), p.reth(0, 16))
		p.stray(wire.RCSendOnly, p.bytes(16))
	}
	p.fence()
	t.SetLink(true)
	p.barrier("requests to a port that is down", -1)
	p.RecvCQ.Empty()
	p.Buf.WantOnly(t, "memory after requests to a port that is down", 0, nil)
}

// fence returns when the packets that were sent before have arrived. It sends one to the certifier itself, and waits
// for it. On InfiniBand links packets arrive within Send.
func (p *peer) fence() {
	if p.info.Link == ci.LinkInfiniBand {
		return
	}
	b := p.packet(wire.RCWriteOnly, nil, func(o *outgoing) { o.dst = p.info.GID }).bytes(&p.info)
	if err := p.w.Send(b); err != nil {
		p.t.Harness("sending a packet to the certifier: %v", err)
	}
	for {
		got, err := p.w.Recv(p.t.Context())
		if err != nil {
			p.t.Harness("receiving a packet of the certifier: %v", err)
		}
		if bytes.Equal(got, b) {
			return
		}
	}
}
