package sma_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// The vectors that package smasuite runs over drivers, run over a switch, with those that only a switch has: its
// attributes, and directed routes that pass it.

const numSwitchPorts = 20

// newSwitchRig returns a rig with a switch. Port 1 is in Init, the other external ports are down.
func newSwitchRig(t *testing.T) *rig {
	c := sma.SoftConfig{Type: mad.NodeSwitch, GUID: 0x500, SystemGUID: 0x501, VendorID: 0x2c9, DeviceID: 0x77,
		Revision: 3, Description: "a switch", Switch: mad.SwitchInfo{LinearFDBCap: 128, McastFDBCap: 64,
			PartEnfCap: 40}}
	for i := range numSwitchPorts {
		c.Ports = append(c.Ports, sma.SoftPort{Num: uint8(i + 1), Info: sma.DefaultPortInfo()})
	}
	return newRig(t, c)
}

// Every response repeats the header of its request, and the rest of the datagram is zero or defined.
func TestSwitchBytes(t *testing.T) {
	t.Parallel()
	r := newSwitchRig(t)
	for _, attr := range []uint16{mad.AttrNodeDescription, mad.AttrNodeInfo, mad.AttrSwitchInfo, mad.AttrGUIDInfo,
		mad.AttrPortInfo, mad.AttrPKeyTable, mad.AttrSLtoVL, mad.AttrLinearTable, mad.AttrMulticastTable,
		mad.AttrNotice} {
		for _, method := range []mad.Method{mad.Get, mad.Set} {
			var now mad.SMP
			now, _ = r.do(mad.Get, attr, 0, nil)
			data := now.Data[:]
			if attr == mad.AttrPortInfo {
				p := r.info(0, func(p *mad.PortInfo) {})
				p.Put(data)
			}
			m := smp(method, attr, 0, data)
			m[1] = byte(mad.ClassSubnetDirected)
			copy(m[32:], "\xff\xff\xff\xff")
			m[6], m[7] = 1, 1
			m[129] = 5
			want := *m
			v := r.agent.Receive(3, 0xffff, m)
			require.Equal(t, sma.Verdict{Action: sma.Reply, Port: 3}, v)
			want[3], want[4] = byte(mad.GetResp), 0x80
			want[6] = 1
			want[193] = 3 // return path
			if method == mad.Set && (attr == mad.AttrNodeDescription || attr == mad.AttrNodeInfo) {
				want[5] = byte(mad.StatusBadMethodAttribute)
			}
			copy(want[64:128], m[64:128])
			assert.Equal(t, want, *m, "%v of %#x", method, attr)
			if method == mad.Set && want[5] == 0 && attr != mad.AttrPortInfo && attr != mad.AttrSwitchInfo {
				assert.Equal(t, data, m[64:128], "a Set of what was read changes nothing: %#x", attr)
			}
		}
	}
	var n mad.NodeInfo
	r.get(mad.AttrNodeInfo, 0, &n)
	assert.Equal(t, mad.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: mad.NodeSwitch, NumPorts: numSwitchPorts,
		SystemGUID: 0x501, NodeGUID: 0x500, PortGUID: 0x500, PartitionCap: 32, DeviceID: 0x77,
		Revision: 3, LocalPort: 1,
		VendorID: 0x2c9}, n)
}

