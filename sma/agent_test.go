package sma_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/sma"
)

// A recorder is the hardware of a node. Its links come up at once if up is set.
type recorder struct {
	node  *sma.SoftNode
	up    bool
	trace []sma.Change
	phys  []uint8
}

func (r *recorder) Train(port, phys uint8) {
	r.phys = append(r.phys, phys)
	if r.up && phys == sma.PhysPolling {
		r.node.LinkUp(port, sma.Link{Width: 2, Speed: 4})
	}
}

func (r *recorder) Changed(_ uint8, c sma.Change) { r.trace = append(r.trace, c) }

// A rig is an agent with a node, a clock and what the agent sends.
type rig struct {
	t     *testing.T
	hw    *recorder
	node  *sma.SoftNode
	agent *sma.Agent
	clock *clock.Virtual
	traps []mad.SMP
	key   uint64
}

// newCA returns a rig with an adapter of one port, which is in Init.
func newCA(t *testing.T) *rig {
	return newRig(t, sma.SoftConfig{GUID: 0x100, Description: "adapter", Ports: []sma.SoftPort{{Num: 1, GUID: 0x101,
		Info: sma.DefaultPortInfo(), NumPKeys: 40}}})
}

func newRig(t *testing.T, c sma.SoftConfig) *rig {
	t.Helper()
	r := &rig{t: t, hw: &recorder{up: true}, clock: clock.NewVirtual(0)}
	c.Hardware = r.hw
	var err error
	r.node, err = sma.NewSoftNode(c)
	require.NoError(t, err)
	r.hw.node = r.node
	r.agent = sma.New(sma.Config{Node: r.node, Clock: r.clock, FirstTID: 1000,
		SendTrap: func(_ uint8, _ sma.Manager, m *ci.MAD) {
			var s mad.SMP
			s.Parse(m[:])
			r.traps = append(r.traps, s)
		}})
	t.Cleanup(func() {
		r.agent.Close()
		require.Zero(t, r.clock.Pending())
	})
	r.node.LinkUp(1, sma.Link{})
	r.hw.trace = nil
	return r
}

// do sends a request by LID on port 1.
func (r *rig) do(method mad.Method, attr uint16, mod uint32, data []byte) (s mad.SMP, answered bool) {
	r.t.Helper()
	m := smp(method, attr, mod, data)
	for i := range 8 {
		m[24+i] = byte(r.key >> (56 - 8*i))
	}
	v := r.agent.Receive(1, 99, m)
	if v.Action == sma.Discard {
		return s, false
	}
	require.Equal(r.t, sma.Verdict{Action: sma.Reply, ByLID: true}, v)
	s.Parse(m[:])
	require.Equal(r.t, mad.GetResp, s.Method)
	return s, true
}

func (r *rig) get(attr uint16, mod uint32, to layout) {
	r.t.Helper()
	s, ok := r.do(mad.Get, attr, mod, nil)
	require.True(r.t, ok)
	require.Zero(r.t, s.Status)
	to.Parse(s.Data[:])
}

// set sends a Set, and reads the response into v.
func (r *rig) set(attr uint16, mod uint32, v layout) (status uint16) {
	r.t.Helper()
	b := make([]byte, 64)
	v.Put(b)
	s, ok := r.do(mad.Set, attr, mod, b)
	require.True(r.t, ok)
	v.Parse(s.Data[:])
	return s.Status
}

type layout interface {
	Put([]byte)
	Parse([]byte)
}

// info returns a PortInfo that a Set may contain, with the given change.
func (r *rig) info(mod uint32, change func(*mad.PortInfo)) *mad.PortInfo {
	r.t.Helper()
	var p mad.PortInfo
	r.get(mad.AttrPortInfo, mod, &p)
	p.State, p.PhysState = 0, 0
	if p.LID == 0 {
		p.LID, p.MasterSMLID = 5, 6
	}
	change(&p)
	return &p
}

// repress sends the TrapRepress of a trap, with the M_Key of the rig.
func (r *rig) repress(tid uint64) {
	m := smp(mad.TrapRepress, mad.AttrNotice, 0, nil)
	binary.BigEndian.PutUint64(m[8:], tid)
	binary.BigEndian.PutUint64(m[24:], r.key)
	require.Equal(r.t, sma.Verdict{}, r.agent.Receive(1, 6, m))
}

