package direct

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma"
)

// Identity of the node.
const (
	vendorID, deviceID, revision = 0xabcdef, 0x1234, 5
	description                  = "a node"
)

// manager sends the requests of a subnet manager to one port.
type manager struct {
	t      *testing.T
	ca     ci.CA
	events chan ci.Event
	key    uint64
}

func newManager(t *testing.T, c Config) (*manager, *Link) {
	l := NewLink()
	p, err := New(l, c)
	require.NoError(t, err)
	config := linktest.Config(p)
	config.Info = ci.HCAInfo{GUID: 0x100, VendorID: vendorID, DeviceID: deviceID, Revision: revision}
	config.NodeDescription = description
	config.Attr.Caps |= ci.CapLocalMAD | ci.CapInitType
	config.Ops.LocalMAD = func(_ uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
		p.SubnetMAD(in, out)
		return nil
	}
	h, err := rvt.New(config)
	require.NoError(t, err)
	m := &manager{t: t, events: make(chan ci.Event, 100)}
	m.ca, err = h.OpenCA(0x100, func(e ci.Event) { m.events <- e }, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.ca.Destroy())
		require.NoError(t, h.Close())
	})
	return m, l
}

// do sends one request. ok is false if there was no response.
func (m *manager) do(method mad.Method, attr uint16, mod uint32, data []byte) (r mad.SMP, ok bool) {
	m.t.Helper()
	q := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: method, TID: 77,
		Attribute: attr, Modifier: mod}, MKey: m.key}
	copy(q.Data[:], data)
	return m.raw(&q)
}

func (m *manager) raw(q *mad.SMP) (r mad.SMP, ok bool) {
	m.t.Helper()
	var in, out ci.MAD
	q.Put(in[:])
	for i := range out {
		out[i] = 0xee
	}
	require.NoError(m.t, m.ca.LocalMAD(1, nil, &in, &out))
	if out == (ci.MAD{}) {
		return r, false
	}
	r.Parse(out[:])
	require.Equal(m.t, mad.GetResp, r.Method)
	require.Equal(m.t, q.TID, r.TID)
	require.Equal(m.t, q.Attribute, r.Attribute)
	return r, true
}

func (m *manager) portInfo() (p mad.PortInfo) {
	r, ok := m.do(mad.Get, mad.AttrPortInfo, 1, nil)
	require.True(m.t, ok)
	require.Zero(m.t, r.Status)
	p.Parse(r.Data[:])
	return p
}

// template returns the attributes of a Set that changes nothing.
func (m *manager) template() mad.PortInfo {
	p := m.portInfo()
	p.State, p.PhysState = 0, 0
	return p
}

func (m *manager) set(p mad.PortInfo) (uint16, mad.PortInfo) {
	var b [64]byte
	p.Put(b[:])
	r, ok := m.do(mad.Set, mad.AttrPortInfo, 1, b[:])
	require.True(m.t, ok)
	var now mad.PortInfo
	now.Parse(r.Data[:])
	return r.Status, now
}

func (m *manager) drain() (out []ci.EventType) {
	for {
		select {
		case e := <-m.events:
			out = append(out, e.Type)
		default:
			return out
		}
	}
}

func (m *manager) event(want ci.EventType) {
	m.t.Helper()
	require.Equal(m.t, want, (<-m.events).Type)
}

