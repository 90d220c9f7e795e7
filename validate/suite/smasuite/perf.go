package smasuite

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Performance management: the counters of the port.
var perf = area()

const perfVerb = "QP1; ci_local_mad (65)"

// A meter is the performance management agent of the first port.
type meter struct {
	t    *validate.T
	ca   *kit.CA
	peer *peer // requests come from QP1 of another port; nil: from CA.LocalMAD
	tid  uint64
}

// newMeter returns the agent. Requests reach it through CA.LocalMAD or, if the driver has none, from another port.
func newMeter(t *validate.T, ca *kit.CA) *meter {
	m := &meter{t: t, ca: ca, tid: firstTID}
	if !t.Claims().Has(ci.CapLocalMAD) {
		m.peer = newPeer(t, ca, ci.QP1)
	}
	return m
}

// request returns a datagram for an attribute of a port.
func (m *meter) request(method mad.Method, attr uint16) *mad.Perf {
	m.tid++
	q := &mad.Perf{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerformance,
		ClassVersion: mad.ClassVersionPerformance, Method: method, TID: m.tid, Attribute: attr}}
	q.Data[1] = m.ca.Port.Num
	return q
}

// do executes a request that must be answered with a status.
func (m *meter) do(q *mad.Perf, status uint16) (r mad.Perf) {
	where := fmt.Sprintf("%v of %s", q.Method, mad.AttributeName(mad.ClassPerformance, q.Attribute))
	var in, out ci.MAD
	q.Put(in[:])
	if m.peer == nil {
		for i := range out {
			out[i] = 0xa5
		}
		kit.OK(m.t, m.ca.LocalMAD(m.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of "+where)
	} else {
		m.peer.send(&in)
		out, _ = m.peer.take(m.t.Remaining(), isResponse(q.TID))
	}
	kit.True(m.t, out != ci.MAD{}, "response to "+where, "a response", "none")
	r.Parse(out[:])
	kit.Equal(m.t, "status of "+where, mad.Status(r.Status), mad.Status(status))
	return r
}

// counters reads PortCounters.
func (m *meter) counters() (c mad.PortCounters) {
	r := m.do(m.request(mad.Get, mad.AttrPortCounters), mad.StatusOK)
	c.Parse(r.Data[:])
	return c
}

// clear sets the selected counters of PortCounters to 0.
func (m *meter) clear(selected uint16) {
	q := m.request(mad.Set, mad.AttrPortCounters)
	c := mad.PortCounters{PortSelect: m.ca.Port.Num, CounterSelect: selected}
	c.Put(q.Data[:])
	m.do(q, mad.StatusOK)
}

// class reads ClassPortInfo.
func (m *meter) class() (info mad.ClassPortInfo) {
	r := m.do(m.request(mad.Get, mad.AttrClassPortInfo), mad.StatusOK)
	info.Parse(r.Data[:])
	return info
}

// extended reads PortCountersExtended. It skips the case if the agent has none.
func (m *meter) extended() (c mad.PortCountersExtended) {
	r := m.do(m.request(mad.Get, mad.AttrClassPortInfo), mad.StatusOK)
	var info mad.ClassPortInfo
	info.Parse(r.Data[:])
	if info.CapabilityMask&(mad.PerfCapExtendedWidth|mad.PerfCapExtendedWidthNoIETF) == 0 {
		m.t.Skip("ClassPortInfo.CapabilityMask does not claim PortCountersExtended")
	}
	r = m.do(m.request(mad.Get, mad.AttrPortCountersExtended), mad.StatusOK)
	c.Parse(r.Data[:])
	return c
}

var _ = perf.Add("sma.perf.bytes", "header and reserved bytes of responses", func(t *validate.T) {
	m := newMeter(t, kit.Open(t))
	list := []uint16{mad.AttrClassPortInfo, mad.AttrPortCounters}
	if m.class().CapabilityMask&(mad.PerfCapExtendedWidth|mad.PerfCapExtendedWidthNoIETF) != 0 {
		list = append(list, mad.AttrPortCountersExtended)
	}
	for _, attr := range kit.Variants(t, "attribute", list) {
		q := m.request(mad.Get, attr)
		r := m.do(q, mad.StatusOK)
		full := m.request(mad.Get, attr)
		for i := range full.Data {
			if i != 1 {
				full.Data[i] = 0xff
			}
		}
		f := m.do(full, mad.StatusOK)
		first := 0 // byte that the request does not decide
		if attr != mad.AttrClassPortInfo {
			first = mad.PortCountersExtendedLen
			kit.Equal(t, "first byte of the attribute", f.Data[0], 0)
			kit.SameBytes(t, "PortSelect and CounterSelect", f.Data[1:4], []byte{m.ca.Port.Num, 0xff, 0xff})
		}
		kit.SameBytes(t, "response to a request with ones as its data", f.Data[first:], r.Data[first:])
		want := q.Header
		want.Method = mad.GetResp
		kit.Equal(t, "header of the response", fmt.Sprintf("%+v", r.Header), fmt.Sprintf("%+v", want))
		kit.True(t, r.Reserved24 == [40]byte{}, "bytes 24 to 63 of the response", "zeros", "%x", r.Reserved24)
	}
}, perf.Must("SMA-Perf-01", "IBTA 16.1.1", perfVerb,
	"A response of performance management repeats the header of its request, and has zeros in reserved fields."))

var _ = perf.Add("sma.perf.status", "unknown versions, methods and attributes", func(t *validate.T) {
	m := newMeter(t, kit.Open(t))
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		change func(q *mad.Perf)
		status uint16
	}{
		{"class version 2", func(q *mad.Perf) { q.ClassVersion = 2 }, mad.StatusBadVersion},
		{"class version 0", func(q *mad.Perf) { q.ClassVersion = 0 }, mad.StatusBadVersion},
		{"Set of ClassPortInfo", func(q *mad.Perf) { q.Method, q.Attribute = mad.Set, mad.AttrClassPortInfo },
			mad.StatusBadMethodAttribute},
		{"GetTable", func(q *mad.Perf) { q.Method = mad.GetTable }, mad.StatusBadMethod},
		{"attribute 0x7777", func(q *mad.Perf) { q.Attribute = 0x7777 }, mad.StatusBadMethodAttribute},
		{"Set of attribute 0x7777", func(q *mad.Perf) { q.Method, q.Attribute = mad.Set, 0x7777 },
			mad.StatusBadMethodAttribute},
	}) {
		q := m.request(mad.Get, mad.AttrPortCounters)
		v.change(q)
		m.do(q, v.status)
	}
	if m.peer == nil { // on the link, QP1 drops other base versions
		q := m.request(mad.Get, mad.AttrPortCounters)
		q.BaseVersion = 2
		m.do(q, mad.StatusBadVersion)
	}
}, perf.Must("SMA-Perf-02", "IBTA 13.4.7", perfVerb,
	"Performance management answers unknown versions, methods and attributes with their status."))

