package rvt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/wire"
)

// An apmRig is a pair with two ports each. LIDs 1 and 2 are a's, 3 and 4 b's. Ports whose number is in cut send
// nothing.
type apmRig struct {
	a, b *side
	s    *sim
	cut  map[ci.LID]bool
	used map[ci.LID]int
}

func newAPMRig(t *testing.T, typ ci.QPType, hints Hints) *apmRig {
	x := &apmRig{cut: map[ci.LID]bool{}, used: map[ci.LID]int{}}
	x.s = &sim{clock: newClock()}
	l := &wireLink{mtu: ci.MTU4096, sim: x.s, hints: hints}
	x.s.log = func(from ci.LID, _ *Packet) { x.used[from]++ }
	x.s.fate = func(_ int, p *Packet) fate {
		if x.cut[p.Src.LID] {
			return fate{}
		}
		return onTime
	}
	x.a = newSideOn(t, []*linkPort{l.port(), l.port()}, 0xa, x.s.clock, plainRings{}, typ, nil)
	x.b = newSideOn(t, []*linkPort{l.port(), l.port()}, 0xb, x.s.clock, plainRings{}, typ, nil)
	x.a.connect(x.b, func(q *ci.QPAttr) { q.RetryCount = 2 })
	x.b.connect(x.a, func(q *ci.QPAttr) { q.RetryCount = 2 })
	return x
}

// rearm loads the second ports as the alternate path and requests Rearm.
func (s *side) rearm(t *testing.T, port uint8, peer ci.LID) {
	t.Helper()
	require.NoError(t, s.qp.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm,
		Alternate: ci.Path{AV: ci.AVAttr{Port: port, DLID: peer}, AckTimeout: 14}}))
}

func (s *side) apm(t *testing.T) (ci.APMState, uint8) {
	t.Helper()
	a, err := s.qp.Query()
	require.NoError(t, err)
	return a.APM, a.Port
}

// talk sends a message in each direction.
func (x *apmRig) talk(t *testing.T) {
	t.Helper()
	for _, d := range [][2]*side{{x.a, x.b}, {x.b, x.a}} {
		d[1].recv(ci.RecvWR{})
		d[0].send(ci.SendWR{Flags: ci.SendSignaled})
		var sent, got []ci.WC
		x.s.run(t, time.Minute, func() bool {
			sent, got = append(sent, d[0].poll()...), append(got, d[1].poll()...)
			return len(sent) > 0 && len(got) > 0
		})
		require.Equal(t, ci.WCSuccess, sent[0].Status)
	}
	x.s.settle(t)
}

func (x *apmRig) arm(t *testing.T) {
	t.Helper()
	x.a.rearm(t, 2, 4)
	st, _ := x.a.apm(t)
	require.Equal(t, ci.APMRearm, st)
	x.talk(t)
	st, _ = x.a.apm(t)
	require.Equal(t, ci.APMRearm, st, "the peer has not rearmed")
	x.b.rearm(t, 2, 2)
	x.talk(t)
	for _, s := range []*side{x.a, x.b} {
		st, port := s.apm(t)
		require.Equal(t, ci.APMArmed, st)
		require.EqualValues(t, 1, port)
	}
}

func (x *apmRig) migrated(t *testing.T) {
	t.Helper()
	for _, s := range []*side{x.a, x.b} {
		st, port := s.apm(t)
		require.Equal(t, ci.APMMigrated, st)
		require.EqualValues(t, 2, port)
		s.wantEvent(ci.EventQPAPM)
		require.EqualValues(t, 1, s.hca.Counters()["migrations"])
	}
	clear(x.used)
	x.talk(t)
	require.Zero(t, x.used[1]+x.used[3], "nothing takes the old path")
	require.NotZero(t, x.used[2])
	require.NotZero(t, x.used[4])
}

