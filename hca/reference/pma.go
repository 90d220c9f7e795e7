package reference

import (
	"math"
	"sync"

	"ciddk/ci"
	"ciddk/mad"
)

// The performance management agent serves the HCA's ports on both link layers: ClassPortInfo, PortCounters and
// PortCountersExtended (IBTA volume 1, 16.1). Its values are the engine's counters for each port (rvt.PortCount). A
// request to any port may select any port of the HCA by its PortSelect field.
//
// The data counters count the bytes from the start of the packet up to the VCRC, exclusive. For RoCE packets they count
// the IP and UDP headers, which take the places of GRH and LRH. They do not count the Ethernet header and its FCS.

// perfAgent stores the effects of Set requests: the value of a counter is the engine's value less its base. The two
// attributes have separate bases, so a Set of one does not affect the other.
type perfAgent struct {
	mu    sync.Mutex
	ports map[uint8]*perfBases
}

type perfBases struct{ short, long perfCounts }

// perfCounts are the supported counters, in the units of the attributes.
type perfCounts struct{ xmitData, rcvData, xmitPkts, rcvPkts, rcvErrors, xmitDiscards uint64 }

// perfResponse is the maximum response time: 4.096 us * 2^18, a second.
const perfResponse = 18

// performance executes one datagram of the class on a port. It overwrites out with the response, or with zeros if none
// is due.
func (a *agent) performance(in, out *ci.MAD) {
	var m mad.Perf
	m.Parse(in[:])
	*out = ci.MAD{}
	if m.Response() || m.Method == mad.TrapRepress || m.Method == mad.Trap || m.Method == mad.Send {
		return
	}
	switch {
	case m.BaseVersion != mad.BaseVersion || m.CheckPerf() != nil:
		m.Status = mad.StatusBadVersion
	case m.Method != mad.Get && m.Method != mad.Set:
		m.Status = mad.StatusBadMethod
	default:
		m.Status = a.perf.execute(a.hca, &m)
	}
	m.Method = mad.GetResp
	m.Put(out[:])
}