func (r *rig) activate() {
	r.t.Helper()
	require.Zero(r.t, r.set(mad.AttrPortInfo, 0, r.info(0, func(p *mad.PortInfo) {
		p.State, p.SubnetTimeout = uint8(ci.PortArmed), 18
	})))
	require.Zero(r.t, r.set(mad.AttrPortInfo, 0, r.info(0, func(p *mad.PortInfo) { p.State = uint8(ci.PortActive) })))
	require.Equal(r.t, ci.PortActive, r.node.State(1))
}

// The M_Key protects a port at each level. The lease lowers the level when its owner stays away.
func TestMKeyProtection(t *testing.T) {
	t.Parallel()
	const key = 0xabc
	for level := range uint8(4) {
		r := newCA(t)
		r.activate()
		require.Zero(t, r.set(mad.AttrPortInfo, 0, r.info(0, func(p *mad.PortInfo) {
			p.MKey, p.MKeyProtect, p.MKeyLease = key, level, 10
		})))
		s, ok := r.do(mad.Get, mad.AttrPortInfo, 0, nil)
		require.Equal(t, level < 2, ok, "level %d", level)
		if ok {
			var p mad.PortInfo
			p.Parse(s.Data[:])
			assert.Equal(t, map[uint8]uint64{0: key, 1: 0}[level], p.MKey)
		}
		_, ok = r.do(mad.Set, mad.AttrPKeyTable, 0, nil)
		assert.False(t, ok, "level %d: a Set needs the key", level)
		assert.EqualValues(t, 0xffff, r.node.PKeys(1).At(0), "and changes nothing")
		require.NotEmpty(t, r.traps)
		var n mad.Notice
		n.Parse(r.traps[0].Data[:])
		assert.Equal(t, mad.TrapBadMKey, n.Trap)
		var d mad.TrapMKey
		d.Parse(n.Details[:])
		assert.EqualValues(t, 99, d.LID)

		r.key = key
		var p mad.PortInfo
		r.get(mad.AttrPortInfo, 0, &p)
		assert.Equal(t, level, p.MKeyProtect)
		assert.NotZero(t, p.MKeyViolations)
		r.clock.Advance(20 * time.Second)
		r.get(mad.AttrPortInfo, 0, &p)
		assert.Equal(t, level, p.MKeyProtect, "an SMP with the key has ended the lease")
		r.key = 1
		_, _ = r.do(mad.Set, mad.AttrPKeyTable, 0, nil)
		r.clock.Advance(6 * time.Second)
		m := smp(mad.Get, mad.AttrPortInfo, 0, nil)
		violations := r.agent.Count(sma.BadMKey)
		require.True(t, r.agent.ExecuteTrusted(1, m), "the driver needs no key")
		p.Parse(m[64:])
		assert.EqualValues(t, key, p.MKey, "and sees it")
		assert.Equal(t, violations, r.agent.Count(sma.BadMKey))
		require.True(t, r.agent.ExecuteTrusted(1, smp(mad.Set, mad.AttrPKeyTable, 0, bytes.Repeat([]byte{0xff}, 64))))
		assert.False(t, r.agent.ExecuteTrusted(1, smp(mad.TrapRepress, mad.AttrNotice, 0, nil)), "it has no response")
		r.clock.Advance(5 * time.Second) // for the driver has not ended the lease
		r.get(mad.AttrPortInfo, 0, &p)
		assert.Zero(t, p.MKeyProtect, "the lease has expired")
		if level > 0 {
			assert.EqualValues(t, 1, r.agent.Count(sma.LeasesExpired))
		}
	}
}