// A subnet manager finds the port, gives it a LID, and brings it up.
func TestSubnetManagerBringsUp(t *testing.T) {
	t.Parallel()
	m, l := newManager(t, Config{State: ci.PortInit, GUID: 0x101})
	r, ok := m.do(mad.Get, mad.AttrNodeInfo, 0, nil)
	require.True(t, ok)
	var n mad.NodeInfo
	n.Parse(r.Data[:])
	assert.Equal(t, mad.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: mad.NodeCA, NumPorts: 1, SystemGUID: 0x100,
		NodeGUID: 0x100, PortGUID: 0x101,
		PartitionCap: numPKeys, DeviceID: deviceID, Revision: revision, LocalPort: 1, VendorID: vendorID}, n)
	r, ok = m.do(mad.Get, mad.AttrNodeDescription, 0, nil)
	require.True(t, ok)
	assert.Contains(t, string(r.Data[:]), description)

	assert.EqualValues(t, ci.PortInit, m.portInfo().State)
	p := m.template()
	assert.Zero(t, p.LID)
	p.LID, p.MasterSMLID = 5, 6
	p.State, p.SubnetTimeout = uint8(ci.PortArmed), 17
	status, now := m.set(p)
	require.Zero(t, status)
	assert.EqualValues(t, 5, now.LID)
	m.event(ci.EventLIDChange)
	m.event(ci.EventSMChange)
	assert.Contains(t, l.now().byLID, ci.LID(5))
	p = m.template()
	p.State, p.ClientReregister = uint8(ci.PortActive), true
	status, now = m.set(p)
	require.Zero(t, status)
	assert.True(t, now.ClientReregister, "echoed")
	assert.False(t, m.portInfo().ClientReregister)
	m.event(ci.EventPortActive)
	m.event(ci.EventReregister)
	a, err := m.ca.Query()
	require.NoError(t, err)
	assert.Equal(t, ci.PortActive, a.Ports[0].State)
	assert.EqualValues(t, 5, a.Ports[0].LID)
	assert.EqualValues(t, 6, a.Ports[0].SMLID)
	assert.EqualValues(t, 17, a.Ports[0].SubnetTimeout)
}

// The table of logical states that a Set may request in each state.
func TestPortInfoStates(t *testing.T) {
	t.Parallel()
	const keep, refuse = 0, 99
	for _, c := range []struct {
		from ci.PortState
		to   [6]ci.PortState // by requested state 0 to 5: the new one, keep or refuse
	}{
		{ci.PortInit, [6]ci.PortState{keep, ci.PortInit, refuse, ci.PortArmed, refuse, refuse}},
		{ci.PortArmed, [6]ci.PortState{keep, ci.PortInit, refuse, keep, ci.PortActive, refuse}},
		{ci.PortActive, [6]ci.PortState{keep, ci.PortInit, refuse, refuse, keep, refuse}},
	} {
		for ask, want := range c.to {
			m, _ := newManager(t, Config{State: c.from, LID: 4})
			p := m.template()
			p.MasterSMLID, p.State = 1, uint8(ask)
			status, _ := m.set(p)
			now := ci.PortState(m.portInfo().State)
			switch want {
			case refuse:
				assert.Equal(t, mad.StatusBadField, status, "%v to %d", c.from, ask)
				assert.Equal(t, c.from, now, "%v to %d", c.from, ask)
			case keep:
				assert.Zero(t, status, "%v to %d", c.from, ask)
				assert.Equal(t, c.from, now, "%v to %d", c.from, ask)
			default:
				assert.Zero(t, status, "%v to %d", c.from, ask)
				assert.Equal(t, want, now, "%v to %d", c.from, ask)
			}
		}
	}
}

// A Set with one bad field changes nothing at all.
func TestPortInfoRefusals(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{LID: 4})
	for name, f := range map[string]func(p *mad.PortInfo){
		"LID 0":               func(p *mad.PortInfo) { p.LID = 0 },
		"multicast LID":       func(p *mad.PortInfo) { p.LID = 0xc000 },
		"LID against LMC":     func(p *mad.PortInfo) { p.LMC, p.LID = 1, 5 },
		"SM LID 0":            func(p *mad.PortInfo) { p.MasterSMLID = 0 },
		"SM LID multicast":    func(p *mad.PortInfo) { p.MasterSMLID = 0xffff },
		"MTU 0":               func(p *mad.PortInfo) { p.NeighborMTU = 0 },
		"MTU above cap":       func(p *mad.PortInfo) { p.NeighborMTU = 6 },
		"VLs":                 func(p *mad.PortInfo) { p.OperationalVLs = 4 },
		"width":               func(p *mad.PortInfo) { p.WidthEnabled = 8 },
		"speed":               func(p *mad.PortInfo) { p.SpeedEnabled = 8 },
		"physical with state": func(p *mad.PortInfo) { p.State, p.PhysState = uint8(ci.PortActive), sma.PhysPolling },
		"physical":            func(p *mad.PortInfo) { p.PhysState = sma.PhysLinkUp },
		"link down default":   func(p *mad.PortInfo) { p.LinkDownDefault = 3 },
		"state":               func(p *mad.PortInfo) { p.State = 15 },
	} {
		before := m.portInfo()
		p := before
		p.State, p.PhysState = 0, 0
		p.SubnetTimeout, p.MasterSMLID = 3, 9
		f(&p)
		status, _ := m.set(p)
		assert.Equal(t, mad.StatusBadField, status, name)
		assert.Equal(t, before, m.portInfo(), name)
	}
	assert.Empty(t, m.drain())
}

