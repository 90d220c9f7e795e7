package smasuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// counter is a counter of PortCounters or PortCountersExtended: its place in the attribute, and the bit that selects it
// in a Set. Bits of the second field of selected counters follow those of the first.
type counter struct {
	name      string
	bit       int
	offset    int
	width     int  // bits; those of 4 bits share a byte
	isLow     bool // the low half of a byte
	isTraffic bool // counts each packet, and every agent has it
	mayCount  bool // may count packets
}

// most returns the largest value.
func (c *counter) most() uint64 { return 1<<c.width - 1 }

func (c *counter) get(b []byte) uint64 {
	switch c.width {
	case 4:
		if c.isLow {
			return uint64(b[c.offset] & 15)
		}
		return uint64(b[c.offset] >> 4)
	case 8:
		return uint64(b[c.offset])
	case 16:
		return uint64(binary.BigEndian.Uint16(b[c.offset:]))
	case 32:
		return uint64(binary.BigEndian.Uint32(b[c.offset:]))
	}
	return binary.BigEndian.Uint64(b[c.offset:])
}

func (c *counter) put(b []byte, v uint64) {
	switch c.width {
	case 4:
		if c.isLow {
			b[c.offset] = b[c.offset]&0xf0 | byte(v)
		} else {
			b[c.offset] = b[c.offset]&15 | byte(v)<<4
		}
	case 8:
		b[c.offset] = byte(v)
	case 16:
		binary.BigEndian.PutUint16(b[c.offset:], uint16(v))
	case 32:
		binary.BigEndian.PutUint32(b[c.offset:], uint32(v))
	default:
		binary.BigEndian.PutUint64(b[c.offset:], v)
	}
}

// value returns a value that no other counter of the list has, as far as the width permits.
func (c *counter) value() uint64 {
	switch c.width {
	case 4, 8:
		return uint64(c.bit%12 + 1)
	}
	return 1<<(c.width-4) + uint64(c.bit)<<(c.width/2)
}

// counterSet is an attribute with counters.
type counterSet struct {
	attr    uint16
	list    []counter
	selects func(b []byte, bits uint64)
}

func traffic(c counter) counter {
	c.isTraffic, c.mayCount = true, true
	return c
}

// shortCounters are those of PortCounters. (IBTA 16.1.3.5.)
var shortCounters = counterSet{mad.AttrPortCounters, []counter{
	{name: "SymbolErrorCounter", bit: 0, offset: 4, width: 16},
	{name: "LinkErrorRecoveryCounter", bit: 1, offset: 6, width: 8},
	{name: "LinkDownedCounter", bit: 2, offset: 7, width: 8},
	{name: "PortRcvErrors", bit: 3, offset: 8, width: 16},
	{name: "PortRcvRemotePhysicalErrors", bit: 4, offset: 10, width: 16},
	{name: "PortRcvSwitchRelayErrors", bit: 5, offset: 12, width: 16},
	{name: "PortXmitDiscards", bit: 6, offset: 14, width: 16},
	{name: "PortXmitConstraintErrors", bit: 7, offset: 16, width: 8},
	{name: "PortRcvConstraintErrors", bit: 8, offset: 17, width: 8},
	{name: "LocalLinkIntegrityErrors", bit: 9, offset: 19, width: 4},
	{name: "ExcessiveBufferOverrunErrors", bit: 10, offset: 19, width: 4, isLow: true},
	{name: "VL15Dropped", bit: 11, offset: 22, width: 16},
	traffic(counter{name: "PortXmitData", bit: 12, offset: 24, width: 32}),
	traffic(counter{name: "PortRcvData", bit: 13, offset: 28, width: 32}),
	traffic(counter{name: "PortXmitPkts", bit: 14, offset: 32, width: 32}),
	traffic(counter{name: "PortRcvPkts", bit: 15, offset: 36, width: 32}),
	{name: "PortXmitWait", bit: 16, offset: 40, width: 32},
	{name: "QP1Dropped", bit: 17, offset: 20, width: 16},
}, func(b []byte, bits uint64) {
	binary.BigEndian.PutUint16(b[2:], uint16(bits))
	b[18] = byte(bits >> 16)
}}

// longCounters are those of PortCountersExtended. (IBTA 16.1.4.11.)
var longCounters = func() counterSet {
	s := counterSet{mad.AttrPortCountersExtended, nil, func(b []byte, bits uint64) {
		binary.BigEndian.PutUint16(b[2:], uint16(bits&0xff))
		binary.BigEndian.PutUint32(b[4:], uint32(bits>>8))
	}}
	for i, name := range []string{"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortUnicastXmitPkts",
		"PortUnicastRcvPkts", "PortMulticastXmitPkts", "PortMulticastRcvPkts", "SymbolErrorCounter",
		"LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors",
		"PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors", "PortRcvConstraintErrors",
		"LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors", "VL15Dropped", "PortXmitWait", "QP1Dropped"} {
		s.list = append(s.list, counter{name: name, bit: i, offset: 8 + 8*i, width: 64, isTraffic: i < 4,
			mayCount: i < 8})
	}
	return s
}()

// slack is how far a counter of traffic may go on during a case that sends nothing.
const slack = 4096

