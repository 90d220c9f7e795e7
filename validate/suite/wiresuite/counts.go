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
func (s *station) counter(at int) uint16 { return binary.BigEndian.Uint16(s.perf(mad.Get, nil)[at:]) }

// perf executes a Get or Set of PortCounters and returns the counters. set may change the data of the request.
func (s *station) perf(method mad.Method, set func(data []byte)) []byte {
	var in, out ci.MAD
	q := mad.Perf{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerformance,
		ClassVersion: mad.ClassVersionPerformance, Method: method, TID: 7, Attribute: mad.AttrPortCounters}}
	if q.Data[1] = s.ca.Port.Num; set != nil {
		set(q.Data[:])
	}
	q.Put(in[:])
	kit.OK(s.t, s.ca.LocalMAD(s.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of PortCounters")
	q.Parse(out[:])
	if q.Method != mad.GetResp || q.Status != mad.StatusOK {
		s.t.Skip("the port has no agent of performance management: method %#x, status %#x", q.Method, q.Status)
	}
	return q.Data[:]
}

var _ = counts.Add("wire.count.select", "Set of PortCounters with one bit of CounterSelect", countSelect,
	counts.Must("WIRE-Count-04", "IBTA 16.1.3.5", "CounterSelect",
		"Set(PortCounters) writes the counters that CounterSelect selects, and no others."))

func countSelect(t *validate.T) {
	s := open(t)
	selected := [2]struct{ bit, at int }{{3, counterRcvErrors}, {6, counterXmitDiscards}}
	set := func(bits uint16, n uint16) {
		s.perf(mad.Set, func(b []byte) {
			binary.BigEndian.PutUint16(b[2:], bits)
			for _, x := range selected {
				binary.BigEndian.PutUint16(b[x.at:], n)
			}
		})
	}
	t.Cleanup(func() { set(1<<selected[0].bit|1<<selected[1].bit, 0) })
	for i, x := range kit.Variants(t, "counter", selected[:]) {
		other := selected[1-i]
		before := s.counter(other.at)
		set(1<<x.bit, 5)
		if n := s.counter(x.at); n != 0 { // a port may not have the counter
			kit.Equal(t, "counter that CounterSelect selects, after a Set to 5", n, 5)
		}
		kit.Equal(t, "counter that CounterSelect does not select, after a Set", s.counter(other.at), before)
		set(1<<x.bit, 0)
	}
}

var _ = counts.Add("wire.count.errors",
	"packets with wrong CRCs and lengths, and packets that are dropped for other reasons", countErrors,
	counts.Must("WIRE-Count-01", "IBTA 16.1.3.5", "PortRcvErrors",
		"PortRcvErrors counts each packet with a wrong CRC or a wrong length once. It does not count a packet that "+
			"is dropped for another reason."))

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

var _ = counts.Needing(validate.Needs{Caps: ci.CapLocalMAD | ci.CapUD | ci.CapAV}).With(
	validate.Case{Spoils: true}).Add("wire.count.discards", "datagrams of a port that is down", countDiscards,
	counts.Must("WIRE-Count-02", "IBTA 16.1.3.5", "PortXmitDiscards",
		"PortXmitDiscards counts each packet that is discarded because the port is down."))

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

var _ = counts.Needing(validate.Needs{Caps: ci.CapPKeyCounter | ci.CapQKeyCounter | ci.CapUD | ci.CapAV}).Add(
	"wire.count.keys", "packets with wrong P_Keys and Q_Keys, up to the end of the counters", countKeys,
	counts.Must("WIRE-Count-03", "IBTA 10.9.4", "violation counters",
		"The counters of P_Key and Q_Key violations count each packet that is dropped for its key, and stay at their "+
			"largest value."))

func countKeys(t *validate.T) {
	s := open(t)
	rc, ud := s.dial(), s.dial(kit.Type(ci.UD))
	other := func(o *outgoing) { o.BTH.PKey ^= 0x0100 }
	datagram := func(x twist) {
		ud.Recv(ud.RecvWR(1, 0, 128))
		ud.request(wire.UDSendOnly, ud.bytes(8), x)
		ud.udGood(1)
	}
	set := func(n uint16) {
		kit.OK(t, s.ca.Modify(s.ca.Port.Num, ci.PortFieldPKeyErrors|ci.PortFieldQKeyErrors,
			ci.PortModify{PKeyErrors: n, QKeyErrors: n}), "CA.Modify of the violation counters")
	}
	t.Cleanup(func() { set(0) })
	for _, x := range kit.Variants(t, "", []struct {
		what  string
		field ci.PortField
		send  func()
	}{
		{"WRITEs of another partition", ci.PortFieldPKeyErrors,
			func() { rc.ignored("a WRITE of another partition", wire.RCWriteOnly, other) }},
		{"datagrams of another partition", ci.PortFieldPKeyErrors, func() { datagram(other) }},
		{"datagrams with another Q_Key", ci.PortFieldQKeyErrors, func() {
			datagram(withDeth(wire.DETH{QKey: uint32(ud.Config.QKey) ^ 1, SrcQP: ud.qpn}))
		}},
	}) {
		for _, from := range []uint16{0, 0xfffe, 0xffff} {
			set(from)
			for range 2 {
				x.send()
			}
			want, got := ci.PortModify{PKeyErrors: from, QKeyErrors: from}, ci.PortModify{}
			if n := uint16(min(int(from)+2, 0xffff)); x.field == ci.PortFieldPKeyErrors {
				want.PKeyErrors = n
			} else {
				want.QKeyErrors = n
			}
			a, err := s.ca.Query()
			kit.OK(t, err, "CA.Query")
			port := a.Ports[s.ca.Port.Num-1]
			got.PKeyErrors, got.QKeyErrors = port.PKeyErrors, port.QKeyErrors
			kit.Equal(t, fmt.Sprintf("violation counters, from %d on, after 2 %s", from, x.what), got, want)
		}
	}
}

var _ = counts.Needing(validate.Needs{}).With(validate.Case{Spoils: true}).Add("wire.drop.down",
	"requests to a port that is down", func(t *validate.T) {
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
	}, counts.Must("WIRE-Drop-19", "IBTA 7.2.7", "port state Down",
		"A port that is down receives no packet and sends none. When it is up again, connections continue."))

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