var _ = perf.Add("sma.perf.none", "datagrams of performance management without a response", func(t *validate.T) {
	m := newQuietMeter(t, kit.Open(t))
	for _, method := range kit.Variants(t, "method", []mad.Method{mad.GetResp, mad.Trap, mad.TrapRepress, mad.Send,
		mad.ReportResp, 0xff}) {
		for version := range uint8(3) {
			q := m.request(method, mad.AttrPortCounters)
			q.ClassVersion = version
			var in, out ci.MAD
			q.Put(in[:])
			out[0] = 0xa5
			kit.OK(t, m.ca.LocalMAD(m.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of "+method.String())
			kit.True(t, out == ci.MAD{}, fmt.Sprintf("out of CA.LocalMAD of %v of class version %d", method, version),
				"zeros, since no response is due", "%x", out[:8])
		}
	}
}, perf.Must("SMA-Perf-13", "IBTA 13.4.5", perfVerb,
	"A response, a trap and a trap repress of performance management have no response."))

var _ = perf.Add("sma.perf.claims", "write the counters whose claims are optional", func(t *validate.T) {
	m := newQuietMeter(t, kit.Open(t))
	mask := m.class().CapabilityMask
	port, is := m.ca.Port.Num, func(c *counter) uint64 { return c.value() }
	holds := func(s *counterSet, names ...string) {
		b := m.write(s, port, 1<<len(s.list)-1, is)
		for i := range s.list {
			if c := &s.list[i]; slices.Contains(names, c.name) {
				kit.AtLeast(t, c.name+", which CapabilityMask claims, after a Set", c.get(b), c.value())
			}
		}
	}
	has := func(s *counterSet, names ...string) bool {
		b := m.write(s, port, 1<<len(s.list)-1, is)
		return !slices.ContainsFunc(s.list, func(c counter) bool {
			return slices.Contains(names, c.name) && c.get(b) < c.value()
		})
	}
	if mask&mad.PerfCapXmitWait != 0 {
		holds(&shortCounters, "PortXmitWait")
	} else {
		kit.True(t, !has(&shortCounters, "PortXmitWait"), "PortXmitWait, which CapabilityMask does not claim",
			"0 after a Set", "the value of the Set")
	}
	basic := []string{"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"}
	switch {
	case mask&mad.PerfCapExtendedWidth != 0:
		holds(&longCounters, append(basic, "PortUnicastXmitPkts", "PortUnicastRcvPkts", "PortMulticastXmitPkts",
			"PortMulticastRcvPkts")...)
	case mask&mad.PerfCapExtendedWidthNoIETF != 0:
		holds(&longCounters, basic...)
		kit.True(t, !has(&longCounters, "PortUnicastXmitPkts", "PortUnicastRcvPkts", "PortMulticastXmitPkts",
			"PortMulticastRcvPkts"), "CapabilityMask of a port that counts unicast and multicast packets",
			"IsExtendedWidthSupported", "IsExtendedWidthSupportedNoIETF")
	default:
		m.do(m.request(mad.Get, mad.AttrPortCountersExtended), mad.StatusBadMethodAttribute)
	}
}, perf.Must("SMA-Perf-14", "IBTA 16.1.2.1", perfVerb,
	"CapabilityMask in ClassPortInfo claims the counters that the port has."))

var _ = perf.Add("sma.perf.port", "PortSelect 0 and beyond the last port", func(t *validate.T) {
	m := newMeter(t, kit.Open(t))
	ports := []uint8{0, uint8(len(m.ca.Attr.Ports) + 1), 254}
	if m.class().CapabilityMask&mad.PerfCapAllPortSelect == 0 {
		ports = append(ports, mad.AllPorts)
	} else {
		q := m.request(mad.Get, mad.AttrPortCounters)
		q.Data[1] = mad.AllPorts
		r := m.do(q, mad.StatusOK)
		kit.Equal(t, "PortSelect of the response for all ports", r.Data[1], mad.AllPorts)
	}
	for _, n := range kit.Variants(t, "port", ports) {
		for _, method := range []mad.Method{mad.Get, mad.Set} {
			q := m.request(method, mad.AttrPortCounters)
			q.Data[1] = n
			m.do(q, mad.StatusBadField)
		}
	}
}, perf.Must("SMA-Perf-03", "IBTA 16.1.3.5", perfVerb,
	"A PortSelect of a port that the adapter does not have has status 0x001c, and so has that of all ports "+
		"unless CapabilityMask claims it."))

var smaPerf04 = perf.Must("SMA-Perf-04", "IBTA 16.1.3.5", perfVerb,
	"PortXmitPkts, PortRcvPkts, PortXmitData and PortRcvData count the packets of the port, and their bytes from "+
		"LRH to ICRC in units of 4.")

var _ = perf.Add("sma.perf.traffic", "counters before and after known traffic", perfTraffic, smaPerf04)

// Traffic of a case: messages of one packet.
const (
	numMessages = 20
	messageLen  = 256
	// packetWords is the size of a message on the link in units of 4 bytes: LRH, BTH, payload and ICRC.
	packetWords = (8 + 12 + messageLen + 4) / 4
	// minWords is the size of the smallest packet.
	minWords = (8 + 12 + 4) / 4
)

// exchange sends the messages from the driver to its peer.
func exchange(p *kit.Pair) {
	for i := range uint64(numMessages) {
		p.B.Recv(p.B.RecvWR(i, 0, messageLen))
		p.A.Send(p.A.SendWR(i, 0, messageLen))
		p.A.CQ.WaitOK(i)
		p.B.RecvCQ.WaitOK(i)
	}
}

func perfTraffic(t *validate.T) {
	p := kit.RC(t)
	m := newMeter(t, p.A.QP.CA)
	before := m.counters()
	exchange(p)
	now := m.counters()
	pkts, words := now.PortXmitPkts-before.PortXmitPkts, now.PortXmitData-before.PortXmitData
	kit.AtLeast(t, "packets sent", pkts, numMessages)
	extra := pkts - numMessages // such as retransmissions, or answers to requests of this case by QP1
	kit.True(t, words >= numMessages*packetWords+extra*minWords, "PortXmitData", fmt.Sprintf(
		"at least %d of %d messages, and %d of each of %d other packets", numMessages*packetWords,
		numMessages, minWords, extra), "%d", words)
	if extra == 0 {
		kit.Equal(t, "PortXmitData of 20 packets with 256 bytes of payload", words, numMessages*packetWords)
	}
	acks := now.PortRcvPkts - before.PortRcvPkts
	kit.AtLeast(t, "packets received, each an acknowledgement", acks, 1)
	kit.AtLeast(t, "PortRcvData", now.PortRcvData-before.PortRcvData, acks*minWords)
}

var _ = perf.Add("sma.perf.many", "more packets than 16 bits count", func(t *validate.T) {
	const size, mtu, packets = 1 << 15, 256, 1<<16 + 1
	p := kit.RC(t, kit.MTU(ci.MTU256), kit.Size(size))
	m := newMeter(t, p.A.QP.CA)
	m.clear(mad.SelectXmitPkts) // so that it does not saturate
	before := m.counters()
	for range packets/(size/mtu) + 1 {
		p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, size, p.B, 0))
		p.A.CQ.WaitOK(1)
	}
	kit.AtLeast(t, "packets sent", m.counters().PortXmitPkts-before.PortXmitPkts, packets)
}, smaPerf04)

