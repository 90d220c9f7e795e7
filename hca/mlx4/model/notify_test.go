package model_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/internal/mlx4/prm"
)

// A burst are messages that a sender posts together.
type burst struct {
	count     int
	solicited bool
	pause     int // calls of runtime.Gosched before it
}

// TestNoEventLost receives messages as event-driven programs do: they arm the queue, some take what is there, and wait
// for an event if that is not everything. A lost event would make them wait without end.
func TestNoEventLost(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	rapid.Check(t, func(rt *rapid.T) {
		bursts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) burst {
			return burst{rapid.IntRange(1, maxBurst).Draw(rt, "count"), rapid.Bool().Draw(rt, "solicited"),
				rapid.IntRange(0, 50).Draw(rt, "pause")}
		}), 1, recvSlots/maxBurst).Draw(rt, "bursts")
		command := rapid.SampledFrom([]uint64{prm.ArmAny, prm.ArmSolicited}).Draw(rt, "command")
		bursts[len(bursts)-1].solicited = true // or nothing would announce the last ones
		moderation := rapid.SampledFrom([][2]uint64{{0, 0}, {3, 0}, {0, 50}, {2, 20}}).Draw(rt, "moderation")
		limit := rapid.IntRange(1, 8).Draw(rt, "limit") // completions that are taken at once
		polls := rapid.Bool().Draw(rt, "polls")         // after it has armed the queue

		b.with(prm.CmdModifyCQ, b.cq.num, prm.ModifyCQModeration, func(x []byte) {
			prm.CQCMaxCount.Put(x, moderation[0])
			prm.CQCPeriod.Put(x, moderation[1])
		})
		total := 0
		for _, x := range bursts {
			total += x.count
		}
		for range total { // a program that waits for a solicited one posts no more until then
			b.qp.postRecv(dataSegment(64, b.mr.key, b.mr.start))
		}
		var sender sync.WaitGroup
		sender.Go(func() { a.sendBursts(bursts) })
		received := 0
		take := func(most int) (n int) {
			for ; n < most; n++ {
				e := b.cq.poll()
				if e == nil {
					break
				}
				requireCQE(t, e, b.qp.num, false, prm.CQERecvSend)
			}
			received += n
			return n
		}
		for received < total {
			b.cq.arm(command)
			if polls && (take(limit) == limit || received == total) {
				continue
			}
			b.waitEvent(compEQ, prm.EventCompletion)
			take(limit)
		}
		sender.Wait()
	})
}

const (
	recvSlots = 1 << recvLog // receives that fit in the queue
	maxBurst  = 4
)

// sendBursts sends messages, the last one of a burst solicited or not, and takes their completions.
func (p *peer) sendBursts(list []burst) {
	const solicited = 1 << 1 // in the flags of a control segment
	for _, x := range list {
		for range x.pause {
			runtime.Gosched()
		}
		for i := range x.count {
			flags := uint8(0)
			if x.solicited && i == x.count-1 {
				flags = solicited
			}
			p.qp.prepare(prm.WQESend, 0, flags, [][]byte{inlineSegment("x")})
		}
		p.qp.ring()
		for range x.count {
			for p.cq.poll() == nil { // the test has a deadline
				runtime.Gosched()
			}
		}
	}
}

// TestArmBeforeEntry checks the events of entries that come before, with and after an arming, for each kind.
func TestArmBeforeEntry(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	for _, isSolicited := range []bool{false, true} {
		for range recvSlots / 4 {
			b.qp.postRecv(dataSegment(64, b.mr.key, b.mr.start))
		}
		b.cq.arm(prm.ArmSolicited)
		a.sendBursts([]burst{{1, isSolicited, 0}, {1, false, 0}})
		requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
		requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
		require.Equal(t, isSolicited, b.nextEvent(b.eqs[compEQ]) != nil)
		b.cq.arm(prm.ArmAny)
		require.Nil(t, b.nextEvent(b.eqs[compEQ]), "all entries are taken")
		a.sendBursts([]burst{{1, false, 0}})
		b.waitEvent(compEQ, prm.EventCompletion)
		requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
	}
}