// Each request that a switch does not execute has its status.
func TestSwitchStatus(t *testing.T) {
	t.Parallel()
	r := newSwitchRig(t)
	for _, c := range []struct {
		name   string
		method mad.Method
		attr   uint16
		mod    uint32
		want   uint16
	}{
		{"random table", mad.Get, mad.AttrRandomTable, 0, mad.StatusBadMethodAttribute},
		{"vendor's diagnostics", mad.Get, mad.AttrVendorDiag, 0, mad.StatusBadMethodAttribute},
		{"read only", mad.Set, mad.AttrNodeInfo, 0, mad.StatusBadMethodAttribute},
		{"unknown", mad.Get, 0x7777, 0, mad.StatusBadMethodAttribute},
		{"method", mad.GetTable, mad.AttrNodeInfo, 0, mad.StatusBadMethod},
		{"method", 0x7f, mad.AttrNodeInfo, 0, mad.StatusBadMethod},
		{"port", mad.Get, mad.AttrPortInfo, numSwitchPorts, mad.StatusOK},
		{"port", mad.Get, mad.AttrPortInfo, numSwitchPorts + 1, mad.StatusBadField},
		{"port", mad.Set, mad.AttrPortInfo, 0x101, mad.StatusBadField},
		{"switch", mad.Get, mad.AttrSwitchInfo, 1, mad.StatusBadField},
		{"switch", mad.Set, mad.AttrSwitchInfo, 1, mad.StatusBadField},
		{"linear", mad.Get, mad.AttrLinearTable, 1, mad.StatusOK},
		{"linear", mad.Get, mad.AttrLinearTable, 2, mad.StatusBadField},
		{"linear", mad.Set, mad.AttrLinearTable, 0xffffffff, mad.StatusBadField},
		{"linear", mad.Set, mad.AttrLinearTable, 0x10000, mad.StatusBadField},
		{"multicast", mad.Get, mad.AttrMulticastTable, 1<<28 | 1, mad.StatusOK},
		{"multicast", mad.Get, mad.AttrMulticastTable, 2, mad.StatusBadField},
		{"multicast", mad.Get, mad.AttrMulticastTable, 2 << 28, mad.StatusBadField},
		{"multicast", mad.Set, mad.AttrMulticastTable, 0xf00001ff, mad.StatusBadField},
		{"multicast", mad.Set, mad.AttrMulticastTable, 1 << 9, mad.StatusBadField},
		{"SL to VL", mad.Get, mad.AttrSLtoVL, 20<<8 | 20, mad.StatusOK},
		{"SL to VL", mad.Get, mad.AttrSLtoVL, 20<<8 | 21, mad.StatusBadField},
		{"SL to VL", mad.Get, mad.AttrSLtoVL, 21 << 8, mad.StatusBadField},
		{"SL to VL", mad.Set, mad.AttrSLtoVL, 1 << 16, mad.StatusBadField},
		{"arbitration", mad.Get, mad.AttrVLArbitration, 1<<16 | 20, mad.StatusOK},
		{"arbitration", mad.Get, mad.AttrVLArbitration, 1<<16 | 21, mad.StatusBadField},
		{"arbitration of port 0", mad.Get, mad.AttrVLArbitration, 1 << 16, mad.StatusBadField},
		{"P_Keys of port 0", mad.Get, mad.AttrPKeyTable, 0, mad.StatusOK},
		{"P_Keys of port 0", mad.Get, mad.AttrPKeyTable, 1, mad.StatusBadField},
		{"P_Keys of port 20", mad.Set, mad.AttrPKeyTable, 20<<16 | 1, mad.StatusOK},
		{"P_Keys of port 20", mad.Set, mad.AttrPKeyTable, 20<<16 | 2, mad.StatusBadField},
		{"P_Keys of port 21", mad.Set, mad.AttrPKeyTable, 21 << 16, mad.StatusBadField},
		{"GUIDs", mad.Get, mad.AttrGUIDInfo, 1, mad.StatusBadField},
		{"notice", mad.Get, mad.AttrNotice, 1, mad.StatusBadField},
	} {
		s, ok := r.do(c.method, c.attr, c.mod, nil)
		require.True(t, ok)
		assert.Equal(t, c.want, s.Status, "%s: %v of %#x, modifier %#x", c.name, c.method, c.attr, c.mod)
	}
	for _, change := range []func(m *ci.MAD){func(m *ci.MAD) { m[0] = 2 }, func(m *ci.MAD) { m[2] = 2 }} {
		m := smp(mad.Get, mad.AttrNodeInfo, 0, nil)
		change(m)
		require.Equal(t, sma.Reply, r.agent.Receive(1, 9, m).Action)
		assert.EqualValues(t, mad.StatusBadVersion, m[5])
	}
}

// A Set(PortInfo) with one invalid component changes nothing: of port 0, which has addresses and no link, and of an
// external port, which has a link and no addresses.
func TestSwitchPortInfo(t *testing.T) {
	t.Parallel()
	r := newSwitchRig(t)
	for _, c := range []struct {
		name   string
		port   uint32
		change func(p *mad.PortInfo)
		want   uint16
	}{
		{"LID 0", 0, func(p *mad.PortInfo) { p.LID = 0 }, mad.StatusBadField},
		{"multicast LID", 0, func(p *mad.PortInfo) { p.LID = 0xc000 }, mad.StatusBadField},
		{"manager's LID 0", 0, func(p *mad.PortInfo) { p.MasterSMLID = 0 }, mad.StatusBadField},
		{"state of port 0", 0, func(p *mad.PortInfo) { p.State = 9 }, mad.StatusOK},
		{"LID of an external port", 1, func(p *mad.PortInfo) { p.LID, p.MasterSMLID = 0, 0 }, mad.StatusOK},
		{"Init", 1, func(p *mad.PortInfo) { p.State = uint8(ci.PortInit) }, mad.StatusBadField},
		{"Init to Active", 1, func(p *mad.PortInfo) { p.State = uint8(ci.PortActive) }, mad.StatusBadField},
		{"state 5", 1, func(p *mad.PortInfo) { p.State = 5 }, mad.StatusBadField},
		{"Armed while it is down", 2, func(p *mad.PortInfo) { p.State = uint8(ci.PortArmed) }, mad.StatusBadField},
		{"physical state 5", 1, func(p *mad.PortInfo) { p.PhysState = 5 }, mad.StatusBadField},
		{"MTU 0", 1, func(p *mad.PortInfo) { p.NeighborMTU = 0 }, mad.StatusBadField},
		{"MTU", 1, func(p *mad.PortInfo) { p.NeighborMTU = p.MTUCap + 1 }, mad.StatusBadField},
		{"lanes", 1, func(p *mad.PortInfo) { p.OperationalVLs = p.VLCap + 1 }, mad.StatusBadField},
		{"width", 1, func(p *mad.PortInfo) { p.WidthEnabled = 8 }, mad.StatusBadField},
	} {
		var before, after mad.PortInfo
		r.get(mad.AttrPortInfo, c.port, &before)
		p := r.info(c.port, func(p *mad.PortInfo) {
			p.SubnetTimeout ^= 3
			c.change(p)
		})
		require.Equal(t, c.want, r.set(mad.AttrPortInfo, c.port, p), c.name)
		if r.get(mad.AttrPortInfo, c.port, &after); c.want != mad.StatusOK {
			assert.Equal(t, before, after, c.name)
		}
	}
	for _, s := range []ci.PortState{ci.PortArmed, ci.PortActive, ci.PortActive, ci.PortDown} {
		require.Zero(t, r.set(mad.AttrPortInfo, 1, r.info(1, func(p *mad.PortInfo) { p.State = uint8(s) })), "%v", s)
	}
	assert.Equal(t, ci.PortInit, r.node.State(1), "the link trains again")
}