func TestAPM(t *testing.T) {
	for _, hints := range []Hints{{}, {Window: 4096}} {
		t.Run(fmt.Sprint("forced ", hints), func(t *testing.T) {
			x := newAPMRig(t, ci.RC, hints)
			x.arm(t)
			require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
			x.talk(t) // the peer follows the first packet
			x.migrated(t)
		})
		t.Run(fmt.Sprint("automatic ", hints), func(t *testing.T) {
			x := newAPMRig(t, ci.RC, hints)
			x.arm(t)
			x.cut[1], x.cut[3] = true, true
			x.talk(t)
			x.cut[1], x.cut[3] = false, false
			x.migrated(t)
		})
		t.Run(fmt.Sprint("and back ", hints), func(t *testing.T) {
			x := newAPMRig(t, ci.RC, hints)
			x.arm(t)
			require.NoError(t, x.b.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
			x.talk(t)
			x.migrated(t)
			x.a.rearm(t, 1, 3)
			x.b.rearm(t, 1, 1)
			x.talk(t)
			require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
			x.talk(t)
			for _, s := range []*side{x.a, x.b} {
				st, port := s.apm(t)
				require.Equal(t, ci.APMMigrated, st)
				require.EqualValues(t, 1, port)
				s.wantEvent(ci.EventQPAPM)
			}
		})
	}
}

// TestAPMInMidMessage cuts the primary path during a long message and a READ.
func TestAPMInMidMessage(t *testing.T) {
	for at := 1; at < 40; at += 3 {
		x := newAPMRig(t, ci.RC, Hints{MaxTrain: 4096, Window: 8192})
		x.arm(t)
		for i := range x.a.buf[:20000] {
			x.a.buf[i], x.b.buf[i] = byte(i*3), byte(i*5)
		}
		n := 0
		x.s.log = func(ci.LID, *Packet) {
			if n++; n == at {
				x.cut[1], x.cut[3] = true, true
			}
		}
		x.b.recv(ci.RecvWR{SGL: x.b.sge(1<<19, 20000)})
		x.a.send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, SGL: x.a.sge(0, 20000)},
			ci.SendWR{ID: 2, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: x.a.sge(1<<19, 20000),
				Remote: x.b.mr.Region().Remote(0)})
		var wcs []ci.WC
		x.s.run(t, time.Minute, func() bool { wcs = append(wcs, x.a.poll()...); return len(wcs) == 2 })
		require.Equal(t, []ci.WCStatus{ci.WCSuccess, ci.WCSuccess}, []ci.WCStatus{wcs[0].Status, wcs[1].Status})
		require.Equal(t, x.a.buf[:20000], x.b.buf[1<<19:1<<19+20000])
		require.Equal(t, x.b.buf[:20000], x.a.buf[1<<19:1<<19+20000])
	}
}

// TestAPMWithoutAlternate checks that a QP that is not armed fails after its retries.
func TestAPMWithoutAlternate(t *testing.T) {
	x := newAPMRig(t, ci.RC, Hints{})
	x.a.rearm(t, 2, 4) // a is loaded with an alternate path, the peer is not
	x.cut[1] = true
	x.a.send(ci.SendWR{})
	var wcs []ci.WC
	x.s.run(t, time.Minute, func() bool { wcs = append(wcs, x.a.poll()...); return len(wcs) > 0 })
	require.Equal(t, ci.WCTimeoutRetryErr, wcs[0].Status)
}

// refuse runs until a, which has migrated without success, has given up. b raises one event however often a has tried,
// and keeps its state.
func (x *apmRig) refuse(t *testing.T, want ci.APMState) {
	t.Helper()
	require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
	x.a.wantEvent(ci.EventQPAPM)
	x.b.recv(ci.RecvWR{})
	before := x.used[2]
	x.a.send(ci.SendWR{Flags: ci.SendSignaled})
	var wcs []ci.WC
	x.s.run(t, time.Minute, func() bool { wcs = append(wcs, x.a.poll()...); return len(wcs) > 0 })
	require.Equal(t, ci.WCTimeoutRetryErr, wcs[0].Status)
	require.Equal(t, 3, x.used[2]-before, "the first try and two more, on the new path")
	x.b.onlyEvents(ci.EventQPAPMError)
	st, port := x.b.apm(t)
	require.Equal(t, want, st)
	require.EqualValues(t, 1, port)
	require.Equal(t, ci.QPRTS, x.b.state())
	require.Zero(t, x.b.hca.Counters()["migrations"])
	require.Empty(t, x.b.poll())
}

