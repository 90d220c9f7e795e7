package accesslayer_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/testenv"
)

var modes = map[string]accesslayer.PollMode{"event": accesslayer.PollEvent, "busy": accesslayer.PollBusy,
	"hybrid": accesslayer.PollHybrid}

// A million completions, in bursts of all sizes with pauses in which the pump sleeps, are each handled once and in
// order, in every mode.
func TestPumpLosesNothing(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			const total = 1_000_000
			next := uint64(0)
			done := make(chan struct{})
			drv, _ := ci.As[*fakeCQ](r.cq)
			pump := must(r.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Batch: 32, Spin: time.Microsecond,
				Handle: func(wc []ci.WC) {
					for i := range wc {
						if wc[i].ID != next {
							panic("completion lost, repeated or out of order")
						}
						next++
					}
					if next == total {
						close(done)
					}
				}}))
			if mode != accesslayer.PollBusy {
				require.Eventually(t, func() bool { drv.qmu.Lock(); defer drv.qmu.Unlock(); return drv.armed },
					20*time.Second, time.Millisecond, "the pump sleeps")
			}
			burst := make([]ci.WC, 0, 128)
			for id, n := uint64(0), 1; id < total; n = n%97 + 1 {
				burst = burst[:0]
				for i := 0; i < n && id < total; i++ {
					burst = append(burst, ci.WC{ID: id})
					id++
				}
				drv.complete(burst...)
				if n == 1 {
					runtime.Gosched() // the consumer finds the queue empty, and arms it
				}
			}
			wait(t, done, "the last completion")
			require.NoError(t, pump.Destroy())
			assert.EqualValues(t, total, next)
			drv.qmu.Lock()
			defer drv.qmu.Unlock()
			if mode == accesslayer.PollBusy {
				assert.Zero(t, drv.fired, "a busy pump needs no callbacks")
			} else {
				assert.Positive(t, drv.fired, "the pump did sleep")
			}
		})
	}
}

// After Destroy nothing is handled. Completions that were not consumed stay in the queue.
func TestPumpStopsCleanly(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			drv, _ := ci.As[*fakeCQ](r.cq)
			closed := false // without a lock, so that the race detector checks the order
			var handled atomic.Int64
			pump := must(r.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Batch: 1, Handle: func(wc []ci.WC) {
				assert.False(t, closed)
				handled.Add(int64(len(wc)))
			}}))
			stop := make(chan struct{})
			var wg sync.WaitGroup
			made := 0
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						drv.complete(ci.WC{})
						made++
						runtime.Gosched()
					}
				}
			})
			require.Eventually(t, func() bool { return handled.Load() > 10 }, testenv.Patience, time.Millisecond)
			require.NoError(t, pump.Destroy())
			closed = true
			close(stop)
			wg.Wait()
			rest := 0
			for wc := make([]ci.WC, 64); ; {
				n := must(r.cq.Poll(wc))
				if n == 0 {
					break
				}
				rest += n
			}
			assert.Equal(t, made, int(handled.Load())+rest)
			_, err := r.cq.NewPump(accesslayer.PumpConfig{Mode: mode})
			assert.ErrorIs(t, err, ci.InvalidParameter)
		})
	}
}

// Destroying the CQ ends its pumps and waiters. A pump may destroy itself, or the CQ, in its handler.
func TestPumpAndCQEnd(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			must(r.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Handle: func([]ci.WC) {},
				OnStop: func(err error) { t.Error("stopped by itself", err) }}))
			require.NoError(t, r.cq.Destroy())

			cq := must(r.pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
			drv, _ := ci.As[*fakeCQ](cq)
			ended := make(chan struct{})
			must(cq.NewPump(accesslayer.PumpConfig{Mode: mode, Handle: func([]ci.WC) {
				assert.NoError(t, cq.DestroyAsync(func(error) { close(ended) }))
			}}))
			drv.complete(ci.WC{})
			wait(t, ended, "the CQ's end")
		})
	}
}

func TestPumpStopsWhenTheDriverFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cq := must(r.pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	drv, _ := ci.As[*fakeCQ](cq)
	stopped := make(chan error, 1)
	drv.qmu.Lock()
	drv.broken = &ci.Error{Verb: "CQ.Poll", Status: ci.InvalidState}
	drv.qmu.Unlock()
	p := must(cq.NewPump(accesslayer.PumpConfig{Handle: func([]ci.WC) {}, OnStop: func(err error) { stopped <- err }}))
	assert.ErrorIs(t, <-stopped, ci.InvalidState)
	assert.NoError(t, p.Destroy())
}

// A completion that arrives between the last poll and the arming causes no callback. The poll after arming finds it.
func TestNothingLostBeforeArming(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		if mode == accesslayer.PollBusy {
			continue // never arms
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			drv, _ := ci.As[*fakeCQ](r.cq)
			drv.onNotify = func() { drv.complete(ci.WC{ID: 9}) }
			wc := make([]ci.WC, 1)
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			n, err := accesslayer.Poller{CQ: r.cq, Mode: mode, Spin: time.Microsecond}.Next(ctx, wc)
			require.NoError(t, err)
			assert.Equal(t, 1, n)
			assert.EqualValues(t, 9, wc[0].ID)
			assert.Zero(t, drv.fired)
		})
	}
}

// Several goroutines wait on one CQ. All of them wake up, and each completion is returned to one of them.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	drv, _ := ci.As[*fakeCQ](r.cq)
	const each, waiters = 2000, 4
	seen := make([]atomic.Int32, each*waiters)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			wc := make([]ci.WC, 1)
			for range each {
				n, err := r.cq.Wait(t.Context(), wc)
				if !assert.NoError(t, err) || !assert.Equal(t, 1, n) {
					return
				}
				seen[wc[0].ID].Add(1)
			}
		})
	}
	for id := range uint64(each * waiters) {
		drv.complete(ci.WC{ID: id})
		if id%7 == 0 {
			runtime.Gosched()
		}
	}
	wg.Wait()
	for i := range seen {
		require.EqualValues(t, 1, seen[i].Load())
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			poller := accesslayer.Poller{CQ: r.cq, Mode: mode, Spin: time.Microsecond}
			wc := make([]ci.WC, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			_, err := poller.Next(ctx, wc)
			assert.ErrorIs(t, err, context.DeadlineExceeded)

			got := make(chan error, 2)
			for range 2 { // one holds the baton, in the modes that sleep, and the other waits for it
				go func() { _, err := poller.Next(t.Context(), make([]ci.WC, 1)); got <- err }()
			}
			runtime.Gosched()
			require.NoError(t, r.cq.Destroy())
			for range 2 {
				err := <-got
				assert.ErrorIs(t, err, accesslayer.ErrClosed)
				assert.ErrorIs(t, err, ci.InvalidCQHandle)
			}
			_, err = poller.Next(t.Context(), wc)
			assert.ErrorIs(t, err, accesslayer.ErrClosed)
		})
	}
}

func TestWaitAllocatesNothing(t *testing.T) {
	r := newRig(t)
	drv, _ := ci.As[*fakeCQ](r.cq)
	wc, one := make([]ci.WC, 4), make([]ci.WC, 1)
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		drv.complete(one...)
		_, _ = r.cq.Wait(ctx, wc)
	}))
}

func BenchmarkWait(b *testing.B) {
	h := newFake(1)
	al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1})
	defer al.Close()
	if err := al.Register(h); err != nil {
		b.Fatal(err)
	}
	pd := must(must(must(al.Open(accesslayer.ClientConfig{})).OpenCA(fakeGUID, nil)).NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{}))
	drv, _ := ci.As[*fakeCQ](cq)
	wc, one := make([]ci.WC, 4), make([]ci.WC, 1)
	b.ReportAllocs()
	for b.Loop() {
		drv.complete(one...)
		if _, err := cq.Wait(b.Context(), wc); err != nil {
			b.Fatal(err)
		}
	}
}
