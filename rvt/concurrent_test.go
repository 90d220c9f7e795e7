package rvt

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// within fails the test if f takes longer than any machine needs, which means a deadlock.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, "deadlock", what)
	}
}

// TestBothWaysAtOnce connects two QPs by a synchronous link and sends from two goroutines, so that tokens are held on
// both sides and packets wait in inboxes. Every message arrives once, in order.
func TestBothWaysAtOnce(t *testing.T) {
	for _, k := range linkKinds {
		t.Run(k.name, func(t *testing.T) {
			a, b := livePair(t, &wireLink{hints: k.hints}, ci.RC)
			for i := range busyDepth {
				for _, s := range []*side{a, b} {
					s.recv(ci.RecvWR{ID: uint64(i), SGL: s.sge(1<<18+i*64, 64)})
				}
			}
			within(t, "both ways", func() {
				var wg sync.WaitGroup
				for _, s := range []*side{a, b} {
					wg.Go(func() { exactly(t, s, 3000) })
				}
				wg.Wait()
			})
			require.Equal(t, ci.QPRTS, a.state())
			require.Equal(t, ci.QPRTS, b.state())
		})
	}
}

const busyDepth = 32

// exactly sends numbered messages and receives the peer's until all have arrived. The peer does the same.
func exactly(t *testing.T, s *side, total int) {
	posted, sent := 0, 0
	recvs, got := busyDepth, 0
	var wcs [16]ci.WC
	for sent < total || got < total {
		for posted < total && posted-sent < busyDepth {
			off := posted % busyDepth * 64
			binary.NativeEndian.PutUint64(s.buf[off:], uint64(posted))
			s.send(ci.SendWR{ID: uint64(posted), Flags: ci.SendSignaled, SGL: s.sge(off, 8+posted%50)})
			posted++
		}
		n, err := s.cq.Poll(wcs[:])
		if !assert.NoError(t, err) {
			return
		}
		for _, wc := range wcs[:n] {
			if !assert.Equal(t, ci.WCSuccess, wc.Status) {
				return
			}
			if wc.Op == ci.WCSend {
				assert.EqualValues(t, sent, wc.ID)
				sent++
				continue
			}
			assert.EqualValues(t, got, wc.ID)
			assert.EqualValues(t, 8+got%50, wc.Length)
			assert.EqualValues(t, got, binary.NativeEndian.Uint64(s.buf[1<<18+got%busyDepth*64:]))
			got++
			if recvs < total {
				s.recv(ci.RecvWR{ID: uint64(recvs), SGL: s.sge(1<<18+recvs%busyDepth*64, 64)})
				recvs++
			}
		}
		runtime.Gosched()
	}
}

// TestEverybodyAtOnce posts, polls, queries, modifies, delivers and destroys on the same QPs from many goroutines. It
// checks that nothing races, hangs or panics, and that each accepted request completes at most once.
func TestEverybodyAtOnce(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			a, b := livePair(t, &wireLink{}, typ)
			av := a.av(b.lid)
			for range rounds {
				var wg sync.WaitGroup
				stop := make(chan struct{})
				loop := func(f func()) {
					wg.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								f()
								runtime.Gosched()
							}
						}
					})
				}
				c := ci.QPCreate{Type: typ, SendCQ: a.cq, RecvCQ: a.cq, QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16,
					SendSGE: 1, RecvSGE: 1}}
				qp, err := a.pd.CreateQP(c)
				require.NoError(t, err)
				was := a.qp
				a.qp = qp
				a.connect(b, nil)
				b.toState(ci.QPReset)
				b.connect(a, nil)
				a.qp = was
				var id, done atomic.Uint64
				for range 2 {
					loop(func() {
						n, _ := qp.PostSend([]ci.SendWR{{ID: 1, Flags: ci.SendSignaled, SGL: a.sge(0, 3000),
							To: ci.Dest{AV: av, QPN: b.qp.Num(), QKey: 0x1234}}})
						id.Add(uint64(n))
						n, _ = qp.PostRecv([]ci.RecvWR{{ID: 2, SGL: a.sge(1<<18, 5000)}})
						id.Add(uint64(n))
					})
				}
				loop(func() {
					_, _ = b.qp.PostSend([]ci.SendWR{{SGL: b.sge(0, 3000), To: ci.Dest{AV: av, QPN: qp.Num(),
						QKey: 0x1234}}})
					_, _ = b.qp.PostRecv([]ci.RecvWR{{SGL: b.sge(1<<18, 5000)}})
					b.poll()
				})
				loop(func() {
					for _, wc := range a.poll() {
						assert.Contains(t, []uint64{1, 2}, wc.ID)
						done.Add(1)
					}
				})
				loop(func() { _, _ = qp.Query() })
				var k atomic.Uint64
				attr := a.attr(b)
				loop(func() { // errors are expected: the QP is often in Error
					for _, st := range []ci.QPState{ci.QPSQD, ci.QPRTS, ci.QPSQD, ci.QPRTS, ci.QPError, ci.QPReset} {
						_ = qp.Modify(ci.QPFieldState, ci.QPAttr{State: st})
					}
					for _, st := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
						attr.State = st
						_ = qp.Modify(stepFields(typ)[st], attr)
					}
					k.Add(1)
				})
				for done.Load() < 50 && k.Load() < 500 {
					runtime.Gosched()
				}
				within(t, "destroy", func() { assert.NoError(t, qp.Destroy()) })
				_, err = qp.PostSend([]ci.SendWR{{}})
				assert.ErrorIs(t, err, ci.InvalidQPHandle)
				close(stop)
				within(t, "loops", wg.Wait)
				for wcs := a.poll(); len(wcs) > 0; wcs = a.poll() {
					done.Add(uint64(len(wcs)))
				}
				require.LessOrEqual(t, done.Load(), id.Load())
				b.toState(ci.QPReset)
				b.poll()
			}
		})
	}
}

