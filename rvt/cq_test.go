package rvt

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
)

// A cqRig is a side that sends to itself by way of a peer, with its own CQ whose callbacks are counted.
type cqRig struct {
	t      *testing.T
	a, b   *side
	cq     ci.CQ
	fired  chan struct{}
	events chan ci.Event
}

// newCQRig connects a to b, whose receives complete to a CQ of the given size.
func newCQRig(t *testing.T, size int, clock clock.Clock) *cqRig {
	x := &cqRig{t: t, fired: make(chan struct{}, 100), events: make(chan ci.Event, 100)}
	l := &wireLink{mtu: ci.MTU4096}
	x.a = newSide(t, l, 0xa, clock, ci.RC, nil)
	x.b = newSide(t, l, 0xb, clock, ci.RC, nil)
	var err error
	x.cq, err = x.b.pd.CreateCQ(ci.CQCreate{Size: size, Context: "mine", OnCompletion: func(arg any) {
		require.Equal(t, "mine", arg)
		x.fired <- struct{}{}
	}, OnEvent: func(e ci.Event) { x.events <- e }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.cq.Destroy()) })
	x.b.remake(ci.QPCreate{Type: ci.RC, SendCQ: x.b.cq, RecvCQ: x.cq, QPCaps: ci.QPCaps{SendDepth: 256, RecvDepth: 256,
		SendSGE: 1, RecvSGE: 1}})
	x.a.connect(x.b, nil)
	x.b.connect(x.a, nil)
	return x
}

// add adds n completions to the CQ.
func (x *cqRig) add(n int, flags ci.SendFlags) {
	for range n {
		x.b.recv(ci.RecvWR{ID: 1})
		x.a.send(ci.SendWR{Flags: flags})
	}
}

// count waits until no callback runs, and returns the number of callbacks.
func (x *cqRig) count() int {
	synctest.Wait()
	n := len(x.fired)
	for range n {
		<-x.fired
	}
	return n
}

func (x *cqRig) poll(n int) {
	x.t.Helper()
	got, err := x.cq.Poll(make([]ci.WC, 100))
	require.NoError(x.t, err)
	require.Equal(x.t, n, got)
}

// inBubble runs f in a bubble, where synctest.Wait returns when all callbacks have returned.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestArm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := newCQRig(t, 200, newClock())
		x.add(2, 0)
		require.Zero(t, x.count(), "not armed")
		require.NoError(t, x.cq.Notify(ci.NotifyNext))
		require.Zero(t, x.count(), "entries that are there do not fire")
		x.add(1, 0)
		require.Equal(t, 1, x.count())
		x.add(1, 0)
		require.Zero(t, x.count(), "one callback per arm")
		x.poll(4)

		require.NoError(t, x.cq.Notify(ci.NotifySolicited))
		x.add(1, 0)
		require.Zero(t, x.count())
		x.add(1, ci.SendSolicited)
		require.Equal(t, 1, x.count())

		require.NoError(t, x.cq.Notify(ci.NotifySolicited))
		require.NoError(t, x.cq.Notify(ci.NotifyNext), "an upgrade")
		require.NoError(t, x.cq.Notify(ci.NotifySolicited), "which cannot be taken back")
		x.add(1, 0)
		require.Equal(t, 1, x.count())
		require.ErrorIs(t, x.cq.Notify(9), ci.InvalidParameter)

		require.NoError(t, x.cq.Notify(ci.NotifySolicited))
		x.b.recv(ci.RecvWR{ID: 7})
		x.b.toState(ci.QPError)
		require.Equal(t, 1, x.count(), "errors count as solicited")
		x.poll(4)
	})
}

