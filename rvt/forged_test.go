package rvt

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A pacedStream is a connection over a link that carries one packet of its requester every 10 µs, while an attacker
// sends packets in the names of its ends.
type pacedStream struct {
	t    *testing.T
	sim  *sim
	a, b *side
	rng  *rand.Rand
}

const (
	packetTime  = 10 * time.Microsecond
	streamSize  = 64 << 10 // bytes of a WRITE
	streamCount = 800
	streamDepth = 16
)

func newPacedStream(t *testing.T, lost float64) *pacedStream {
	s := &pacedStream{t: t, rng: rand.New(rand.NewPCG(1, 7))}
	s.sim = &sim{clock: newClock(), shallow: true}
	loss := rand.New(rand.NewPCG(2, 7))
	s.sim.fate = func(int, *Packet) fate {
		if loss.Float64() < lost {
			return fate{}
		}
		return onTime
	}
	l := &wireLink{mtu: ci.MTU1024, sim: s.sim, hints: Hints{Window: 256 << 10, MaxTrain: 16 << 10}}
	s.a, s.b = simPair(t, l, ci.RC, nil)
	return s
}

// inject delivers a packet to a side immediately.
func (s *pacedStream) inject(to *side, p Packet) {
	from := s.a
	if to == s.a {
		from = s.b
	}
	q := to.qp.(*QP)
	p.Service, p.PKey, p.DestQP = wire.RC, 0xffff, q.num
	p.N, p.Src, p.MTU = 1, Addr{LID: from.lid}, 1024
	p.Start, p.End, p.MigReq = true, true, true
	s.sim.mu.Lock()
	var port *linkPort
	for _, x := range s.a.hca.ports[0].Port.(*linkPort).link.ports {
		if x.lid == to.lid {
			port = x
		}
	}
	s.sim.mu.Unlock()
	port.rx.Deliver([]Packet{p}, true, false)
}

// run sends streamCount WRITEs, and calls forge before each 10th packet, 10,000 times a second. It returns the virtual
// time and the number of packets that the link carried.
func (s *pacedStream) run(forge func()) (took time.Duration, packets int) {
	start := s.sim.clock.Elapsed()
	posted, done := 0, 0
	wcs := make([]ci.WC, 16)
	region := s.b.mr.Region()
	local := s.a.mr.Region()
	for done < streamCount {
		for ; posted < streamCount && posted-done < streamDepth; posted++ {
			n, err := s.a.qp.PostSend([]ci.SendWR{{ID: uint64(posted), Op: ci.OpWrite, Flags: ci.SendSignaled,
				SGL:    []ci.SGE{local.SGE(0, streamSize)},
				Remote: region.Remote(0)}})
			require.NoError(s.t, err)
			require.Equal(s.t, 1, n)
		}
		s.sim.mu.Lock()
		var next *inFlight
		if len(s.sim.queue) > 0 {
			x := s.sim.queue[0]
			s.sim.queue, next = s.sim.queue[1:], &x
		}
		s.sim.mu.Unlock()
		if next != nil {
			next.to.rx.Deliver([]Packet{next.p}, true, false)
			if next.to.lid == s.a.lid { // the other direction of the link is not full
				continue
			}
			packets++
		}
		s.sim.clock.Advance(packetTime)
		if forge != nil && (packets%10 == 0 || next == nil) {
			forge()
		}
		n, err := s.a.cq.Poll(wcs)
		require.NoError(s.t, err)
		for i := range n {
			require.Equal(s.t, ci.WCSuccess, wcs[i].Status)
		}
		done += n
		require.Less(s.t, s.sim.clock.Elapsed()-start, time.Minute, "%d of %d WRITEs are complete", done, streamCount)
	}
	return s.sim.clock.Elapsed() - start, packets
}

