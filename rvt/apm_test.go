package rvt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// apmRig is a pair with two ports each: LIDs 1 and 2 are a's, 3 and 4 b's. Ports whose number is in cut send nothing.
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

// rearm loads the second ports as alternate path, and asks for Rearm.
func (s *side) rearm(t *testing.T, port uint8, peer ci.LID) {
	t.Helper()
	require.NoError(t, s.qp.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm,
		Alternate: ci.Path{AV: ci.AVAttr{Port: port, DLID: peer}, AckTimeout: 14}}, nil))
}

func (s *side) apm(t *testing.T) (ci.APMState, uint8) {
	t.Helper()
	a, err := s.qp.Query()
	require.NoError(t, err)
	return a.APM, a.Port
}

// talk sends a message each way.
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
			require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}, nil))
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
			require.NoError(t, x.b.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}, nil))
			x.talk(t)
			x.migrated(t)
			x.a.rearm(t, 1, 3)
			x.b.rearm(t, 1, 1)
			x.talk(t)
			require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}, nil))
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

// TestAPMInMidMessage cuts the primary path while a long message and a READ are on the way.
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
			ci.SendWR{ID: 2, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: x.a.sge(1<<19, 20000), Remote: x.b.mr.Region().Remote(0)})
		var wcs []ci.WC
		x.s.run(t, time.Minute, func() bool { wcs = append(wcs, x.a.poll()...); return len(wcs) == 2 })
		require.Equal(t, []ci.WCStatus{ci.WCSuccess, ci.WCSuccess}, []ci.WCStatus{wcs[0].Status, wcs[1].Status})
		require.Equal(t, x.a.buf[:20000], x.b.buf[1<<19:1<<19+20000])
		require.Equal(t, x.b.buf[:20000], x.a.buf[1<<19:1<<19+20000])
	}
}

// TestAPMWithoutAlternate: a QP that is not armed fails as ever.
func TestAPMWithoutAlternate(t *testing.T) {
	x := newAPMRig(t, ci.RC, Hints{})
	x.a.rearm(t, 2, 4) // loaded, but the peer is not
	x.cut[1] = true
	x.a.send(ci.SendWR{})
	var wcs []ci.WC
	x.s.run(t, time.Minute, func() bool { wcs = append(wcs, x.a.poll()...); return len(wcs) > 0 })
	require.Equal(t, ci.WCTimeoutRetryErr, wcs[0].Status)
}

// TestAPMOfUC: an unreliable connection migrates when told to, and has no timers on the new path either.
func TestAPMOfUC(t *testing.T) {
	x := newAPMRig(t, ci.UC, Hints{})
	x.arm(t)
	require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}, nil))
	x.talk(t)
	x.migrated(t)
	require.Zero(t, x.s.clock.Pending())
	require.Equal(t, ci.QPRTS, x.a.state())
}

func TestAPMErrors(t *testing.T) {
	x := newAPMRig(t, ci.RC, Hints{})
	alt := func(p ci.Path) error { return x.a.qp.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: p}, nil) }
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 3, DLID: 4}}), ci.InvalidPort)
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 2, DLID: 4}, PKeyIndex: 9}), ci.InvalidPKey)
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 2}}), ci.InvalidParameter)
	require.ErrorIs(t, alt(ci.Path{AV: ci.AVAttr{Port: 2, DLID: 4}, AckTimeout: 32}), ci.InvalidParameter)
	apm := func(s ci.APMState) error { return x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: s}, nil) }
	for _, s := range []ci.APMState{0, ci.APMMigrated, ci.APMRearm, ci.APMArmed} {
		require.ErrorIs(t, apm(s), ci.InvalidAPMState)
	}
	x.arm(t)
	require.ErrorIs(t, apm(ci.APMRearm), ci.InvalidAPMState)
	x.a.toState(ci.QPReset)
	st, _ := x.a.apm(t)
	require.Equal(t, ci.APMMigrated, st)
}