func TestNotifyAfter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := newCQRig(t, 20, newClock())
		for _, n := range []int{0, -1, 21} {
			require.ErrorIs(t, x.cq.NotifyAfter(n), ci.InvalidParameter)
		}
		for _, n := range []int{1, 3, 20} {
			require.NoError(t, x.cq.NotifyAfter(n))
			x.add(n-1, 0)
			require.Zero(t, x.count())
			x.add(1, 0)
			require.Equal(t, 1, x.count())
			x.poll(n)
			x.add(2, 0)
			require.Zero(t, x.count())
			x.poll(2)
		}
		require.NoError(t, x.cq.NotifyAfter(5))
		require.NoError(t, x.cq.Notify(ci.NotifySolicited), "one arming at a time")
		x.add(1, ci.SendSolicited)
		require.Equal(t, 1, x.count())
		x.poll(1)
	})
}

func TestModeration(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name string
		mod  ci.Moderation
		do   func(x *cqRig, c *fakeClock)
	}{
		{"count", ci.Moderation{Count: 3, Period: time.Hour}, func(x *cqRig, c *fakeClock) {
			x.add(2, 0)
			require.Zero(x.t, x.count())
			x.add(1, 0)
			require.Equal(x.t, 1, x.count())
			x.add(5, 0)
			require.Zero(x.t, x.count(), "disarmed")
		}},
		{"period", ci.Moderation{Count: 3, Period: 10 * ms}, func(x *cqRig, c *fakeClock) {
			x.add(1, 0)
			c.Advance(10*ms - 1)
			require.Zero(x.t, x.count())
			c.Advance(1)
			require.Equal(x.t, 1, x.count())
			x.add(1, 0)
			c.Advance(time.Second)
			require.Zero(x.t, x.count(), "disarmed")
		}},
		{"period alone", ci.Moderation{Period: 10 * ms}, func(x *cqRig, c *fakeClock) {
			x.add(50, 0)
			require.Zero(x.t, x.count())
			c.Advance(10 * ms)
			require.Equal(x.t, 1, x.count())
		}},
		{"count alone never loses one", ci.Moderation{Count: 100}, func(x *cqRig, c *fakeClock) {
			x.add(1, 0)
			require.Zero(x.t, x.count())
			c.Advance(time.Second)
			require.Equal(x.t, 1, x.count())
		}},
		{"a period begins with its own first completion", ci.Moderation{Count: 2, Period: 10 * ms},
			func(x *cqRig, c *fakeClock) {
				x.add(2, 0)
				require.Equal(x.t, 1, x.count())
				c.Advance(8 * ms)
				require.NoError(x.t, x.cq.Notify(ci.NotifyNext))
				x.add(1, 0)
				c.Advance(9 * ms)
				require.Zero(x.t, x.count())
				c.Advance(ms)
				require.Equal(x.t, 1, x.count())
			}},
		{"turned off while one is held", ci.Moderation{Count: 10, Period: time.Hour}, func(x *cqRig, c *fakeClock) {
			x.add(3, 0)
			require.Zero(x.t, x.count())
			require.NoError(x.t, x.cq.Modify(ci.Moderation{}))
			require.Equal(x.t, 1, x.count())
			x.add(1, 0)
			require.Zero(x.t, x.count(), "that was the one callback of this arm")
			require.NoError(x.t, x.cq.Notify(ci.NotifyNext))
			x.add(1, 0)
			require.Equal(x.t, 1, x.count())
		}},
		{"solicited", ci.Moderation{Count: 2, Period: time.Hour}, func(x *cqRig, c *fakeClock) {
			x.add(5, ci.SendSolicited)
			require.Equal(x.t, 1, x.count())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newClock()
				x := newCQRig(t, 200, c)
				require.NoError(t, x.cq.Modify(tt.mod))
				a, err := x.cq.Query()
				require.NoError(t, err)
				require.Equal(t, ci.CQAttr{Size: 200, Moderation: tt.mod}, a)
				require.NoError(t, x.cq.Notify(ci.NotifyNext))
				tt.do(x, c)
				c.Advance(time.Hour)
				require.Zero(t, c.Pending())
			})
		})
	}
	inBubble(t, func(t *testing.T) {
		x := newCQRig(t, 10, newClock())
		require.ErrorIs(t, x.cq.Modify(ci.Moderation{Count: -1}), ci.InvalidParameter)
		require.ErrorIs(t, x.cq.Modify(ci.Moderation{Period: -1}), ci.InvalidParameter)
	})
}