// A trap is repeated in the interval of SubnetTimeout until it is repressed, and lost without a manager.
func TestTrapRepetition(t *testing.T) {
	t.Parallel()
	r := newCA(t)
	r.node.LinkError(1, mad.TrapLinkIntegrity)
	assert.Empty(t, r.traps)
	assert.EqualValues(t, 1, r.agent.Count(sma.TrapsLost), "there is no manager yet")
	r.activate()
	r.node.LinkError(1, mad.TrapLinkIntegrity)
	r.node.LinkError(1, mad.TrapLinkIntegrity)
	require.Len(t, r.traps, 1, "the same trap is outstanding")
	assert.Equal(t, mad.Trap, r.traps[0].Method)
	assert.EqualValues(t, 1000, r.traps[0].TID)
	var n mad.Notice
	n.Parse(r.traps[0].Data[:])
	want := mad.Notice{Generic: true, Type: mad.NoticeUrgent, Producer: mad.ProducerCA, Trap: mad.TrapLinkIntegrity,
		IssuerLID: 5}
	(&mad.TrapPort{LID: 5, Port: 1}).Put(want.Details[:])
	assert.Equal(t, want, n)
	r.clock.Advance(3500 * time.Millisecond) // 18 is 1.07 seconds
	require.Len(t, r.traps, 4)
	assert.Equal(t, r.traps[0], r.traps[3])

	m := smp(mad.TrapRepress, mad.AttrNotice, 0, nil)
	assert.Equal(t, sma.Verdict{Action: sma.Deliver}, r.agent.Receive(1, 6, m), "of a manager's trap")
	assert.Equal(t, sma.Verdict{}, r.agent.Refuse(1, m), "of no trap")
	assert.EqualValues(t, 1, r.agent.Count(sma.BadRepress))
	r.repress(1000)
	assert.EqualValues(t, 1, r.agent.Count(sma.TrapsRepressed))
	r.clock.Advance(time.Second)
	require.Len(t, r.traps, 5, "the event occurred twice: the manager may have sent the TrapRepress before the second")
	assert.EqualValues(t, 1001, r.traps[4].TID)
	assert.Equal(t, r.traps[0].Data, r.traps[4].Data)
	r.repress(1001)
	r.traps = r.traps[:4]
	require.Zero(t, r.clock.Pending()-1, "one timer is left, which finds no trap")
	r.clock.Advance(time.Minute)
	require.Len(t, r.traps, 4)

	for i := range 100 { // a flood has a bound
		n := mad.Notice{Generic: true, Trap: mad.TrapBadPKey, Details: [54]byte{30: byte(i)}}
		r.agent.Trap(1, &n)
	}
	assert.Len(t, r.traps, 4+4, "one number leaves room for others")
	for i := range 100 {
		n := mad.Notice{Generic: true, Trap: mad.TrapBadQKey + uint16(i/4), Details: [54]byte{30: byte(i)}}
		r.agent.Trap(1, &n)
	}
	assert.Len(t, r.traps, 4+16)
	r.node.LinkDown(1, sma.PhysPolling)
	r.clock.Advance(time.Minute)
	assert.Len(t, r.traps, 4+16, "a port that is down sends nothing")
	assert.Zero(t, r.clock.Pending())
}

// Get(Notice) returns the oldest outstanding trap, and a Set of it removes it.
func TestNotice(t *testing.T) {
	t.Parallel()
	r := newCA(t)
	r.activate()
	var n mad.Notice
	r.get(mad.AttrNotice, 0, &n)
	assert.Equal(t, mad.NoticeEmpty, n.Type)
	r.node.SetCapability(1, ci.PortCapSM, ci.PortCapSM)
	r.node.SetSystemGUID(77)
	r.get(mad.AttrNotice, 0, &n)
	assert.Equal(t, mad.TrapCapabilityMask, n.Trap)
	assert.EqualValues(t, 2, n.Count)
	var d mad.TrapCapability
	d.Parse(n.Details[:])
	assert.NotZero(t, d.CapabilityMask&uint32(ci.PortCapSM))
	require.Zero(t, r.set(mad.AttrNotice, 0, &n))
	r.get(mad.AttrNotice, 0, &n)
	assert.Equal(t, mad.TrapSystemGUIDChanged, n.Trap)
	assert.Equal(t, mad.StatusBadField, r.set(mad.AttrNotice, 1, &n))
}

// What agents do not answer goes to the managers of the node, or is refused.
func TestDeliver(t *testing.T) {
	t.Parallel()
	r := newCA(t)
	for _, c := range []struct {
		method mad.Method
		attr   uint16
		want   sma.Action
	}{
		{mad.Get, mad.AttrSMInfo, sma.Reply}, {mad.Set, mad.AttrSMInfo, sma.Reply},
		{mad.GetResp, mad.AttrNodeInfo, sma.Discard}, {mad.Trap, mad.AttrNotice, sma.Discard},
	} {
		m := smp(c.method, c.attr, 0, nil)
		require.Equal(t, sma.Verdict{Action: sma.Deliver}, r.agent.Receive(1, 2, m))
		require.Equal(t, c.want, r.agent.Refuse(1, m).Action)
	}
}