func TestPortInfoDisable(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{LID: 4})
	p := m.template()
	p.State, p.PhysState = uint8(ci.PortDown), sma.PhysDisabled
	status, now := m.set(p)
	require.Zero(t, status)
	assert.EqualValues(t, ci.PortDown, now.State)
	assert.Equal(t, sma.PhysDisabled, now.PhysState)
	m.event(ci.EventPortDown)
	p.PhysState = sma.PhysPolling
	status, now = m.set(p)
	require.Zero(t, status)
	assert.EqualValues(t, ci.PortInit, now.State, "trained again")
}

func TestMKey(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{LID: 4})
	p := m.portInfo()
	p.State, p.PhysState = 0, 0
	p.MKey, p.MKeyProtect = 0xabc, 1
	status, _ := m.set(p)
	require.Zero(t, status)
	assert.Zero(t, m.portInfo().MKey, "protection 1 hides the key")
	_, ok := m.do(mad.Set, mad.AttrPKeyTable, 0, nil)
	assert.False(t, ok, "no answer without the key")
	m.event(ci.EventMKeyTrap)
	assert.EqualValues(t, 1, m.portInfo().MKeyViolations)
	m.key = 0xabc
	p = m.portInfo()
	assert.EqualValues(t, 0xabc, p.MKey)
	p.State, p.PhysState = 0, 0
	p.MKeyProtect, p.MKeyViolations = 2, 0
	status, now := m.set(p)
	require.Zero(t, status)
	assert.Zero(t, now.MKeyViolations, "cleared")
	m.key = 0
	_, ok = m.do(mad.Get, mad.AttrNodeInfo, 0, nil)
	assert.False(t, ok, "protection 2 guards Get")
	m.event(ci.EventMKeyTrap)
}

func TestTables(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{LID: 4, GUID: 0x101, PKeys: []ci.PKey{0xffff, 0x8001}})
	var k mad.PKeyBlock
	r, _ := m.do(mad.Get, mad.AttrPKeyTable, 0, nil)
	k.Parse(r.Data[:])
	assert.Equal(t, mad.PKeyBlock{0xffff, 0x8001}, k)
	k[2] = 0x7002
	var b [64]byte
	k.Put(b[:])
	r, _ = m.do(mad.Set, mad.AttrPKeyTable, 0, b[:])
	k.Parse(r.Data[:])
	assert.Equal(t, mad.PKeyBlock{0xffff, 0x8001, 0x7002}, k)
	m.event(ci.EventPKeyChange)
	a, err := m.ca.Query()
	require.NoError(t, err)
	assert.Equal(t, []ci.PKey{0xffff, 0x8001, 0x7002}, a.Ports[0].PKeys[:3])
	require.Len(t, a.Ports[0].PKeys, numPKeys)
	last := mad.PKeyBlock{4: 0x8004, 5: 5}
	last.Put(b[:])
	r, _ = m.do(mad.Set, mad.AttrPKeyTable, 1, b[:])
	last.Parse(r.Data[:])
	assert.Equal(t, mad.PKeyBlock{4: 0x8004}, last, "the second block has 5")
	m.event(ci.EventPKeyChange)

	g := mad.GUIDBlock{9, 0, 0x202}
	g.Put(b[:])
	r, _ = m.do(mad.Set, mad.AttrGUIDInfo, 0, b[:])
	g.Parse(r.Data[:])
	assert.Equal(t, mad.GUIDBlock{0x101, 0, 0x202}, g, "the first entry is read only")
	m.event(ci.EventGIDChange)
	a, err = m.ca.Query()
	require.NoError(t, err)
	require.Len(t, a.Ports[0].GIDs, 3)
	assert.EqualValues(t, mad.GID(0xfe80<<48, 0x202), a.Ports[0].GIDs[2].GID)
}

