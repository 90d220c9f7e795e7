package sma_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// smp returns a request by LID.
func smp(method mad.Method, attr uint16, mod uint32, data []byte) *ci.MAD {
	s := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: method, TID: 7,
		Attribute: attr, Modifier: mod}}
	copy(s.Data[:], data)
	var m ci.MAD
	s.Put(m[:])
	return &m
}

// directed returns a directed route request along ports.
func directed(method mad.Method, attr uint16, mod uint32, path ...byte) *ci.MAD {
	m := smp(method, attr, mod, nil)
	m[1] = byte(mad.ClassSubnetDirected)
	m[7] = byte(len(path))
	copy(m[32:], "\xff\xff\xff\xff")
	copy(m[129:], path)
	return m
}

func newSwitch(tb testing.TB, numPorts int) (*sma.SoftNode, *sma.Agent) {
	tb.Helper()
	c := sma.SoftConfig{Type: mad.NodeSwitch, GUID: 0x500, Description: "switch", Switch: mad.SwitchInfo{
		LinearFDBCap: 0xc000, McastFDBCap: 1024, PartEnfCap: 8}}
	for i := range numPorts {
		c.Ports = append(c.Ports, sma.SoftPort{Num: uint8(i + 1), Info: sma.DefaultPortInfo()})
	}
	n, err := sma.NewSoftNode(c)
	require.NoError(tb, err)
	return n, sma.New(sma.Config{Node: n})
}

// TestAliases checks that alias GUIDs are entries of the GUID table, which must have room for them.
func TestAliases(t *testing.T) {
	port := sma.SoftPort{Num: 1, GUID: 5, Info: sma.DefaultPortInfo(), Aliases: []ci.GUID{0, 6}}
	n, err := sma.NewSoftNode(sma.SoftConfig{GUID: 4, Ports: []sma.SoftPort{port}})
	require.NoError(t, err)
	assert.Equal(t, []ci.GUID{5, 0, 6, 0, 0, 0, 0, 0}, n.GUIDs(1))
	port.Info.GUIDCap = 2
	_, err = sma.NewSoftNode(sma.SoftConfig{GUID: 4, Ports: []sma.SoftPort{port}})
	require.ErrorContains(t, err, "2 alias GUIDs in a table of 2")
}

func TestSwitchForwards(t *testing.T) {
	t.Parallel()
	_, a := newSwitch(t, 8)
	m := directed(mad.Get, mad.AttrNodeInfo, 0, 1, 5, 2)
	m[6] = 1 // it left the sender
	assert.Equal(t, sma.Verdict{Action: sma.Forward, Port: 5}, a.Receive(3, 0xffff, m))
	assert.EqualValues(t, 2, m[6])
	assert.EqualValues(t, 3, m[193], "return path")

	m = directed(mad.Get, mad.AttrNodeInfo, 0, 1)
	m[6] = 1
	assert.Equal(t, sma.Verdict{Action: sma.Reply, Port: 3}, a.Receive(3, 0xffff, m))
	var s mad.SMP
	s.Parse(m[:])
	assert.Equal(t, mad.GetResp, s.Method)
	assert.Equal(t, mad.StatusDirection, s.Status)
	var i mad.NodeInfo
	i.Parse(s.Data[:])
	assert.Equal(t, mad.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: mad.NodeSwitch, NumPorts: 8, SystemGUID: 0x500,
		NodeGUID: 0x500, PortGUID: 0x500, PartitionCap: 32, LocalPort: 3}, i)
}

func TestReceiveAllocatesNothing(t *testing.T) {
	_, a := newSwitch(t, 8)
	m := directed(mad.Get, mad.AttrNodeInfo, 0, 1, 5, 2)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		m[6] = 1
		a.Receive(3, 0xffff, m)
	}))
	for _, attr := range []uint16{mad.AttrNodeInfo, mad.AttrPortInfo, mad.AttrLinearTable, mad.AttrSwitchInfo} {
		q := smp(mad.Get, attr, 0, nil)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			*m = *q
			a.Receive(3, 1, m)
		}), "%#x", attr)
	}
	q := smp(mad.Set, mad.AttrLinearTable, 0, nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		q[64]++
		*m = *q
		a.Receive(3, 1, m)
	}))
}

func BenchmarkForward(b *testing.B) {
	_, a := newSwitch(b, 36)
	m := directed(mad.Get, mad.AttrNodeInfo, 0, 1, 5, 2)
	b.ReportAllocs()
	for b.Loop() {
		m[6] = 1
		a.Receive(3, 0xffff, m)
	}
}

func BenchmarkNodeInfo(b *testing.B) {
	_, a := newSwitch(b, 36)
	m := directed(mad.Get, mad.AttrNodeInfo, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		m[3], m[4], m[6] = 1, 0, 1
		a.Receive(3, 0xffff, m)
	}
}

// Each port of an adapter reports a new system image GUID, and of a switch port 0.
func TestSystemGUIDTraps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ         uint8
		first, last uint8
		want        []uint8
	}{{mad.NodeCA, 1, 2, []uint8{1, 2}}, {mad.NodeSwitch, 0, 2, []uint8{0}}} {
		cfg := sma.SoftConfig{Type: c.typ, GUID: 5, NumPorts: 2}
		for num := c.first; num <= c.last; num++ {
			cfg.Ports = append(cfg.Ports, sma.SoftPort{Num: num, GUID: ci.GUID(5 + num), Info: sma.DefaultPortInfo()})
		}
		n, err := sma.NewSoftNode(cfg)
		require.NoError(t, err)
		var got []uint8
		n.OnTrap(func(port uint8, x *mad.Notice) {
			assert.Equal(t, mad.TrapSystemGUIDChanged, x.Trap)
			got = append(got, port)
		})
		n.SetSystemGUID(77)
		n.SetSystemGUID(77)
		assert.Equal(t, c.want, got)
	}
}