// Tables end where their capacity ends.
func TestTableBounds(t *testing.T) {
	t.Parallel()
	r := newCA(t)
	k := mad.PKeyBlock{8: 0x8123}
	require.Zero(t, r.set(mad.AttrPKeyTable, 1, &k))
	assert.Equal(t, mad.PKeyBlock{}, k, "entries 40 on do not exist")
	k = mad.PKeyBlock{7: 0x8123}
	require.Zero(t, r.set(mad.AttrPKeyTable, 1, &k))
	assert.EqualValues(t, 0x8123, r.node.PKeys(1).At(39))
	assert.True(t, r.node.PKeys(1).Has(0x123))
	assert.False(t, r.node.PKeys(1).Has(0x124))
	for _, c := range []struct {
		attr uint16
		mod  uint32
		want uint16
	}{
		{mad.AttrPKeyTable, 2, mad.StatusBadField}, {mad.AttrPKeyTable, 0xffff, mad.StatusBadField},
		{mad.AttrPKeyTable, 2 << 16, mad.StatusBadField}, {mad.AttrPKeyTable, 1 << 16, mad.StatusOK},
		{mad.AttrGUIDInfo, 1, mad.StatusBadField}, {mad.AttrGUIDInfo, 0xffffffff, mad.StatusBadField},
		{mad.AttrPortInfo, 2, mad.StatusBadField}, {mad.AttrPortInfo, 0x101, mad.StatusBadField},
		{mad.AttrVLArbitration, 1 << 16, mad.StatusOK}, {mad.AttrVLArbitration, 0, mad.StatusBadField},
		{mad.AttrVLArbitration, 2 << 16, mad.StatusBadField}, {mad.AttrVLArbitration, 5 << 16, mad.StatusBadField},
		{mad.AttrSwitchInfo, 0, mad.StatusBadMethodAttribute}, {mad.AttrLinearTable, 0, mad.StatusBadMethodAttribute},
		{mad.AttrMulticastTable, 0, mad.StatusBadMethodAttribute}, {mad.AttrLEDInfo, 0, mad.StatusBadMethodAttribute},
		{mad.AttrVendorDiag, 0, mad.StatusBadMethodAttribute}, {0xff90, 0, mad.StatusBadMethodAttribute},
		{0x7777, 0, mad.StatusBadMethodAttribute}, {mad.AttrSLtoVL, 0, mad.StatusOK},
	} {
		s, ok := r.do(mad.Get, c.attr, c.mod, nil)
		require.True(t, ok)
		assert.Equal(t, c.want, s.Status, "Get %#x modifier %#x", c.attr, c.mod)
	}
}