var _ = perf.Add("sma.perf.select", "clear some counters, then the others", func(t *validate.T) {
	p := kit.RC(t)
	m := newMeter(t, p.A.QP.CA)
	exchange(p)
	before := m.counters()
	m.clear(mad.SelectXmitPkts)
	now := m.counters()
	kit.True(t, now.PortXmitPkts < numMessages, "PortXmitPkts after a Set of 0", "less than before", "%d",
		now.PortXmitPkts)
	kit.AtLeast(t, "PortXmitData after a Set of PortXmitPkts", now.PortXmitData, before.PortXmitData)
	kit.AtLeast(t, "PortRcvPkts after a Set of PortXmitPkts", now.PortRcvPkts, before.PortRcvPkts)
	m.clear(0)
	now = m.counters()
	kit.AtLeast(t, "PortXmitData after a Set without a selected counter", now.PortXmitData, before.PortXmitData)
	m.clear(0xffff)
	now = m.counters()
	kit.True(t, now.PortXmitData < numMessages*packetWords, "PortXmitData after a Set of all counters",
		"less than before", "%d", now.PortXmitData)
}, perf.Must("SMA-Perf-05", "IBTA 16.1.3.5", perfVerb,
	"A Set of PortCounters changes the counters that CounterSelect has, and no others."))