func (p *perfAgent) execute(h *HCA, m *mad.Perf) (status uint16) {
	set := m.Method == mad.Set
	if m.Attribute == mad.AttrClassPortInfo && !set {
		info := mad.ClassPortInfo{BaseVersion: 1, ClassVersion: mad.ClassVersionPerformance,
			CapabilityMask: mad.PerfCapExtendedWidthNoIETF, ResponseTime: perfResponse}
		m.Data = [mad.PerfDataLen]byte{}
		info.Put(m.Data[:])
		return mad.StatusOK
	}
	if m.Attribute != mad.AttrPortCounters && m.Attribute != mad.AttrPortCountersExtended {
		return mad.StatusBadMethodAttribute
	}
	num := m.Data[1]
	if num == 0 || int(num) > len(h.cfg.Ports) {
		return mad.StatusBadField
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.ports[num]
	if b == nil {
		b = &perfBases{}
		if p.ports == nil {
			p.ports = map[uint8]*perfBases{}
		}
		p.ports[num] = b
	}
	now := h.perfCounts(num)
	if m.Attribute == mad.AttrPortCounters {
		b.counters(m, set, num, now)
	} else {
		b.extended(m, set, num, now)
	}
	return mad.StatusOK
}

// selected is a counter that a Set can select by its bit, and the value to set.
type selected struct {
	bit        uint16
	base       *uint64
	now, value uint64
}

// preset sets the selected counters by setting each base to the current count less the value.
func preset(bits uint16, list []selected) {
	for _, s := range list {
		if bits&s.bit != 0 {
			*s.base = s.now - s.value
		}
	}
}

// counters returns the response to PortCounters. Counters that are not supported are zero and ignore writes.
func (b *perfBases) counters(m *mad.Perf, set bool, num uint8, now perfCounts) {
	var c mad.PortCounters
	c.Parse(m.Data[:])
	base := &b.short
	if set {
		preset(c.CounterSelect, []selected{
			{mad.SelectRcvErrors, &base.rcvErrors, now.rcvErrors, uint64(c.PortRcvErrors)},
			{mad.SelectXmitDiscards, &base.xmitDiscards, now.xmitDiscards, uint64(c.PortXmitDiscards)},
			{mad.SelectXmitData, &base.xmitData, now.xmitData, uint64(c.PortXmitData)},
			{mad.SelectRcvData, &base.rcvData, now.rcvData, uint64(c.PortRcvData)},
			{mad.SelectXmitPkts, &base.xmitPkts, now.xmitPkts, uint64(c.PortXmitPkts)},
			{mad.SelectRcvPkts, &base.rcvPkts, now.rcvPkts, uint64(c.PortRcvPkts)},
		})
	}
	shown := mad.PortCounters{PortSelect: num, CounterSelect: c.CounterSelect,
		PortRcvErrors:    uint16(min(now.rcvErrors-base.rcvErrors, math.MaxUint16)),
		PortXmitDiscards: uint16(min(now.xmitDiscards-base.xmitDiscards, math.MaxUint16)),
		PortXmitData:     uint32(min(now.xmitData-base.xmitData, math.MaxUint32)),
		PortRcvData:      uint32(min(now.rcvData-base.rcvData, math.MaxUint32)),
		PortXmitPkts:     uint32(min(now.xmitPkts-base.xmitPkts, math.MaxUint32)),
		PortRcvPkts:      uint32(min(now.rcvPkts-base.rcvPkts, math.MaxUint32))}
	m.Data = [mad.PerfDataLen]byte{}
	shown.Put(m.Data[:])
}

// extended returns the response to PortCountersExtended, without separate unicast and multicast counters
// (PerfCapExtendedWidthNoIETF).
func (b *perfBases) extended(m *mad.Perf, set bool, num uint8, now perfCounts) {
	var c mad.PortCountersExtended
	c.Parse(m.Data[:])
	base := &b.long
	if set {
		preset(c.CounterSelect, []selected{
			{mad.SelectExtXmitData, &base.xmitData, now.xmitData, c.PortXmitData},
			{mad.SelectExtRcvData, &base.rcvData, now.rcvData, c.PortRcvData},
			{mad.SelectExtXmitPkts, &base.xmitPkts, now.xmitPkts, c.PortXmitPkts},
			{mad.SelectExtRcvPkts, &base.rcvPkts, now.rcvPkts, c.PortRcvPkts},
		})
	}
	shown := mad.PortCountersExtended{PortSelect: num, CounterSelect: c.CounterSelect,
		PortXmitData: now.xmitData - base.xmitData,
		PortRcvData:  now.rcvData - base.rcvData, PortXmitPkts: now.xmitPkts - base.xmitPkts,
		PortRcvPkts: now.rcvPkts - base.rcvPkts}
	m.Data = [mad.PerfDataLen]byte{}
	shown.Put(m.Data[:])
}

// perfCounts returns a port's counters in the units of the attributes: data in four bytes.
func (h *HCA) perfCounts(num uint8) perfCounts {
	c := h.PortCount(num)
	link := linkHeader(h.cfg.Ports[num-1].Attr())
	return perfCounts{xmitData: (c.XmitBytes + link*c.XmitPkts) / 4, rcvData: (c.RcvBytes + link*c.RcvPkts) / 4,
		xmitPkts: c.XmitPkts,
		rcvPkts:  c.RcvPkts, rcvErrors: c.RcvErrors, xmitDiscards: c.XmitDiscards}
}

// linkHeader returns the size of the headers before the BTH, which the engine does not count: an LRH, or IP and UDP
// headers.
func linkHeader(a ci.PortAttr) uint64 {
	const lrh, udp, ip4, ip6 = 8, 8, 20, 40
	switch {
	case a.Link == ci.LinkInfiniBand:
		return lrh
	case len(a.GIDs) > 0 && isIPv4(a.GIDs[0].GID):
		return ip4 + udp
	}
	return ip6 + udp
}

func isIPv4(g ci.GID) bool { return [12]byte(g[:12]) == [12]byte{10: 0xff, 11: 0xff} }