// write sets the selected counters of a port, and returns the response.
func (m *meter) write(s *counterSet, port uint8, bits uint64, fill func(c *counter) uint64) []byte {
	q := m.request(mad.Set, s.attr)
	for i := range s.list {
		s.list[i].put(q.Data[:], fill(&s.list[i]))
	}
	q.Data[1] = port
	s.selects(q.Data[:], bits)
	r := m.do(q, mad.StatusOK)
	kit.Equal(m.t, "PortSelect of the response", r.Data[1], port)
	kit.SameBytes(m.t, "CounterSelect of the response", r.Data[2:4], q.Data[2:4])
	return r.Data[:]
}

// read returns the counters of a port.
func (m *meter) read(s *counterSet, port uint8) []byte {
	q := m.request(mad.Get, s.attr)
	q.Data[1] = port
	r := m.do(q, mad.StatusOK)
	kit.Equal(m.t, "PortSelect of the response", r.Data[1], port)
	return r.Data[:]
}

// has checks a counter: it has the value or, if it counts packets, a few more. An agent may lack other counters than
// those of traffic. They are 0.
func (c *counter) has(t *validate.T, b []byte, want uint64, where string) {
	got := c.get(b)
	switch {
	case got == want, c.mayCount && got > want && got-want < slack, !c.isTraffic && want != 0 && got == 0:
		return
	}
	t.Failf(c.name+" "+where, fmt.Sprintf("%#x", want), "%#x", got)
}

// written checks that a Set writes each selected counter, and no other.
func (m *meter) written(s *counterSet) {
	t, port := m.t, m.ca.Port.Num
	own := func(c *counter) uint64 { return c.value() }
	for i := range s.list {
		c := &s.list[i]
		m.write(s, port, 1<<len(s.list)-1, func(*counter) uint64 { return 0 })
		for _, b := range [][]byte{m.write(s, port, 1<<c.bit, own), m.read(s, port)} {
			for k := range s.list {
				o := &s.list[k]
				want := uint64(0)
				if o == c {
					want = c.value()
				}
				o.has(t, b, want, "after a Set of "+c.name)
			}
		}
		if c.mayCount { // the largest value is left for the end
			continue
		}
		m.write(s, port, 1<<c.bit, func(c *counter) uint64 { return c.most() })
		c.has(t, m.read(s, port), c.most(), "after a Set of its largest value")
		m.write(s, port, 0, own)
		c.has(t, m.read(s, port), c.most(), "after a Set that selects no counter")
	}
	m.write(s, port, 1<<len(s.list)-1, own)
	b := m.read(s, port)
	for i := range s.list {
		s.list[i].has(t, b, s.list[i].value(), "after a Set of all counters")
	}
}

// others checks that the counters of the adapter's other ports have their own values.
func (m *meter) others(s *counterSet) {
	all := uint64(1)<<len(s.list) - 1
	for n := range m.ca.Attr.Ports {
		m.write(s, uint8(n+1), all, func(c *counter) uint64 { return c.value() >> n })
	}
	for n := range m.ca.Attr.Ports {
		b := m.read(s, uint8(n+1))
		for i := range s.list {
			s.list[i].has(m.t, b, s.list[i].value()>>n, fmt.Sprintf("of port %d", n+1))
		}
	}
}

// newQuietMeter returns the agent of a port without traffic. It skips the case if requests are traffic themselves.
func newQuietMeter(t *validate.T, ca *kit.CA) *meter {
	m := newMeter(t, ca)
	if m.peer != nil {
		t.Skip("the requests come from another port, and are counted themselves")
	}
	return m
}

var _ = perf.Add("sma.perf.set", "write each counter of PortCounters", perfSet,
	perf.Must("SMA-Perf-10", "IBTA 16.1.3.5", perfVerb,
		"A Set of PortCounters writes the value of each selected counter of the selected port, and no other counter."))

func perfSet(t *validate.T) {
	m := newQuietMeter(t, kit.Open(t))
	m.written(&shortCounters)
	m.others(&shortCounters)
}

var _ = perf.Add("sma.perf.set-extended", "write each counter of PortCountersExtended", perfSetExtended,
	perf.Must("SMA-Perf-11", "IBTA 16.1.4.11", perfVerb,
		"A Set of PortCountersExtended writes the value of each selected counter of the selected port, and no other "+
			"counter. Those of PortCounters are others."))

func perfSetExtended(t *validate.T) {
	m := newQuietMeter(t, kit.Open(t))
	m.extended()
	port := m.ca.Port.Num
	m.write(&shortCounters, port, 1<<len(shortCounters.list)-1, func(c *counter) uint64 { return c.value() })
	m.written(&longCounters)
	m.others(&longCounters)
	b := m.read(&shortCounters, port)
	for i := range shortCounters.list {
		c := &shortCounters.list[i]
		c.has(t, b, c.value(), "of PortCounters after Sets of PortCountersExtended")
	}
}

var _ = perf.Add("sma.perf.stop", "traffic with counters that are nearly at their largest values", perfStop,
	perf.Must("SMA-Perf-12", "IBTA 16.1.3.5", perfVerb,
		"A counter of PortCounters stops at its largest value."))

func perfStop(t *validate.T) {
	p := kit.RC(t)
	m := newQuietMeter(t, p.A.QP.CA)
	port := m.ca.Port.Num
	m.write(&shortCounters, port, 1<<len(shortCounters.list)-1, func(c *counter) uint64 {
		if c.isTraffic {
			return c.most() - 1
		}
		return 0
	})
	exchange(p)
	exchange(p)
	b := m.read(&shortCounters, port)
	for i := range shortCounters.list {
		if c := &shortCounters.list[i]; c.isTraffic {
			kit.Equal(t, c.name+" after traffic beyond its largest value", c.get(b), c.most())
		}
	}
}