// onlyEvents checks that the QP has raised one event of type want since the last call or, if want is 0, none. An event
// raised now would arrive after the earlier ones.
func (s *side) onlyEvents(want ci.EventType) {
	s.t.Helper()
	s.qp.(*QP).notify.Event(ci.Event{Type: ci.EventSQDrained})
	for _, e := range []ci.EventType{want, ci.EventSQDrained} {
		if e == 0 {
			continue
		}
		select {
		case got := <-s.events:
			require.Equal(s.t, e, got.Type)
		case <-time.After(testenv.Patience):
			require.Fail(s.t, "no event", "%v", e)
		}
	}
}

// TestAPMRefused checks a migration by the peer that this end cannot follow.
func TestAPMRefused(t *testing.T) {
	t.Run("another alternate path", func(t *testing.T) {
		x := newAPMRig(t, ci.RC, Hints{})
		x.arm(t)
		require.NoError(t, x.b.qp.Modify(ci.QPFieldAlternate,
			ci.QPAttr{Alternate: ci.Path{AV: ci.AVAttr{Port: 2, DLID: 1}, AckTimeout: 14}}))
		x.refuse(t, ci.APMArmed)
	})
	t.Run("not armed yet", func(t *testing.T) {
		x := newAPMRig(t, ci.RC, Hints{})
		x.b.rearm(t, 2, 2)
		x.b.recv(ci.RecvWR{})
		x.a.send(ci.SendWR{Flags: ci.SendSignaled}) // in flight with MigReq set
		x.a.rearm(t, 2, 4)
		x.s.run(t, time.Minute, func() bool { return len(x.a.poll()) > 0 }) // the acknowledgement arms a
		x.b.poll()
		st, _ := x.a.apm(t)
		require.Equal(t, ci.APMArmed, st)
		x.refuse(t, ci.APMRearm)
	})
}