// TestForgedPackets measures a stream while an attacker who has the QP numbers and PSNs right sends 10,000 packets a
// second. The stream keeps most of its throughput and does not fail. Without nakLimit, 58 % would remain with packets
// ahead of the expected PSN, and 49 % with NAKs.
func TestForgedPackets(t *testing.T) {
	calm, packets := newPacedStream(t, 0).run(nil)
	t.Logf("undisturbed: %v, %d packets", calm, packets)
	least := map[string]float64{"ahead of the expected PSN": 0.9, "duplicates": 0.95, "NAKs": 0.7,
		"acknowledgements of what was not sent": 0.95}
	for name, forge := range map[string]func(s *pacedStream) func(){
		"ahead of the expected PSN": func(s *pacedStream) func() {
			return func() {
				ahead := uint32(1 + s.rng.IntN(1000))
				s.inject(s.b, Packet{Op: wire.OpSend, PSN: psnAdd(s.b.qp.(*QP).resp.psn, ahead)})
			}
		},
		"duplicates": func(s *pacedStream) func() {
			return func() {
				behind := uint32(1 + s.rng.IntN(1000))
				s.inject(s.b, Packet{Op: wire.OpSend, PSN: psnAdd(s.b.qp.(*QP).resp.psn, psnMask+1-behind)})
			}
		},
		"NAKs": func(s *pacedStream) func() {
			return func() {
				s.inject(s.a, Packet{Op: wire.OpAcknowledge, Syndrome: wire.NAKPSNSequence, PSN: s.a.qp.(*QP).req.una})
			}
		},
		"acknowledgements of what was not sent": func(s *pacedStream) func() {
			return func() {
				ahead := uint32(1 + s.rng.IntN(1000))
				s.inject(s.a, Packet{Op: wire.OpAcknowledge, Syndrome: wire.ACK(wire.CreditsInvalid),
					PSN: psnAdd(s.a.qp.(*QP).req.max, ahead)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPacedStream(t, 0)
			took, packets := s.run(forge(s))
			t.Logf("%v, %d packets: %.0f %% of the throughput", took, packets, 100*calm.Seconds()/took.Seconds())
			assert.GreaterOrEqual(t, calm.Seconds()/took.Seconds(), least[name])
		})
	}
}

// TestLossRecovery checks that the limits of sequence errors do not slow down the recovery from real losses: of one
// packet in a thousand, which exceeds the sustained limit, and of three.
func TestLossRecovery(t *testing.T) {
	calm, _ := newPacedStream(t, 0).run(nil)
	for _, tt := range []struct {
		lost float64
		most float64 // relative to the time without loss
	}{{0.001, 1.5}, {0.003, 2.5}} {
		s := newPacedStream(t, tt.lost)
		took, packets := s.run(nil)
		c := s.a.hca.Counters()
		t.Logf("%.1f %% lost: %v, %d packets, %.0f %% of the throughput; %d sequence errors, %d of them delayed, %d "+
			"timeouts", 100*tt.lost, took, packets,
			100*calm.Seconds()/took.Seconds(), c["sequence_nak_received"], c["sequence_errors_delayed"], c["retries"])
		assert.LessOrEqual(t, took.Seconds(), calm.Seconds()*tt.most)
	}
}

// TestCommunicationEstablished checks that a forged packet whose PSN is not the expected one does not make a QP report
// that its connection is established, and that the peer's first packet does.
func TestCommunicationEstablished(t *testing.T) {
	s := newPacedStream(t, 0)
	require.NoError(t, s.b.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	attr := s.b.attr(s.a)
	s.b.step(ci.QPInit, attr)
	s.inject(s.b, Packet{Op: wire.OpSend, PSN: attr.RQPSN})
	s.b.step(ci.QPRTR, attr)
	for _, d := range []uint32{1, 1000, psnMask} {
		s.inject(s.b, Packet{Op: wire.OpWrite, PSN: psnAdd(attr.RQPSN, d)})
	}
	assert.False(t, s.b.qp.(*QP).resp.established)
	assert.Empty(t, s.b.events)
	s.inject(s.b, Packet{Op: wire.OpWrite, PSN: attr.RQPSN})
	assert.True(t, s.b.qp.(*QP).resp.established)
	assert.Equal(t, ci.EventQPComm, (<-s.b.events).Type)
}

// TestFalseRNR checks that an acknowledgement of the packet that an RNR NAK has named ends the wait.
func TestFalseRNR(t *testing.T) {
	s := newPacedStream(t, 0)
	region, local := s.b.mr.Region(), s.a.mr.Region()
	_, err := s.a.qp.PostSend([]ci.SendWR{{Op: ci.OpWrite, Flags: ci.SendSignaled,
		SGL: []ci.SGE{local.SGE(0, streamSize)}, Remote: region.Remote(0)}})
	require.NoError(t, err)
	q := s.a.qp.(*QP)
	s.inject(s.a, Packet{Op: wire.OpAcknowledge, Syndrome: wire.RNRNAK(0), PSN: q.req.una})
	require.NotZero(t, q.req.rnrAt, "655 ms")
	start := s.sim.clock.Elapsed()
	s.sim.pump()
	wcs := make([]ci.WC, 1)
	n, err := s.a.cq.Poll(wcs)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	assert.Equal(t, ci.WCSuccess, wcs[0].Status)
	assert.Zero(t, q.req.rnrAt)
	assert.Equal(t, start, s.sim.clock.Elapsed())
}