// TestCQOverflow checks that lost completions are reported once and end the QPs of the queue. After a resize the queue
// works again, and the next loss is reported as well.
func TestCQOverflow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := newCQRig(t, 3, newClock())
		overflow := func() {
			x.add(3, 0)
			synctest.Wait()
			require.Empty(t, x.events)
			x.add(1, 0)
			synctest.Wait()
			require.Len(t, x.events, 2)
			require.Equal(t, ci.Event{Context: "mine", Type: ci.EventCQOverflow}, <-x.events)
			require.Equal(t, ci.Event{Context: "mine", Type: ci.EventCQError}, <-x.events)
			require.Equal(t, ci.QPError, x.b.state())
			require.Equal(t, ci.EventQPFatal, (<-x.b.events).Type)
			require.Equal(t, ci.QPRTS, x.a.state())
			x.poll(3)
		}
		overflow()
		for _, s := range []*side{x.a, x.b} {
			s.toState(ci.QPReset)
		}
		x.a.connect(x.b, nil)
		x.b.connect(x.a, nil)
		overflow()
		require.NotZero(t, x.b.hca.Counters()["cq_overflow"])
	})
}

func TestResizeCQ(t *testing.T) {
	x := newCQRig(t, 4, nil)
	x.add(4, 0)
	_, err := x.cq.Resize(ci.CQResize{Size: 3})
	require.ErrorIs(t, err, ci.Overflow)
	for _, n := range []int{0, -1, 1 << 30} {
		_, err = x.cq.Resize(ci.CQResize{Size: n})
		require.ErrorIs(t, err, ci.InvalidCQSize)
	}
	n, err := x.cq.Resize(ci.CQResize{Size: 8})
	require.NoError(t, err)
	require.Equal(t, 8, n)
	x.add(4, 0)
	peek, err := x.cq.Peek()
	require.NoError(t, err)
	require.Equal(t, 8, peek)
	require.Equal(t, ci.QPRTS, x.b.state())
	x.poll(8)
}

// TestResizeUnderTraffic checks that no completion is lost or duplicated.
func TestResizeUnderTraffic(t *testing.T) {
	x := newCQRig(t, 300, nil)
	const total = 5000
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, err := x.cq.Resize(ci.CQResize{Size: 300 + i%50})
				if err != nil {
					require.ErrorIs(t, err, ci.Overflow)
				}
			}
		}
	})
	next := uint64(0)
	for i := range uint64(total) {
		x.b.recv(ci.RecvWR{ID: i})
		x.a.send(ci.SendWR{})
		if i%200 == 199 || i == total-1 {
			var wc [64]ci.WC
			for next <= i {
				n, err := x.cq.Poll(wc[:])
				require.NoError(t, err)
				for _, w := range wc[:n] {
					require.Equal(t, next, w.ID)
					next++
				}
			}
		}
	}
	close(stop)
	wg.Wait()
}

