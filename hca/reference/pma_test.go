package reference

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// perfLinks are HCAs of two ports, on each link layer.
var perfLinks = map[string]func() []rvt.Port{
	"InfiniBand": func() []rvt.Port {
		l := direct.NewLink()
		return []rvt.Port{testenv.Must(direct.New(l, direct.Config{})), testenv.Must(direct.New(l, direct.Config{}))}
	},
	"Ethernet": func() []rvt.Port {
		n := sim.NewNetwork(sim.NetworkConfig{})
		return []rvt.Port{testenv.Must(sim.New(n, sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})),
			testenv.Must(sim.New(n, sim.Config{Addr: netip.MustParseAddr("10.0.0.2")}))}
	},
}

// A perfRig sends performance management requests to an HCA.
type perfRig struct {
	t  *testing.T
	ca ci.CA
}

func newPerfRig(t *testing.T, ports []rvt.Port) *perfRig {
	h, err := New(Config{GUID: 0x100, Ports: ports})
	require.NoError(t, err)
	ca, err := h.OpenCA(0x100, func(ci.Event) {}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ca.Destroy())
		require.NoError(t, h.Close())
	})
	return &perfRig{t, ca}
}

func (r *perfRig) do(port uint8, m mad.Perf) (a mad.Perf, ok bool) {
	r.t.Helper()
	m.TID = 99
	var in, out ci.MAD
	m.Put(in[:])
	for i := range out {
		out[i] = 0xee
	}
	require.NoError(r.t, r.ca.LocalMAD(port, nil, &in, &out))
	if out == (ci.MAD{}) {
		return a, false
	}
	a.Parse(out[:])
	require.Equal(r.t, mad.GetResp, a.Method)
	require.EqualValues(r.t, 99, a.TID)
	require.Equal(r.t, m.Attribute, a.Attribute)
	return a, true
}

func perfRequest(method mad.Method, attr uint16) mad.Perf {
	return mad.Perf{Header: mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: method,
		Attribute: attr}}
}

func TestPerformanceAgent(t *testing.T) {
	for name, ports := range perfLinks {
		t.Run(name, func(t *testing.T) {
			r := newPerfRig(t, ports())
			a, ok := r.do(1, perfRequest(mad.Get, mad.AttrClassPortInfo))
			require.True(t, ok)
			require.Zero(t, a.Status)
			var info mad.ClassPortInfo
			info.Parse(a.Data[:])
			require.Equal(t, mad.ClassPortInfo{BaseVersion: 1, ClassVersion: 1,
				CapabilityMask: mad.PerfCapExtendedWidthNoIETF, ResponseTime: 18}, info)

			for _, c := range []struct {
				name   string
				attr   uint16
				port   uint8
				change func(*mad.Perf)
				want   uint16
				silent bool
			}{
				{"counters of this port", mad.AttrPortCounters, 1, nil, mad.StatusOK, false},
				{"of the other", mad.AttrPortCounters, 2, nil, mad.StatusOK, false},
				{"extended", mad.AttrPortCountersExtended, 2, nil, mad.StatusOK, false},
				{"of port 0", mad.AttrPortCounters, 0, nil, mad.StatusBadField, false},
				{"of a port too many", mad.AttrPortCountersExtended, 3, nil, mad.StatusBadField, false},
				{"of all ports, which ClassPortInfo does not offer", mad.AttrPortCounters, mad.AllPorts, nil,
					mad.StatusBadField, false},
				{"samples", mad.AttrPortSamplesControl, 1, nil, mad.StatusBadMethodAttribute, false},
				{"set class port info", mad.AttrClassPortInfo, 0, func(m *mad.Perf) { m.Method = mad.Set },
					mad.StatusBadMethodAttribute, false},
				{"class version", mad.AttrPortCounters, 1, func(m *mad.Perf) { m.ClassVersion = 2 },
					mad.StatusBadVersion, false},
				{"base version", mad.AttrPortCounters, 1, func(m *mad.Perf) { m.BaseVersion = 2 },
					mad.StatusBadVersion, false},
				{"method", mad.AttrPortCounters, 1, func(m *mad.Perf) { m.Method = 0x15 }, mad.StatusBadMethod, false},
				{"response", mad.AttrPortCounters, 1, func(m *mad.Perf) { m.Method = mad.GetResp }, 0, true},
				{"trap repress", mad.AttrPortCounters, 1, func(m *mad.Perf) { m.Method = mad.TrapRepress }, 0, true},
			} {
				m := perfRequest(mad.Get, c.attr)
				m.Data[1] = c.port
				if c.change != nil {
					c.change(&m)
				}
				a, ok := r.do(1, m)
				assert.Equal(t, !c.silent, ok, c.name)
				assert.Equal(t, c.want, a.Status, c.name)
				if ok && c.want == mad.StatusOK {
					assert.Equal(t, c.port, a.Data[1], "PortSelect of %s", c.name)
				}
			}
		})
	}
}
