package model_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// TestUnmapUnderTraffic takes each kind of memory away from an adapter that is moving data. The adapter does not write
// to it any more, executes what follows, and works again after a reset. Its peer is not disturbed.
func TestUnmapUnderTraffic(t *testing.T) {
	for name, memory := range map[string]func(a, b *peer) *bus.DMA{
		"source":     func(a, _ *peer) *bus.DMA { return a.mr.DMA },
		"target":     func(_, b *peer) *bus.DMA { return b.mr.DMA },
		"send queue": func(a, _ *peer) *bus.DMA { return a.qp.mem },
		"doorbells":  func(_, b *peer) *bus.DMA { return b.qp.rec },
		"CQ":         func(a, _ *peer) *bus.DMA { return a.cq.mem },
		"CQ record":  func(a, _ *peer) *bus.DMA { return a.cq.rec },
		"EQ":         func(a, _ *peer) *bus.DMA { return a.eqs[compEQ].mem },
		"ICM":        func(a, _ *peer) *bus.DMA { return a.icmMem },
		"mailbox":    func(a, _ *peer) *bus.DMA { return a.in },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newPair(t, prm.ServiceRC)
			const n = 60000
			var ringing sync.WaitGroup
			for range 2 * (1<<sendLog - 2) {
				b.qp.postRecv()
			}
			for range 1<<sendLog - 2 {
				a.qp.prepare(prm.WQEWrite, 0, 0, [][]byte{remoteSegment(b.mr.key, b.mr.start),
					dataSegment(n, a.mr.key, a.mr.start)})
			}
			a.cq.arm(prm.ArmAny)
			started := make(chan struct{})
			ringing.Go(func() {
				a.qp.ring()
				close(started)
				for range 100 {
					a.qp.ring()
					a.cq.arm(prm.ArmAny)
				}
			})
			m := memory(a, b)
			require.NoError(t, m.Close())
			after := slices.Clone(m.Bytes)
			<-started
			ringing.Wait()
			for range 10 {
				a.qp.ring()
				b.qp.ring()
			}
			assert.Equal(t, after, m.Bytes, "the adapter has written to memory that is not its any more")
			for _, p := range []*peer{a, b} {
				if m == p.in {
					p.in = p.alloc(prm.MailboxSize)
				}
				requireAlive(t, p.driver)
			}
		})
	}
}

// TestUnmappedMemory checks the completion of a WQE whose memory is not mapped, on either side.
func TestUnmappedMemory(t *testing.T) {
	for _, isTarget := range []bool{false, true} {
		a, b := newPair(t, prm.ServiceRC)
		owner, want := a, prm.SynLocalProtection
		if isTarget {
			owner, want = b, prm.SynRemoteAccess
		}
		require.NoError(t, owner.mr.Close())
		a.qp.post(prm.WQEWrite, 0, remoteSegment(b.mr.key, b.mr.start), dataSegment(100, a.mr.key, a.mr.start))
		e := a.cq.wait()
		require.EqualValues(t, prm.CQEOpcodeError, prm.CQEOpcode.Get(e))
		assert.EqualValues(t, want, prm.CQESyndrome.Get(e))
	}
}
