package rvt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/wire"
)

// suspicions collects the reports of a side's HCA.
func suspicions(s *side) chan Suspicion {
	c := make(chan Suspicion, 2*suspectQueue)
	s.hca.suspects.report = func(r Suspicion) { c <- r }
	return c
}

func wantSuspicion(t *testing.T, c chan Suspicion) Suspicion {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(testenv.Patience):
		require.FailNow(t, "no report")
		return Suspicion{}
	}
}

// from returns a SEND with PSN k of the rig from a UDP source port.
func from(port uint16, k int) Packet {
	p := sendPkt(k, "data")
	p.Entropy = port
	return p
}

func counted(t *testing.T, s *side) QPCounters {
	t.Helper()
	c, ok := s.hca.QPCounters(s.qp.Num())
	require.True(t, ok)
	return c
}

// Packets of a peer, or of an impostor with its address, from a changed source port are accepted, counted and reported.
func TestEntropyChanges(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		t.Run(typ.String(), func(t *testing.T) {
			a, r, c := rawPair(t, &wireLink{}, typ, nil)
			reports := suspicions(a)
			for range 6 {
				a.recv(ci.RecvWR{SGL: a.sge(0, 64)})
			}
			r.say(from(50000, 0), from(50000, 1))
			require.Equal(t, QPCounters{Accepted: 2}, counted(t, a))
			r.say(from(666, 2))
			first := wantSuspicion(t, reports)
			want := Suspicion{Kind: SuspectEntropy, QPN: a.qp.Num(), Peer: Addr{LID: r.lid},
				Source: Addr{LID: r.lid}, Entropy: 666,
				PSN: psnAt(2), Packets: 1, Counters: QPCounters{Accepted: 2, EntropyChanges: 1}}
			require.Equal(t, want, first)
			r.say(from(50000, 3), from(50000, 4))
			require.Equal(t, QPCounters{Accepted: 5, EntropyChanges: 2}, counted(t, a))
			require.Empty(t, reports, "one in ten seconds")
			c.Advance(suspectEvery)
			r.say(from(666, 5))
			require.EqualValues(t, 2, wantSuspicion(t, reports).Packets, "those of the time between are in it")
			require.EqualValues(t, 3, a.hca.Counters()["source_port_changes"])
			require.Zero(t, a.hca.Counters()["drop_source_port"])
			require.Len(t, a.poll(), 6)
		})
	}
}

// With StrictSource the first packet in sequence determines the source port. Packets from other ports are dropped.
func TestStrictSource(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{hints: Hints{StrictSource: true}}, ci.RC, nil)
	reports := suspicions(a)
	for range 8 {
		a.recv(ci.RecvWR{SGL: a.sge(0, 64)})
	}
	r.say(from(666, 100)) // a wrong PSN determines nothing
	r.say(from(50000, 0))
	require.Equal(t, SuspectEntropy, wantSuspicion(t, reports).Kind)
	require.Equal(t, QPCounters{Accepted: 1, EntropyChanges: 1}, counted(t, a))
	r.take()

	r.say(from(666, 1))
	require.Empty(t, r.take(), "no answer for an intruder")
	bad := nak(0, wire.NAKInvalidRequest)
	bad.Entropy = 666
	a.send(ci.SendWR{SGL: a.sge(0, 8), Flags: ci.SendSignaled})
	r.take()
	r.say(bad)
	require.Equal(t, ci.QPRTS, a.state(), "nor can it end the connection")
	require.Equal(t, QPCounters{Accepted: 1, EntropyChanges: 1, WrongEntropy: 2}, counted(t, a))
	require.EqualValues(t, 2, a.hca.Counters()["drop_source_port"])

	good := ack(0)
	good.Entropy = 50000
	r.say(good, from(50000, 1))
	require.EqualValues(t, 3, counted(t, a).Accepted)
	require.Len(t, a.poll(), 3)

	// A new connection of the QP determines the port again.
	a.toState(ci.QPReset)
	a.toRTS(a.attrTo(rawQPN, r.lid))
	a.recv(ci.RecvWR{SGL: a.sge(0, 64)})
	r.say(from(666, 0))
	require.EqualValues(t, 4, counted(t, a).Accepted)
}

// Responses determine the source port, too, if they acknowledge something.
func TestStrictSourceOfResponses(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{hints: Hints{StrictSource: true}}, ci.RC, nil)
	say := func(port uint16, p Packet) { p.Entropy = port; r.say(p) }
	a.send(ci.SendWR{SGL: a.sge(0, 8), Flags: ci.SendSignaled}, ci.SendWR{SGL: a.sge(0, 8), Flags: ci.SendSignaled})
	say(666, ack(50))
	say(50000, ack(0))
	say(666, nak(1, wire.NAKRemoteAccess))
	require.Equal(t, ci.QPRTS, a.state())
	say(50000, ack(1))
	require.Len(t, a.poll(), 2)
	require.Equal(t, QPCounters{Accepted: 2, EntropyChanges: 1, WrongEntropy: 1}, counted(t, a))
}

