package pma_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma/pma"
)

// source is a node with counters that the test sets, by port.
type source map[uint8]*pma.Values

func (s source) Counters(port uint8, v *pma.Values) bool {
	if s[port] == nil {
		return false
	}
	*v = *s[port]
	return true
}

// layout is an attribute.
type layout interface {
	Put([]byte)
	Parse([]byte)
}

// do executes a request, and reads the response into c.
func do(t *testing.T, a *pma.Agent, method mad.Method, attr uint16, c layout) (status uint16) {
	t.Helper()
	p := mad.Perf{Header: mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: method,
		TID: 5, Attribute: attr}}
	c.Put(p.Data[:])
	var m ci.MAD
	p.Put(m[:])
	require.True(t, a.Execute(&m))
	p.Parse(m[:])
	require.Equal(t, mad.GetResp, p.Method)
	require.EqualValues(t, 5, p.TID)
	c.Parse(p.Data[:])
	return p.Status
}

func newAgent() (source, *pma.Agent) {
	s := source{1: {}, 2: {}}
	return s, pma.New(pma.Config{Source: s, NumPorts: 2, AllPorts: true, Supported: pma.SetOf(pma.XmitData, pma.RcvData,
		pma.XmitPkts, pma.RcvPkts, pma.RcvErrors, pma.XmitDiscards, pma.LinkDowned, pma.LocalLinkIntegrity)})
}

// A counter of PortCounters stops at its largest value, and one of PortCountersExtended does not.
func TestSaturation(t *testing.T) {
	t.Parallel()
	s, a := newAgent()
	*s[1] = pma.Values{pma.XmitData: math.MaxUint32 + 5, pma.RcvErrors: math.MaxUint16 + 1, pma.LinkDowned: 256,
		pma.LocalLinkIntegrity: 16, pma.RcvPkts: 8, pma.SymbolErrors: 9}
	c := mad.PortCounters{PortSelect: 1, PortRcvPkts: 55}
	require.Zero(t, do(t, a, mad.Get, mad.AttrPortCounters, &c))
	assert.Equal(t, mad.PortCounters{PortSelect: 1, PortXmitData: math.MaxUint32, PortRcvErrors: math.MaxUint16,
		LinkDowned: math.MaxUint8, LocalLinkIntegrityErrors: 15, PortRcvPkts: 8}, c, "a Get writes nothing")
	e := mad.PortCountersExtended{PortSelect: 1}
	require.Zero(t, do(t, a, mad.Get, mad.AttrPortCountersExtended, &e))
	assert.Equal(t, mad.PortCountersExtended{PortSelect: 1, PortXmitData: math.MaxUint32 + 5,
		PortRcvErrors: math.MaxUint16 + 1, LinkDowned: 256, LocalLinkIntegrityErrors: 16, PortRcvPkts: 8}, e)
}

// A Set writes the selected counters that the node has, and no others. The two attributes do not affect each other.
func TestSet(t *testing.T) {
	t.Parallel()
	s, a := newAgent()
	*s[1] = pma.Values{pma.XmitData: 7, pma.RcvPkts: 8, pma.RcvData: 100, pma.LinkDowned: 2}
	c := mad.PortCounters{PortSelect: 1, CounterSelect: mad.SelectXmitData | mad.SelectRcvPkts | mad.SelectSymbolError,
		PortRcvPkts: 1000, PortRcvData: 5, SymbolErrors: 9}
	require.Zero(t, do(t, a, mad.Set, mad.AttrPortCounters, &c))
	assert.Equal(t, mad.PortCounters{PortSelect: 1, CounterSelect: mad.SelectXmitData | mad.SelectRcvPkts |
		mad.SelectSymbolError, PortRcvPkts: 1000, PortRcvData: 100, LinkDowned: 2}, c)
	s[1][pma.RcvPkts] += 2
	c = mad.PortCounters{PortSelect: 1}
	require.Zero(t, do(t, a, mad.Get, mad.AttrPortCounters, &c))
	assert.EqualValues(t, 1002, c.PortRcvPkts)
	e := mad.PortCountersExtended{PortSelect: 1}
	require.Zero(t, do(t, a, mad.Get, mad.AttrPortCountersExtended, &e))
	assert.EqualValues(t, 10, e.PortRcvPkts)
	e = mad.PortCountersExtended{PortSelect: 1, CounterSelect: mad.SelectExtRcvPkts, CounterSelect2: 1 << 2,
		PortRcvPkts: 3, PortRcvData: 4}
	require.Zero(t, do(t, a, mad.Set, mad.AttrPortCountersExtended, &e))
	assert.EqualValues(t, 3, e.PortRcvPkts)
	assert.EqualValues(t, 100, e.PortRcvData)
	assert.Zero(t, e.LinkDowned, "CounterSelect2 selects it")
	c = mad.PortCounters{PortSelect: 1, CounterSelect: 0xffff}
	require.Zero(t, do(t, a, mad.Set, mad.AttrPortCounters, &c))
	assert.Equal(t, mad.PortCounters{PortSelect: 1, CounterSelect: 0xffff}, c, "all are cleared")
}

// A request may select all ports: a Get has the sum, and a Set writes each.
func TestAllPorts(t *testing.T) {
	t.Parallel()
	s, a := newAgent()
	s[1][pma.XmitPkts], s[2][pma.XmitPkts] = 5, 7
	c := mad.PortCounters{PortSelect: mad.AllPorts}
	require.Zero(t, do(t, a, mad.Get, mad.AttrPortCounters, &c))
	assert.EqualValues(t, 12, c.PortXmitPkts)
	c = mad.PortCounters{PortSelect: mad.AllPorts, CounterSelect: mad.SelectXmitPkts}
	require.Zero(t, do(t, a, mad.Set, mad.AttrPortCounters, &c))
	s[2][pma.XmitPkts]++
	c = mad.PortCounters{PortSelect: 2}
	require.Zero(t, do(t, a, mad.Get, mad.AttrPortCounters, &c))
	assert.EqualValues(t, 1, c.PortXmitPkts)
	i := mad.ClassPortInfo{}
	require.Zero(t, do(t, a, mad.Get, mad.AttrClassPortInfo, &i))
	assert.Equal(t, mad.PerfCapAllPortSelect|mad.PerfCapExtendedWidthNoIETF, i.CapabilityMask)
}

// FuzzExecute checks that any datagram leaves the agent intact, and that every response belongs to its request.
func FuzzExecute(f *testing.F) {
	f.Add([]byte{1, 4, 1, 2, 16: 0, 0x12, 65: 1, 66: 0xff, 0xff})
	f.Add([]byte{1, 4, 1, 1, 16: 0, 0x1d, 65: 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		_, a := newAgent()
		var m ci.MAD
		copy(m[:], in)
		before := m
		if !a.Execute(&m) {
			require.Equal(t, before, m)
			return
		}
		require.Equal(t, uint8(mad.GetResp), m[3])
		require.Equal(t, before[8:24], m[8:24])
	})
}

// Attributes that the agent does not have are answered as such: samples, among others.
func TestUnsupportedAttributes(t *testing.T) {
	t.Parallel()
	const samplesControl, samplesResult, rcvErrorDetails = 0x10, 0x11, 0x15
	_, a := newAgent()
	for _, attr := range []uint16{samplesControl, samplesResult, rcvErrorDetails} {
		for _, method := range []mad.Method{mad.Get, mad.Set} {
			c := mad.PortCounters{PortSelect: 1}
			assert.Equal(t, mad.StatusBadMethodAttribute, do(t, a, method, attr, &c), "%v of %#x", method, attr)
		}
	}
}