var _ = perf.Add("sma.perf.extended", "64-bit counters before and after known traffic", func(t *validate.T) {
	p := kit.RC(t)
	m := newMeter(t, p.A.QP.CA)
	before := m.extended()
	exchange(p)
	now := m.extended()
	kit.AtLeast(t, "packets sent", now.PortXmitPkts-before.PortXmitPkts, numMessages)
	kit.AtLeast(t, "PortXmitData", now.PortXmitData-before.PortXmitData, numMessages*packetWords)
	kit.AtLeast(t, "packets received", now.PortRcvPkts-before.PortRcvPkts, 1)
	kit.AtLeast(t, "PortRcvData", now.PortRcvData-before.PortRcvData, minWords)
}, perf.Must("SMA-Perf-06", "IBTA 16.1.4.11", perfVerb,
	"An agent that claims PortCountersExtended counts the traffic there, too."))

var _ = perf.Add("sma.perf.class", "read ClassPortInfo", func(t *validate.T) {
	m := newMeter(t, kit.Open(t))
	r := m.do(m.request(mad.Get, mad.AttrClassPortInfo), mad.StatusOK)
	var info mad.ClassPortInfo
	info.Parse(r.Data[:])
	kit.Equal(t, "BaseVersion and ClassVersion", [2]uint8{info.BaseVersion, info.ClassVersion},
		[2]uint8{mad.BaseVersion, mad.ClassVersionPerformance})
	q := m.request(mad.Get, mad.AttrPortCounters)
	q.Data[1] = mad.AllPorts
	status := uint16(mad.StatusBadField)
	if info.CapabilityMask&mad.PerfCapAllPortSelect != 0 {
		status = mad.StatusOK
	}
	m.do(q, status)
}, perf.Must("SMA-Perf-07", "IBTA 13.4.8.1", perfVerb,
	"ClassPortInfo of performance management has base version 1 and class version 1."))

var _ = perf.Needing(validate.Needs{Wire: true}).Add("sma.perf.errors",
	"packets with a wrong VCRC", func(t *validate.T) {
		m := newMeter(t, kit.Open(t))
		w := t.Wire()
		before := m.counters()
		const numBad, length = 5, 60
		for i := range byte(numBad) {
			b := make([]byte, length) // LRH: LNH 2, a BTH follows; DLID, length in words without the VCRC, SLID
			copy(b, []byte{0, 2, byte(m.ca.Port.LID >> 8), byte(m.ca.Port.LID), 0, (length - 2) / 4, 0, 1})
			b[length-1] = i
			kit.OK(t, w.Send(b), "sending a packet with a wrong VCRC")
		}
		kit.Equal(t, "PortRcvErrors", m.counters().PortRcvErrors-before.PortRcvErrors, numBad)
	}, perf.Must("SMA-Perf-08", "IBTA 16.1.3.5", perfVerb,
		"PortRcvErrors counts packets that fail the checks of the link layer."))