// TestMigReq checks the reaction to one packet by state, path and MigReq bit.
func TestMigReq(t *testing.T) {
	const primary, other, stranger = 1, 2, 77
	for _, c := range []struct {
		name   string
		state  ci.APMState
		loaded bool
		p      Packet
		taken  bool
		to     ci.APMState // 0: unchanged
		event  ci.EventType
	}{
		{"no request", ci.APMArmed, true, Packet{Src: Addr{LID: primary}}, true, 0, 0},
		{"arms", ci.APMRearm, true, Packet{Src: Addr{LID: primary}}, true, ci.APMArmed, 0},
		{"the peer has not rearmed", ci.APMRearm, true, Packet{Src: Addr{LID: primary}, MigReq: true}, true, 0, 0},
		{"another partition does not arm", ci.APMRearm, true, Packet{Src: Addr{LID: primary}, PKey: 0x8003}, true, 0,
			0},
		{"a stranger does not arm", ci.APMRearm, true, Packet{Src: Addr{LID: stranger}}, false, 0, 0},
		{"accepted", ci.APMArmed, true, Packet{Src: Addr{LID: other}, MigReq: true}, true,
			ci.APMMigrated, ci.EventQPAPM},
		{"another partition does not migrate", ci.APMArmed, true, Packet{Src: Addr{LID: other}, MigReq: true,
			PKey: 0x8003}, false, 0, 0},
		{"the alternate path without request", ci.APMArmed, true, Packet{Src: Addr{LID: other}}, false, 0, 0},
		{"another path", ci.APMArmed, true, Packet{Src: Addr{LID: stranger}, MigReq: true}, false, 0,
			ci.EventQPAPMError},
		{"another path, another partition", ci.APMArmed, true, Packet{Src: Addr{LID: stranger}, MigReq: true,
			PKey: 0x8003}, false, 0, 0},
		{"the primary path", ci.APMArmed, true, Packet{Src: Addr{LID: primary}, MigReq: true, PSN: 20}, false, 0,
			ci.EventQPAPMError},
		{"the primary path, a response", ci.APMArmed, true, Packet{Src: Addr{LID: primary}, MigReq: true, PSN: 5,
			Op: wire.OpAcknowledge}, false, 0, ci.EventQPAPMError},
		{"of before the peer rearmed", ci.APMArmed, true, Packet{Src: Addr{LID: primary}, MigReq: true, PSN: 9}, true,
			0, 0},
		{"too early", ci.APMRearm, true, Packet{Src: Addr{LID: other}, MigReq: true}, false, 0, ci.EventQPAPMError},
		{"loaded, not rearmed", ci.APMMigrated, true, Packet{Src: Addr{LID: other}, MigReq: true}, false, 0,
			ci.EventQPAPMError},
		{"loaded, not rearmed, a stranger", ci.APMMigrated, true, Packet{Src: Addr{LID: stranger}, MigReq: true}, false,
			0, 0},
		{"takes no part", ci.APMMigrated, false, Packet{Src: Addr{LID: other}, MigReq: true}, false, 0, 0},
		{"takes no part, from its peer", ci.APMMigrated, false, Packet{Src: Addr{LID: primary}, MigReq: true}, true, 0,
			0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newAPMRig(t, ci.RC, Hints{})
			q := x.b.qp.(*QP)
			if c.loaded {
				require.NoError(t,
					q.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: ci.Path{AV: ci.AVAttr{Port: 2, DLID: other}}}))
			}
			q.mu.Lock()
			q.attr.APM = c.state
			if c.state == ci.APMArmed {
				q.apm = migration{psn: 10}
			}
			if c.p.PKey == 0 {
				c.p.PKey = q.pkey
			}
			for range 2 { // one event only
				p := c.p
				require.Equal(t, c.taken || c.to == ci.APMMigrated, q.checkMigReq(&p))
			}
			q.mu.Unlock()
			want := c.to
			if want == 0 {
				want = c.state
			}
			st, _ := x.b.apm(t)
			require.Equal(t, want, st)
			x.b.onlyEvents(c.event)
		})
	}
}

// TestAPMOfUC checks that an unreliable connection migrates on request and has no timers on the new path either.
func TestAPMOfUC(t *testing.T) {
	x := newAPMRig(t, ci.UC, Hints{})
	x.arm(t)
	require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
	x.talk(t)
	x.migrated(t)
	require.Zero(t, x.s.clock.Pending())
	require.Equal(t, ci.QPRTS, x.a.state())
}

func TestAPMErrors(t *testing.T) {
	x := newAPMRig(t, ci.RC, Hints{})
	alt := func(p ci.Path) error { return x.a.qp.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: p}) }
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 3, DLID: 4}}), ci.InvalidPort)
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 2, DLID: 4}, PKeyIndex: 9}), ci.InvalidPKey)
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 2}}), ci.InvalidParameter)
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 2, DLID: 4}, AckTimeout: 32}), ci.InvalidParameter)
	apm := func(s ci.APMState) error { return x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: s}) }
	for _, s := range []ci.APMState{0, ci.APMMigrated, ci.APMRearm, ci.APMArmed} {
		require.ErrorIs(t, apm(s), ci.InvalidAPMState)
	}
	x.arm(t)
	require.ErrorIs(t, apm(ci.APMRearm), ci.InvalidAPMState)
	x.a.toState(ci.QPReset)
	st, _ := x.a.apm(t)
	require.Equal(t, ci.APMMigrated, st)
}
