package sma_test

import (
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

// A keeper is a driver that keeps the PortInfo of its port and checks no M_Keys.
type keeper struct{ info mad.PortInfo }

func (k *keeper) LocalMAD(_ uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
	*out = *in
	out[3] = uint8(mad.GetResp)
	switch {
	case binary.BigEndian.Uint16(in[16:]) != mad.AttrPortInfo:
		binary.BigEndian.PutUint16(out[4:], mad.StatusBadMethodAttribute)
	case mad.Method(in[3]) == mad.Set:
		k.info.Parse(in[64:])
		k.info.MKeyViolations = 0 // it has none of its own
	}
	k.info.Put(out[64:])
	return nil
}

// A strict is a driver with an agent that checks M_Keys and has no lease timer.
type strict struct{ agent *sma.Agent }

func (s *strict) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	*out = *in
	var slid ci.LID
	if src != nil {
		slid = src.DLID
	}
	if !s.agent.ExecuteLocal(port, slid, out) {
		*out = ci.MAD{}
	}
	return nil
}

// A forgetful driver executes Set(PortInfo) and keeps nothing of the M_Key.
type forgetful struct{ keeper }

func (f *forgetful) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	err := f.keeper.LocalMAD(port, src, in, out)
	f.info.MKey, f.info.MKeyProtect, f.info.MKeyLease = 0, 0, 0
	if binary.BigEndian.Uint16(in[16:]) == mad.AttrPortInfo {
		f.info.Put(out[64:])
	}
	return err
}

// settable makes a PortInfo that was read one that a Set may have.
func settable(p *mad.PortInfo) {
	p.State, p.PhysState = 0, 0
	p.LID, p.MasterSMLID, p.NeighborMTU = 5, 6, 4
}

// The kit protects the M_Key of every driver, at every level, and its lease ends when it should.
func TestCANodeProtection(t *testing.T) {
	t.Parallel()
	const key, wrong = 0xabc, 0xdef
	for name, driver := range map[string]func() sma.CA{
		"keeper":    func() sma.CA { return &keeper{mad.PortInfo{LID: 5, State: uint8(ci.PortActive)}} },
		"forgetful": func() sma.CA { return &forgetful{keeper{mad.PortInfo{LID: 5, State: uint8(ci.PortActive)}}} },
		"strict": func() sma.CA {
			n, err := sma.NewSoftNode(sma.SoftConfig{GUID: 1, Ports: []sma.SoftPort{{Num: 1, GUID: 2,
				Info: sma.DefaultPortInfo()}}})
			require.NoError(t, err)
			return &strict{sma.New(sma.Config{Node: n})}
		},
	} {
		for level := range uint8(4) {
			clk := clock.NewVirtual(0)
			attr := &ci.CAAttr{Caps: ci.CapLocalMAD, GUID: 1, Ports: []ci.PortAttr{{Num: 1, LID: 5}}}
			a := sma.New(sma.Config{Clock: clk, Node: sma.NewCANode(sma.CANodeConfig{CA: driver(),
				Attr: func() *ci.CAAttr { return attr }})})
			do := func(method mad.Method, attr uint16, key uint64, data []byte) (s mad.SMP, answered bool) {
				m := smp(method, attr, 0, data)
				binary.BigEndian.PutUint64(m[24:], key)
				answered = a.ExecuteLocal(1, 9, m)
				s.Parse(m[:])
				return s, answered
			}
			read := func(key uint64) (p mad.PortInfo, answered bool) {
				s, answered := do(mad.Get, mad.AttrPortInfo, key, nil)
				if answered {
					require.Zero(t, s.Status, name)
				}
				p.Parse(s.Data[:])
				return p, answered
			}
			p, _ := read(0)
			settable(&p)
			p.MKey, p.MKeyProtect, p.MKeyLease = key, level, 10
			var b [64]byte
			p.Put(b[:])
			s, ok := do(mad.Set, mad.AttrPortInfo, 0, b[:])
			require.True(t, ok && s.Status == 0, "%s %d", name, level)
			p, ok = read(key)
			require.True(t, ok)
			assert.EqualValues(t, key, p.MKey, "%s: the owner sees it", name)
			assert.Equal(t, level, p.MKeyProtect)
			p, ok = read(wrong)
			assert.Equal(t, level < 2, ok, "%s %d", name, level)
			if ok && level == 1 {
				assert.Zero(t, p.MKey, "%s: level 1 hides the key", name)
			}
			_, ok = do(mad.Set, mad.AttrPortInfo, wrong, b[:])
			assert.False(t, ok, "%s %d: a Set needs the key", name, level)
			clk.Advance(11 * time.Second)
			p, ok = read(wrong)
			assert.True(t, ok, "%s %d: the lease has expired, for the driver, too", name, level)
			assert.Zero(t, p.MKeyProtect)
			assert.EqualValues(t, key, p.MKey, "level 0 shows it")
			p, ok = read(key)
			require.True(t, ok)
			assert.NotZero(t, p.MKeyViolations)
			before := p.MKeyViolations
			settable(&p)
			p.Put(b[:])
			_, ok = do(mad.Set, mad.AttrPortInfo, key, b[:])
			require.True(t, ok)
			p, _ = read(key)
			assert.Equal(t, before, p.MKeyViolations, "%s: a Set of another value than 0 changes nothing", name)
			p.State, p.PhysState, p.MKeyViolations = 0, 0, 0
			p.Put(b[:])
			_, ok = do(mad.Set, mad.AttrPortInfo, key, b[:])
			require.True(t, ok)
			p, _ = read(key)
			assert.Zero(t, p.MKeyViolations, name)
			a.Close()
		}
	}
}

