package pma

import (
	"sync"

	"ciddk/ci"
	"ciddk/mad"
)

// A Source reads the counters of a node's ports.
type Source interface {
	// Counters sets v to what the counters of a port have counted since the node was made. It returns false if there is
	// no such port.
	Counters(port uint8, v *Values) bool
}

// A Config describes an Agent.
type Config struct {
	Source Source
	// NumPorts is the number of ports that a request may select, from port 1 on.
	NumPorts uint8
	// Supported is the set of counters that the source has. The others are 0 and ignore a Set.
	Supported Set
	// AllPorts admits requests for the sum of all ports (mad.AllPorts). The ports of a switch have it.
	AllPorts bool
}

// responseTime is the maximum response time: 4.096 us * 2^18, a second.
const responseTime = 18

// ieee are the counters that an agent with all of PortCountersExtended's first half has.
var ieee = SetOf(UnicastXmitPkts, UnicastRcvPkts, MulticastXmitPkts, MulticastRcvPkts)

// An Agent answers performance management datagrams.
type Agent struct {
	c    Config
	mask uint16

	mu    sync.Mutex
	ports map[uint8]*bases // nil until the first Set
}

// bases are what a port's counters were when they were set, less the values that they were set to.
type bases struct{ short, long Values }

// New returns an agent.
func New(c Config) *Agent {
	a := &Agent{c: c, mask: mad.PerfCapExtendedWidthNoIETF}
	if c.Supported&ieee == ieee {
		a.mask = mad.PerfCapExtendedWidth
	}
	if c.AllPorts {
		a.mask |= mad.PerfCapAllPortSelect
	}
	if c.Supported.Has(XmitWait) {
		a.mask |= mad.PerfCapXmitWait
	}
	return a
}

// Execute executes a datagram of the performance management class. It makes m the response, and returns false if none
// is due.
func (a *Agent) Execute(m *ci.MAD) bool {
	var h mad.Header
	h.Parse(m[:])
	if h.Response() || h.Method == mad.TrapRepress || h.Method == mad.Trap || h.Method == mad.Send {
		return false
	}
	switch {
	case h.BaseVersion != mad.BaseVersion || h.CheckPerf() != nil:
		h.Status = mad.StatusBadVersion
	case h.Method != mad.Get && h.Method != mad.Set:
		h.Status = mad.StatusBadMethod
	default:
		h.Status = a.execute(&h, m[mad.PerfHeaderLen:])
	}
	h.Method = mad.GetResp
	h.Put(m[:])
	return true
}

func (a *Agent) execute(h *mad.Header, data []byte) (status uint16) {
	set := h.Method == mad.Set
	if h.Attribute == mad.AttrClassPortInfo && !set {
		info := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: mad.ClassVersionPerformance,
			CapabilityMask: a.mask, ResponseTime: responseTime}
		clear(data)
		info.Put(data)
		return mad.StatusOK
	}
	if h.Attribute != mad.AttrPortCounters && h.Attribute != mad.AttrPortCountersExtended {
		return mad.StatusBadMethodAttribute
	}
	first, last := data[1], data[1]
	if first == mad.AllPorts && a.c.AllPorts {
		first, last = 1, a.c.NumPorts
	}
	if first == 0 || last > a.c.NumPorts {
		return mad.StatusBadField
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.Attribute == mad.AttrPortCounters {
		return a.portCounters(data, set, first, last)
	}
	return a.extendedCounters(data, set, first, last)
}

// base returns the bases of a port: new ones if create is set, and otherwise zeros if there are none.
func (a *Agent) base(port uint8, create bool) *bases {
	b := a.ports[port]
	if b == nil {
		b = &bases{}
		if create {
			if a.ports == nil {
				a.ports = map[uint8]*bases{}
			}
			a.ports[port] = b
		}
	}
	return b
}

// portCounters executes PortCounters for the ports from first to last. a.mu is held.
func (a *Agent) portCounters(data []byte, set bool, first, last uint8) (status uint16) {
	var c, shown mad.PortCounters
	c.Parse(data)
	bits := uint32(c.CounterSelect) | uint32(c.CounterSelect2&3)<<16
	var sum Values
	for port := int(first); port <= int(last); port++ {
		var now Values
		if !a.c.Source.Counters(uint8(port), &now) {
			return mad.StatusBadField
		}
		base := &a.base(uint8(port), set).short
		for _, s := range &shorts {
			if set && bits&s.bit != 0 && a.c.Supported.Has(s.counter) {
				base[s.counter] = now[s.counter] - s.get(&c)
			}
			sum[s.counter] += now[s.counter] - base[s.counter]
		}
	}
	shown.PortSelect, shown.CounterSelect, shown.CounterSelect2 = c.PortSelect, c.CounterSelect, c.CounterSelect2
	for _, s := range &shorts {
		if a.c.Supported.Has(s.counter) {
			s.set(&shown, min(sum[s.counter], s.max))
		}
	}
	clear(data)
	shown.Put(data)
	return mad.StatusOK
}

// extendedCounters executes PortCountersExtended for the ports from first to last. a.mu is held.
func (a *Agent) extendedCounters(data []byte, set bool, first, last uint8) (status uint16) {
	var c, shown mad.PortCountersExtended
	c.Parse(data)
	bits := Set(c.CounterSelect&0xff) | Set(c.CounterSelect2)<<SymbolErrors
	given, fields := extended(&c), extended(&shown)
	for port := int(first); port <= int(last); port++ {
		var now Values
		if !a.c.Source.Counters(uint8(port), &now) {
			return mad.StatusBadField
		}
		base := &a.base(uint8(port), set).long
		for i := range NumCounters {
			if !a.c.Supported.Has(i) {
				continue
			}
			if set && bits.Has(i) {
				base[i] = now[i] - *given[i]
			}
			*fields[i] += now[i] - base[i]
		}
	}
	shown.PortSelect, shown.CounterSelect, shown.CounterSelect2 = c.PortSelect, c.CounterSelect, c.CounterSelect2
	clear(data)
	shown.Put(data)
	return mad.StatusOK
}