// TestCallbacksOfObjectsAreApart checks that a blocked callback delays only the Destroy of its own object and no
// callback of another.
func TestCallbacksOfObjectsAreApart(t *testing.T) {
	x := newCQRig(t, 100, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	cq2, err := x.b.pd.CreateCQ(ci.CQCreate{Size: 10, OnCompletion: func(any) { close(entered); <-leave }})
	require.NoError(t, err)
	qp2, err := x.b.pd.CreateQP(ci.QPCreate{Type: ci.UC, SendCQ: cq2, RecvCQ: cq2,
		QPCaps: ci.QPCaps{RecvDepth: 1, SendDepth: 1}})
	require.NoError(t, err)
	require.NoError(t, cq2.Notify(ci.NotifyNext))
	require.NoError(t, qp2.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	_, err = qp2.PostRecv([]ci.RecvWR{{}})
	require.NoError(t, err)
	<-entered
	for range 3 {
		require.NoError(t, x.cq.Notify(ci.NotifyNext))
		x.add(1, 0)
		<-x.fired
	}
	require.NoError(t, qp2.Destroy())
	destroyed := make(chan error)
	go func() { destroyed <- cq2.Destroy() }()
	select {
	case err := <-destroyed:
		require.Fail(t, "Destroy did not wait for the callback", "%v", err)
	default:
	}
	close(leave)
	require.NoError(t, <-destroyed)
}

// TestCallbacksMayUseVerbs polls, arms, posts and creates address vectors in a completion callback.
func TestCallbacksMayUseVerbs(t *testing.T) {
	x := newCQRig(t, 100, nil)
	done := make(chan int, 10)
	round := 0
	var cq ci.CQ
	made := make(chan struct{})
	cq, err := x.b.pd.CreateCQ(ci.CQCreate{Size: 10, OnCompletion: func(any) {
		<-made
		var wc [4]ci.WC
		n, err := cq.Poll(wc[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, cq.Notify(ci.NotifyNext))
		av, err := x.b.pd.CreateAV(ci.AVAttr{Port: 1, DLID: 1})
		require.NoError(t, err)
		require.NoError(t, av.Destroy())
		if round++; round < 5 {
			x.b.recv(ci.RecvWR{})
			x.b.send(ci.SendWR{Flags: ci.SendSignaled})
		}
		done <- round
	}})
	require.NoError(t, err)
	close(made)
	t.Cleanup(func() { require.NoError(t, cq.Destroy()) })
	x.b.remake(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: x.b.cq, QPCaps: ci.QPCaps{RecvDepth: 10, SendDepth: 10}})
	x.a.toState(ci.QPReset)
	x.a.connect(x.b, nil)
	x.b.connect(x.a, nil)
	for range 5 {
		x.a.recv(ci.RecvWR{})
	}
	require.NoError(t, cq.Notify(ci.NotifyNext))
	x.b.send(ci.SendWR{Flags: ci.SendSignaled})
	for i := range 5 {
		require.Equal(t, i+1, <-done)
	}
}

// eagerCQ posts through hook while a completion is being stored: the first moment at which a consumer on another
// processor can see it.
type eagerCQ struct {
	plainCQ
	hook func()
}

func (c *eagerCQ) Put(wc *ci.WC) bool {
	ok := c.plainCQ.Put(wc)
	if c.hook != nil {
		c.hook()
	}
	return ok
}

type eagerRings struct {
	plainRings
	cq *eagerCQ
}

func (e eagerRings) CompletionRing(size int, _ *ci.UserBuffer) (CompletionRing, error) {
	e.cq.size = size
	return e.cq, nil
}

// TestRoomAtCompletion checks that a consumer that has polled the completion of the only request of a queue of depth
// one can post the next.
func TestRoomAtCompletion(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		t.Run(typ.String(), func(t *testing.T) {
			l := &wireLink{mtu: ci.MTU4096}
			cq := &eagerCQ{}
			a := newSideOn(t, []*linkPort{l.port()}, 0xa, nil, eagerRings{cq: cq}, typ,
				func(c *ci.QPCreate) { c.SendDepth = 1 })
			b := newSide(t, l, 0xb, nil, typ, nil)
			a.connect(b, nil)
			b.connect(a, nil)
			left := 10
			cq.hook = func() {
				if left--; left > 0 {
					a.send(ci.SendWR{ID: uint64(left), Flags: ci.SendSignaled, Inline: []byte("x")})
				}
			}
			for range 10 {
				b.recv(ci.RecvWR{SGL: b.sge(0, 1)})
			}
			a.send(ci.SendWR{Flags: ci.SendSignaled, Inline: []byte("x")})
			require.Len(t, a.poll(), 10)
			require.Len(t, b.poll(), 10)
		})
	}
}