// A violation of the key that a Set has given to the port is reported to the manager that this Set has named, though
// the adapter's attributes do not show it yet. When they are queried after the Set, they count.
func TestCANodeNewManager(t *testing.T) {
	t.Parallel()
	const key = 0xabc
	attr := &ci.CAAttr{Caps: ci.CapLocalMAD, GUID: 1, Ports: []ci.PortAttr{{Num: 1, State: ci.PortActive}}}
	var to []sma.Manager
	a := sma.New(sma.Config{Clock: clock.NewVirtual(0),
		SendTrap: func(_ uint8, m sma.Manager, _ *ci.MAD) { to = append(to, m) },
		Node: sma.NewCANode(sma.CANodeConfig{CA: &keeper{mad.PortInfo{State: uint8(ci.PortActive)}},
			Attr: func() *ci.CAAttr { return attr }})})
	defer a.Close()
	show := func(lid, manager ci.LID, state ci.PortState) {
		attr = &ci.CAAttr{Caps: ci.CapLocalMAD, GUID: 1, Ports: []ci.PortAttr{{Num: 1, State: state, LID: lid,
			SMLID: manager, SMSL: 3, SubnetTimeout: 14}}}
	}
	set := func(manager uint16) {
		p := mad.PortInfo{LID: 5, MasterSMLID: manager, MasterSMSL: 3, SubnetTimeout: 14, MKey: key,
			State: uint8(ci.PortActive)}
		var b [64]byte
		p.Put(b[:])
		m := smp(mad.Set, mad.AttrPortInfo, 0, b[:])
		binary.BigEndian.PutUint64(m[24:], key)
		require.True(t, a.ExecuteLocal(1, 6, m))
	}
	n := uint32(0)
	violate := func() (m sma.Manager) {
		to = nil
		n++
		require.False(t, a.ExecuteLocal(1, 6, smp(mad.Set, mad.AttrPKeyTable, n, nil)))
		if len(to) > 0 {
			m = to[0]
		}
		return m
	}
	want := func(manager ci.LID) sma.Manager { return sma.Manager{LID: manager, SL: 3, Own: 5, Timeout: 14} }
	set(6)
	assert.Equal(t, want(6), violate(), "before any query")
	show(0, 0, ci.PortActive)
	assert.Equal(t, want(6), violate(), "after a query that had begun before the Set")
	show(0, 0, ci.PortDown)
	assert.Zero(t, violate(), "after a query that has seen the link go down")
	set(6)
	show(5, 6, ci.PortActive)
	assert.Equal(t, want(6), violate(), "after the query of the Set")
	show(5, 6, ci.PortDown)
	assert.Zero(t, violate(), "after the link went down")
	set(6)
	show(5, 6, ci.PortInit)
	assert.Zero(t, violate(), "after the link went down, with no violation between")
}

// FuzzCANode checks that whatever a driver answers to any datagram, the kit's response belongs to its request.
func FuzzCANode(f *testing.F) {
	f.Add(smp(mad.Set, mad.AttrPortInfo, 1, []byte{1})[:], smp(mad.GetResp, mad.AttrPortInfo, 1, nil)[:],
		uint8(1), false)
	f.Add(smp(mad.Get, mad.AttrPKeyTable, 0xffffffff, nil)[:], []byte{}, uint8(2), false)
	f.Add(smp(mad.Get, mad.AttrGUIDInfo, 1, nil)[:], []byte{}, uint8(0), true)
	f.Fuzz(func(t *testing.T, in, answer []byte, port uint8, noAgent bool) {
		attr := &ci.CAAttr{Caps: ci.CapLocalMAD, GUID: 1,
			Ports: []ci.PortAttr{{Num: 1, LID: 5, PKeys: make([]ci.PKey, 40),
				GIDs: make([]ci.GIDEntry, 9)}, {Num: 2}}}
		if noAgent {
			attr.Caps = 0
		}
		a := sma.New(sma.Config{Clock: clock.NewVirtual(0), Node: sma.NewCANode(sma.CANodeConfig{CA: answering(answer),
			Attr: func() *ci.CAAttr { return attr }, Description: "fuzz"})})
		defer a.Close()
		for range 2 { // the second one meets what the node has learned from the first
			var m ci.MAD
			copy(m[:], in)
			before := m
			if a.ExecuteLocal(port, 9, &m) {
				require.Equal(t, uint8(mad.GetResp), m[3])
				require.Equal(t, before[8:64], m[8:64])
				require.Equal(t, before[128:], m[128:])
			}
		}
	})
}

// answering is a driver that answers every datagram with the same bytes.
type answering []byte

func (x answering) LocalMAD(_ uint8, _ *ci.AVAttr, _, out *ci.MAD) error {
	*out = ci.MAD{}
	copy(out[:], x)
	return nil
}