// hops returns a directed route of three hops at a switch, with a hop pointer, on its way out or back.
func hops(pointer, count byte, back bool) *ci.MAD {
	m := directed(mad.Get, mad.AttrNodeInfo, 0, 7, 8, 9)
	m[6], m[7] = pointer, count
	if back {
		m[3], m[4] = byte(mad.GetResp), 0x80
	}
	copy(m[193:], []byte{4, 5, 6})
	return m
}

// A switch passes directed routes on in both directions, and drops those whose hop pointer, hop count or ports are out
// of range.
func TestSwitchHops(t *testing.T) {
	t.Parallel()
	r := newSwitchRig(t)
	forward := func(port uint8) sma.Verdict { return sma.Verdict{Action: sma.Forward, Port: port} }
	for _, c := range []struct {
		name           string
		pointer, count byte
		back           bool
		want           sma.Verdict
		after          byte // hop pointer
	}{
		{"first switch", 1, 3, false, forward(8), 2},
		{"second switch", 2, 3, false, forward(9), 3},
		{"last node", 3, 3, false, sma.Verdict{Action: sma.Reply, Port: 2}, 3},
		{"not begun", 0, 3, false, sma.Verdict{}, 0},
		{"after the LID-routed part", 4, 3, false, sma.Verdict{Action: sma.Reply, Port: 6}, 3},
		{"beyond the end", 5, 3, false, sma.Verdict{}, 0},
		{"pointer 255", 255, 3, false, sma.Verdict{}, 0},
		{"count 64", 1, 64, false, sma.Verdict{}, 0},
		{"count 255", 254, 255, false, sma.Verdict{}, 0},
		{"port 0 on the way", 3, 5, false, sma.Verdict{}, 0},
		{"back over the second switch", 3, 3, true, forward(5), 2},
		{"back over the first switch", 2, 3, true, forward(4), 1},
		{"back at the manager", 1, 3, true, sma.Verdict{Action: sma.Deliver}, 0},
		{"back and delivered", 0, 3, true, sma.Verdict{Action: sma.Deliver}, 0},
		{"back from the last switch", 4, 3, true, forward(6), 3},
		{"back from beyond the end", 5, 3, true, sma.Verdict{}, 0},
		{"back with pointer 255", 255, 3, true, sma.Verdict{}, 0},
		{"back with count 64", 2, 64, true, sma.Verdict{}, 0},
	} {
		m := hops(c.pointer, c.count, c.back)
		v := r.agent.Receive(2, 0xffff, m)
		if assert.Equal(t, c.want, v, c.name) && v.Action != sma.Discard {
			assert.Equal(t, c.after, m[6], "%s: hop pointer", c.name)
		}
		if v.Action == sma.Forward && !c.back {
			assert.EqualValues(t, 2, m[192+int(c.pointer)], "%s: return path", c.name)
		}
	}
	m := hops(1, 3, false)
	m[130] = numSwitchPorts + 1
	assert.Equal(t, sma.Verdict{}, r.agent.Receive(2, 0xffff, m), "a port that the switch does not have")
	m = hops(3, 3, true)
	m[194] = 255
	assert.Equal(t, sma.Verdict{}, r.agent.Receive(2, 0xffff, m), "a return path through no port")
}

// A route that loops over one switch ends: each pass uses one of at most 63 hops.
func TestSwitchLoop(t *testing.T) {
	t.Parallel()
	r := newSwitchRig(t)
	path := make([]byte, 63)
	for i := range path {
		path[i] = 1
	}
	m := directed(mad.Get, mad.AttrNodeInfo, 0, path...)
	v := r.agent.Send(0, m)
	passes := 0
	for ; v.Action == sma.Forward; passes++ {
		require.Less(t, passes, 200)
		v = r.agent.Receive(1, 0xffff, m)
	}
	assert.Equal(t, sma.Verdict{Action: sma.Reply, Port: 1}, v)
	assert.Equal(t, 63, passes)
	for v = r.agent.Receive(1, 0xffff, m); v.Action == sma.Forward; passes++ {
		require.Less(t, passes, 200)
		v = r.agent.Receive(1, 0xffff, m)
	}
	assert.Equal(t, sma.Deliver, v.Action, "the response is back at the manager")
	assert.Zero(t, m[6])
}