// The forwarding path sees what a subnet manager has written.
func TestSwitchTables(t *testing.T) {
	t.Parallel()
	c := sma.SoftConfig{Type: mad.NodeSwitch, GUID: 0x500, Switch: mad.SwitchInfo{LinearFDBCap: 128, McastFDBCap: 64,
		PartEnfCap: 8}}
	for i := range 20 {
		c.Ports = append(c.Ports, sma.SoftPort{Num: uint8(i + 1), Info: sma.DefaultPortInfo()})
	}
	r := newRig(t, c)
	assert.Equal(t, mad.NoPort, r.node.Route(5))
	l := mad.LinearBlock{5: 7, 6: 0}
	require.Zero(t, r.set(mad.AttrLinearTable, 1, &l))
	assert.Equal(t, mad.NoPort, r.node.Route(69), "beyond LinearFDBTop")
	i := mad.SwitchInfo{LinearFDBTop: 127, McastFDBTop: 0xc03f, LifeTimeValue: 19}
	require.Zero(t, r.set(mad.AttrSwitchInfo, 0, &i))
	assert.Equal(t, mad.SwitchInfo{LinearFDBCap: 128, McastFDBCap: 64, PartEnfCap: 8, LinearFDBTop: 127,
		McastFDBTop: 0xc03f, LifeTimeValue: 19, PortStateChange: true}, i)
	assert.EqualValues(t, 7, r.node.Route(69))
	assert.Equal(t, mad.NoPort, r.node.Route(128))
	assert.Equal(t, mad.StatusBadField, r.set(mad.AttrSwitchInfo, 0, &mad.SwitchInfo{LinearFDBTop: 128}))
	assert.Equal(t, mad.StatusBadField, r.set(mad.AttrSwitchInfo, 0, &mad.SwitchInfo{McastFDBTop: 0xc040}))
	i = mad.SwitchInfo{PortStateChange: true}
	require.Zero(t, r.set(mad.AttrSwitchInfo, 0, &i))
	assert.False(t, i.PortStateChange)

	b := mad.MulticastBlock{3: 1<<4 | 1<<1}
	require.Zero(t, r.set(mad.AttrMulticastTable, 1, &b))
	b = mad.MulticastBlock{3: 1 << 2}
	require.Zero(t, r.set(mad.AttrMulticastTable, 1<<28|1, &b))
	var mask sma.PortMask
	require.True(t, r.node.MulticastPorts(0xc023, &mask))
	for p := range uint8(21) {
		assert.Equal(t, p == 1 || p == 4 || p == 18, mask.Has(p), "port %d", p)
	}
	require.False(t, r.node.MulticastPorts(0xc040, &mask))
	for _, mod := range []uint32{2, 2 << 28, 0x200} {
		s, _ := r.do(mad.Get, mad.AttrMulticastTable, mod, nil)
		assert.Equal(t, mad.StatusBadField, s.Status, "%#x", mod)
	}
	s, _ := r.do(mad.Get, mad.AttrLinearTable, 2, nil)
	assert.Equal(t, mad.StatusBadField, s.Status)

	v := mad.SLtoVL{3: 2, 15: 7}
	require.Zero(t, r.set(mad.AttrSLtoVL, 4<<8|9, &v))
	assert.EqualValues(t, 2, r.node.VL(4, 9, 3))
	assert.EqualValues(t, 7, r.node.VL(4, 9, 15))
	assert.Zero(t, r.node.VL(9, 4, 3))
	assert.EqualValues(t, 15, r.node.VL(4, 21, 3))
}

// A switch reports the change of a port's state to the manager of its port 0.
func TestSwitchLinkTrap(t *testing.T) {
	t.Parallel()
	c := sma.SoftConfig{Type: mad.NodeSwitch, GUID: 0x500, Ports: []sma.SoftPort{{Num: 1, Info: sma.DefaultPortInfo()}}}
	r := newRig(t, c)
	require.Zero(t, r.set(mad.AttrPortInfo, 0, r.info(0, func(p *mad.PortInfo) { p.LID, p.MasterSMLID = 9, 2 })))
	r.node.LinkDown(1, 0)
	require.Len(t, r.traps, 1)
	var n mad.Notice
	n.Parse(r.traps[0].Data[:])
	assert.Equal(t, mad.Notice{Generic: true, Type: mad.NoticeUrgent, Producer: mad.ProducerSwitch,
		Trap: mad.TrapLinkState, IssuerLID: 9, Details: [54]byte{1: 9}}, n)
	assert.True(t, r.node.SwitchInfo().PortStateChange)
}

// FuzzReceive checks that any datagram leaves the agent intact, and that every response belongs to its request.
func FuzzReceive(f *testing.F) {
	f.Add(smp(mad.Set, mad.AttrPortInfo, 1, []byte{1})[:], uint8(1))
	f.Add(directed(mad.Get, mad.AttrNodeInfo, 0, 1, 2)[:], uint8(3))
	f.Add(directed(mad.Set, mad.AttrLinearTable, 0xffffffff)[:], uint8(0))
	_, a := newSwitch(f, 8)
	f.Fuzz(func(t *testing.T, in []byte, port uint8) {
		var m ci.MAD
		copy(m[:], in)
		before := m
		v := a.Receive(port, 1, &m)
		switch v.Action {
		case sma.Forward:
			require.True(t, v.ByLID || v.Port >= 1 && v.Port <= 8)
		case sma.Reply:
			require.Equal(t, uint8(mad.GetResp), m[3])
			require.Equal(t, before[8:24], m[8:24])
		}
	})
}