// TestChurn creates and destroys objects of all kinds from many goroutines while packets arrive. Nothing is left.
func TestChurn(t *testing.T) {
	a, b := livePair(t, &wireLink{}, ci.RC)
	before := a.hca.Live()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 300 {
				pd, err := a.ca.AllocatePD(ci.PDNormal)
				if !assert.NoError(t, err) {
					return
				}
				cq, err := pd.CreateCQ(ci.CQCreate{Size: 2, OnCompletion: func(any) {}})
				assert.NoError(t, err)
				srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 2, MaxSGE: 1}})
				assert.NoError(t, err)
				qp, err := pd.CreateQP(ci.QPCreate{Type: []ci.QPType{ci.RC, ci.UC, ci.UD, ci.RC}[g], SendCQ: cq,
					RecvCQ: cq, SRQ: srq})
				assert.NoError(t, err)
				for _, o := range []ci.Object{pd, cq, srq} {
					assert.ErrorIs(t, o.Destroy(), ci.ResourceBusy)
				}
				assert.NoError(t, cq.Notify(ci.NotifyNext))
				assert.NoError(t, qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
				_, err = srq.PostRecv([]ci.RecvWR{{}})
				assert.NoError(t, err)
				for _, o := range []ci.Object{qp, srq, cq, pd} {
					assert.NoError(t, o.Destroy())
					assert.Error(t, o.Destroy())
				}
			}
		})
	}
	for range 500 {
		b.recv(ci.RecvWR{})
		// The queue is full while another goroutine processes an acknowledgement, which a busy machine delays.
		_, err := a.qp.PostSend([]ci.SendWR{{}})
		for end := time.Now().Add(10 * time.Second); errors.Is(err, ci.InsufficientResources) &&
			time.Now().Before(end); {
			runtime.Gosched()
			_, err = a.qp.PostSend([]ci.SendWR{{}})
		}
		require.NoError(t, err)
		b.poll()
	}
	within(t, "churn", wg.Wait)
	require.Equal(t, before, a.hca.Live())
	require.Zero(t, a.hca.qps.byNum.n-1)
}

// TestCallbacksEndWithDestroy checks that no callback runs after Destroy has returned, however many were pending.
func TestCallbacksEndWithDestroy(t *testing.T) {
	b, _ := livePair(t, &wireLink{}, ci.UC)
	for range 200 {
		var destroyed atomic.Bool
		cq, err := b.pd.CreateCQ(ci.CQCreate{Size: 100, OnCompletion: func(any) { assert.False(t, destroyed.Load()) }})
		require.NoError(t, err)
		qp, err := b.pd.CreateQP(ci.QPCreate{Type: ci.UC, SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{RecvDepth: 20},
			OnEvent: func(ci.Event) { assert.False(t, destroyed.Load()) }})
		require.NoError(t, err)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = cq.Notify(ci.NotifyNext)
					_, _ = qp.PostRecv([]ci.RecvWR{{}})
					_ = qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
					_ = qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset})
				}
			}
		})
		runtime.Gosched()
		require.NoError(t, qp.Destroy())
		require.NoError(t, cq.Destroy())
		destroyed.Store(true)
		close(stop)
		wg.Wait()
	}
}

// TestOverflowAgainstDestroy overflows a CQ while the QPs that use it are created and destroyed and packets arrive.
func TestOverflowAgainstDestroy(t *testing.T) {
	a, b := livePair(t, &wireLink{}, ci.RC)
	before := b.hca.Live()
	for range 100 {
		events := make(chan ci.Event, 100)
		cq, err := b.pd.CreateCQ(ci.CQCreate{Size: 1, OnEvent: func(e ci.Event) { events <- e }})
		require.NoError(t, err)
		var qps []ci.QP
		for range 4 {
			qp, err := b.pd.CreateQP(ci.QPCreate{Type: ci.UC, SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{RecvDepth: 4}})
			require.NoError(t, err)
			require.NoError(t, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
			qps = append(qps, qp)
		}
		var wg sync.WaitGroup
		for _, qp := range qps {
			wg.Go(func() {
				_, err := qp.PostRecv(make([]ci.RecvWR, 4))
				assert.NoError(t, err)
				// four completions, space for one
				assert.NoError(t, qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
				assert.NoError(t, qp.Destroy())
			})
		}
		within(t, "destroy", wg.Wait)
		require.NoError(t, cq.Destroy())
		require.Contains(t, []int{0, 1, 2}, len(events))
	}
	require.Equal(t, before, b.hca.Live())
	b.recv(ci.RecvWR{})
	a.send(ci.SendWR{Flags: ci.SendSignaled})
	require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
}