func TestMADErrors(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{LID: 4})
	good := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get,
		Attribute: mad.AttrPortInfo}
	for _, c := range []struct {
		name   string
		f      func(h *mad.Header)
		want   uint16
		silent bool
	}{
		{"good", func(h *mad.Header) {}, 0, false},
		{"directed route", func(h *mad.Header) { h.Class = mad.ClassSubnetDirected }, mad.StatusDirection, false},
		{"base version", func(h *mad.Header) { h.BaseVersion = 2 }, mad.StatusBadVersion, false},
		{"class version", func(h *mad.Header) { h.ClassVersion = 2 }, mad.StatusBadVersion, false},
		{"class", func(h *mad.Header) { h.Class = mad.ClassBoard }, mad.StatusBadVersion, false},
		{"method", func(h *mad.Header) { h.Method = 0x15 }, mad.StatusBadMethod, false},
		{"attribute", func(h *mad.Header) { h.Attribute = mad.AttrSMInfo }, mad.StatusBadMethodAttribute, false},
		{"switch's", func(h *mad.Header) { h.Attribute = mad.AttrSwitchInfo }, mad.StatusBadMethodAttribute, false},
		{"read only", func(h *mad.Header) { h.Method, h.Attribute = mad.Set, mad.AttrNodeInfo },
			mad.StatusBadMethodAttribute, false},
		{"another port", func(h *mad.Header) { h.Modifier = 2 }, mad.StatusBadField, false},
		{"P_Key block", func(h *mad.Header) { h.Attribute, h.Modifier = mad.AttrPKeyTable, 2 },
			mad.StatusBadField, false},
		{"GUID block", func(h *mad.Header) { h.Attribute, h.Modifier = mad.AttrGUIDInfo, 2 },
			mad.StatusBadField, false},
		{"response", func(h *mad.Header) { h.Method = mad.GetResp }, 0, true},
		{"trap repress", func(h *mad.Header) { h.Method = mad.TrapRepress }, 0, true},
	} {
		q := mad.SMP{Header: good}
		c.f(&q.Header)
		r, ok := m.raw(&q)
		assert.Equal(t, !c.silent, ok, c.name)
		assert.Equal(t, c.want, r.Status, c.name)
	}
	var x ci.MAD
	require.ErrorIs(t, m.ca.LocalMAD(2, nil, &x, &x), ci.InvalidPort)
}

// FuzzSubnetMAD checks that any datagram leaves the port intact, and that every response is well-formed.
func FuzzSubnetMAD(f *testing.F) {
	f.Add([]byte{1, 1, 1, 2, 16: 0, 0x15})
	f.Add([]byte{1, 0x81, 1, 1, 16: 0, 0x11})
	f.Add([]byte{1, 4, 1, 2, 16: 0, 0x12, 65: 1, 66: 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, _ := newManager(t, Config{LID: 4})
		var a, b ci.MAD
		copy(a[:], in)
		require.NoError(t, m.ca.LocalMAD(1, nil, &a, &b))
		if b != (ci.MAD{}) {
			require.Equal(t, byte(mad.GetResp), b[3])
			require.Equal(t, a[8:24], b[8:24])
		}
		p := m.portInfo()
		require.LessOrEqual(t, p.LID, uint16(maxUnicastLID))
	})
}