// The port's configuration determines the source port from the beginning.
func TestStrictSourceConfigured(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{hints: Hints{StrictSource: true, PeerEntropy: 4791}}, ci.UC, nil)
	a.recv(ci.RecvWR{SGL: a.sge(0, 64)}, ci.RecvWR{SGL: a.sge(0, 64)})
	r.say(from(666, 0))
	r.say(from(4791, 0))
	require.Equal(t, QPCounters{Accepted: 1, WrongEntropy: 1}, counted(t, a))
}

// A migrated path has another source port, which is determined in turn.
func TestStrictSourceMigrates(t *testing.T) {
	x := newAPMRig(t, ci.RC, Hints{StrictSource: true})
	offset := uint16(0)
	inner := x.s.fate
	x.s.fate = func(n int, p *Packet) fate {
		p.Entropy = uint16(p.Src.LID)<<8 + offset
		return inner(n, p)
	}
	x.arm(t)
	require.NoError(t, x.a.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
	x.talk(t)
	x.migrated(t)
	for _, s := range []*side{x.a, x.b} {
		require.Zero(t, counted(t, s).WrongEntropy)
	}
	offset = 1
	x.a.send(ci.SendWR{Flags: ci.SendSignaled})
	x.s.run(t, time.Second, func() bool { return counted(t, x.b).WrongEntropy > 0 })
	require.Empty(t, x.a.poll())
}

// Packets from another address are dropped as always, and reported.
func TestWrongAddress(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
	reports := suspicions(a)
	p := from(666, 0)
	r.say() // determines nothing
	p.Service, p.DestQP, p.PKey = wire.RC, a.qp.Num(), 0xffff
	p.MigReq, p.N, p.MTU = true, 1, 1024
	p.Len = 4
	p.Src = Addr{LID: 99}
	receiverOf(a.hca, 0).Deliver([]Packet{p}, true, false)
	got := wantSuspicion(t, reports)
	require.Equal(t, SuspectAddress, got.Kind)
	require.Equal(t, Addr{LID: 99}, got.Source)
	require.Equal(t, QPCounters{WrongAddress: 1}, counted(t, a))
	_, ok := a.hca.QPCounters(a.qp.Num() ^ 1)
	require.False(t, ok)
}

// A sweep over the PSNs is reported long before it is complete. The effects of ordinary loss are not reported.
func TestSweep(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	reports := suspicions(a)
	for k := range 512 {
		r.say(from(4791, 1+k)) // after a gap
	}
	require.Zero(t, counted(t, a).FarPSN)
	for k := range burstSize - 1 {
		stray := ack(farPSN + 1 + k)
		stray.Entropy = 4791
		r.say(from(4791, farPSN+1+k), stray)
		c.Advance(2 * burstSpan) // stray packets
	}
	require.EqualValues(t, 2*(burstSize-1), counted(t, a).FarPSN)
	require.Empty(t, reports)
	for k := range 1000 {
		r.say(from(4791, 1<<20+16*k))
	}
	got := wantSuspicion(t, reports)
	require.Equal(t, SuspectPSN, got.Kind)
	require.Equal(t, ci.QPRTS, a.state())
	require.Empty(t, reports)
}

// Reports that are not consumed are bounded, and lost ones are counted.
func TestSuspectsBounded(t *testing.T) {
	out := make(chan Suspicion)
	s := suspects{report: func(r Suspicion) { out <- r }}
	const lost = 10
	s.push(Suspicion{QPN: 0})
	first := <-out // the goroutine may have taken it from the queue, and waits for the next one
	require.Zero(t, first.Lost)
	for k := range 1 + suspectQueue + lost {
		s.push(Suspicion{QPN: ci.QPN(k)})
	}
	for s.waiting() > 0 {
		require.Zero(t, (<-out).Lost)
	}
	s.push(Suspicion{QPN: 0x1234})
	r := <-out
	for r.QPN != 0x1234 {
		r = <-out
	}
	require.GreaterOrEqual(t, r.Lost, uint64(lost))
	require.LessOrEqual(t, r.Lost, uint64(lost+1), "one may have been taken from the queue")
	s.close()
	s.push(Suspicion{})
	require.Zero(t, s.waiting())
}

func (s *suspects) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}
