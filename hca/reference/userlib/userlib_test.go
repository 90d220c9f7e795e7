package userlib

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/hca/reference/arena"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
)

// pairOf returns two clients with connected QPs, of one adapter or of two.
func pairOf(t *testing.T, typ ci.QPType, tweak func(*reference.Config)) (a, b *client) {
	link := direct.NewLink()
	a, b = newClient(newDaemon(t, link, tweak), typ), newClient(newDaemon(t, link, tweak), typ)
	t.Cleanup(func() { a.die(); b.die() })
	if typ == ci.RC {
		a.connect(b)
		b.connect(a)
	}
	return a, b
}

// TestOperations checks every operation of a reliable connection through the shared queues.
func TestOperations(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	for i := range a.buf[:3000] {
		a.buf[i] = byte(i * 7)
	}
	b.recv(ci.RecvWR{ID: 1, SGL: b.sge(10000, 3000)}, ci.RecvWR{ID: 2, SGL: b.sge(0, 100)}, ci.RecvWR{ID: 3})
	a.send(ci.SendWR{ID: 11, Flags: ci.SendSignaled, SGL: a.sge(0, 3000)},
		ci.SendWR{ID: 12, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 0x01020304, Inline: []byte("inline")},
		ci.SendWR{ID: 13, Op: ci.OpWrite, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 5, SGL: a.sge(0, 1000),
			Remote: b.mr.Region().Remote(20000)})
	got := b.poll(3)
	require.Equal(t, a.buf[:3000], b.buf[10000:13000])
	require.Equal(t, a.buf[:1000], b.buf[20000:21000])
	require.Equal(t, "inline", string(b.buf[:6]))
	for i, w := range got {
		require.NoError(t, w.Err())
		require.EqualValues(t, i+1, w.ID)
		require.Same(t, b, w.Context)
		require.Equal(t, b.qp.Num(), w.QPN)
	}
	require.EqualValues(t, 0x01020304, got[1].Imm)
	require.Equal(t, ci.WCRecvWrite, got[2].Op)
	for i, w := range a.poll(3) {
		require.NoError(t, w.Err())
		require.EqualValues(t, 11+i, w.ID)
	}
	binary.NativeEndian.PutUint64(b.buf[30000:], 40)
	a.send(ci.SendWR{ID: 21, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(40000, 3000),
		Remote: b.mr.Region().Remote(10000)},
		ci.SendWR{ID: 22, Op: ci.OpFetchAdd, Flags: ci.SendSignaled, SGL: a.sge(50000, 8),
			Remote: b.mr.Region().Remote(30000), Atomic: ci.Atomic{Compare: 2}},
		ci.SendWR{ID: 23, Op: ci.OpCompareSwap, Flags: ci.SendSignaled, SGL: a.sge(50008, 8),
			Remote: b.mr.Region().Remote(30000),
			Atomic: ci.Atomic{Compare: 42, Swap: 99}}, ci.SendWR{ID: 24, Op: ci.OpNop, Flags: ci.SendSignaled})
	for _, w := range a.poll(4) {
		require.NoError(t, w.Err())
	}
	require.Equal(t, a.buf[:3000], a.buf[40000:43000])
	require.EqualValues(t, 40, binary.NativeEndian.Uint64(a.buf[50000:]))
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(a.buf[50008:]))
	require.EqualValues(t, 99, binary.NativeEndian.Uint64(b.buf[30000:]))
}

// TestManyMessages moves messages in both directions until every index has wrapped around often.
func TestManyMessages(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	const total = 1000
	var wg sync.WaitGroup
	run := func(c *client) {
		next, sent := uint64(0), 0
		acked, received := 0, 0
		for range 15 {
			c.recv(ci.RecvWR{ID: next, SGL: c.sge(0, 64)})
			next++
		}
		var wc [8]ci.WC
		for end := time.Now().Add(30 * time.Second); acked < total || received < total; {
			for sent < total && sent-acked < 8 {
				c.send(ci.SendWR{ID: uint64(sent), Flags: ci.SendSignaled, SGL: c.sge(1000, 64)})
				sent++
			}
			n, err := c.cq.u.Poll(wc[:])
			assert.NoError(t, err)
			for _, w := range wc[:n] {
				if !assert.NoError(t, w.Err()) {
					return
				}
				if w.Op.IsRecv() {
					assert.EqualValues(t, received, w.ID)
					received++
					c.recv(ci.RecvWR{ID: next, SGL: c.sge(0, 64)})
					next++
				} else {
					assert.EqualValues(t, acked, w.ID)
					acked++
				}
			}
			if !assert.True(t, time.Now().Before(end), "%d sent, %d acknowledged, %d received", sent, acked, received) {
				return
			}
		}
	}
	wg.Go(func() { run(a) })
	wg.Go(func() { run(b) })
	wg.Wait()
}

// TestDatagrams checks address vectors, which work requests name by number.
func TestDatagrams(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.UD, nil)
	a.toDatagrams()
	b.toDatagrams()
	av := a.createAV(ci.AVAttr{Port: 1, DLID: b.lid()})
	to := ci.Dest{AV: av, QPN: b.qp.Num(), QKey: 7}
	b.recv(ci.RecvWR{ID: 1, SGL: b.sge(0, 100)})
	copy(a.buf, "datagram")
	a.send(ci.SendWR{ID: 2, Flags: ci.SendSignaled, SGL: a.sge(0, 8), To: to})
	require.NoError(t, a.poll(1)[0].Err())
	w := b.poll(1)[0]
	require.NoError(t, w.Err())
	require.Equal(t, a.qp.Num(), w.SrcQP)
	require.Equal(t, "datagram", string(b.buf[40:48]))

	foreign := b.createAV(ci.AVAttr{Port: 1, DLID: a.lid()})
	for name, v := range map[string]ci.AV{"none": nil, "of another PD": foreign} {
		_, err := a.qp.u.PostSend([]ci.SendWR{{To: ci.Dest{AV: v, QPN: 1, QKey: 7}}})
		require.ErrorIs(t, err, ci.InvalidAVHandle, name)
	}
	// A request that was posted before the vector's end completes with an error; none is accepted afterwards.
	require.NoError(t, av.AV.Destroy())
	a.send(ci.SendWR{ID: 3, Flags: ci.SendSignaled, SGL: a.sge(0, 8), To: to})
	require.Equal(t, ci.WCLocalOpErr, a.poll(1)[0].Status)
	a.lib.DestroyAV.Post(&ci.UserDestroyAV{AV: av.u}, nil, nil)
	_, err := a.qp.u.PostSend([]ci.SendWR{{To: to}})
	require.ErrorIs(t, err, ci.InvalidAVHandle)
	a.objects = slices.DeleteFunc(a.objects, func(o ci.Object) bool { return o == ci.Object(av.AV) })
}

// TestSRQ checks a shared receive queue in shared memory.
func TestSRQ(t *testing.T) {
	t.Parallel()
	link := direct.NewLink()
	a := newClient(newDaemon(t, link, nil), ci.RC)
	b := newClient(newDaemon(t, link, nil), ci.RC)
	defer a.die()
	defer b.die()
	srq := b.createSRQ(ci.SRQAttr{MaxWR: 7, MaxSGE: 1})
	b.qp = b.createQP(ci.QPCreate{Type: ci.RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, Context: "srq",
		QPCaps: ci.QPCaps{SendDepth: 3, SendSGE: 1}})
	a.connect(b)
	b.connect(a)
	_, err := b.qp.u.PostRecv([]ci.RecvWR{{}})
	require.ErrorIs(t, err, ci.InvalidWRType)
	n, err := srq.u.PostRecv([]ci.RecvWR{{ID: 5, SGL: b.sge(0, 64)}, {ID: 6, SGL: append(b.sge(0, 1), b.sge(0, 1)...)}})
	require.ErrorIs(t, err, ci.InvalidMaxSGE)
	require.Equal(t, 1, n)
	a.send(ci.SendWR{ID: 1, SGL: a.sge(0, 10)})
	w := b.poll(1)[0]
	require.NoError(t, w.Err())
	require.EqualValues(t, 5, w.ID)
	require.Equal(t, "srq", w.Context)
	n, err = srq.u.PostRecv(make([]ci.RecvWR, 9))
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 7, n)
	b.lib.DestroySRQ.Post(&ci.UserDestroySRQ{SRQ: srq.u.Handle}, nil, nil)
	_, err = srq.u.PostRecv(nil)
	require.ErrorIs(t, err, ci.InvalidSRQHandle)
	require.ErrorIs(t, srq.SRQ.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 20}), ci.InsufficientResources)
}

// TestPostErrors checks the statuses of posts, and that a Reset empties the queues.
func TestPostErrors(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	long := make([]byte, 65)
	three := append(append(a.sge(0, 1), a.sge(0, 1)...), a.sge(0, 1)...)
	for name, c := range map[string]struct {
		wr   ci.SendWR
		want ci.Status
	}{
		"operation":             {ci.SendWR{Op: 99}, ci.InvalidWRType},
		"long inline":           {ci.SendWR{Inline: long}, ci.InvalidParameter},
		"inline read":           {ci.SendWR{Op: ci.OpRead, Inline: long[:1]}, ci.InvalidParameter},
		"entries":               {ci.SendWR{SGL: three}, ci.InvalidMaxSGE},
		"checksum":              {ci.SendWR{Flags: ci.SendIPChecksum}, ci.Unsupported},
		"invalidate, immediate": {ci.SendWR{Flags: ci.SendInvalidate | ci.SendImmediate}, ci.InvalidParameter},
		"LSO":                   {ci.SendWR{Op: ci.OpLSO}, ci.InvalidWRType},
		"bind of nothing":       {ci.SendWR{Op: ci.OpBindMW}, ci.InvalidParameter},
		"registration":          {ci.SendWR{Op: ci.OpFastReg}, ci.Unsupported},
	} {
		n, err := a.qp.u.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpNop}, c.wr, {ID: 2, Op: ci.OpNop}})
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, 1, n, name)
	}
	_, err := a.qp.u.PostRecv([]ci.RecvWR{{SGL: three}})
	require.ErrorIs(t, err, ci.InvalidMaxSGE)
	n, err := b.qp.u.PostRecv(make([]ci.RecvWR, 20))
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 15, n)

	require.NoError(t, b.modify(b.qp, ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	_, err = b.qp.u.PostRecv([]ci.RecvWR{{}})
	require.ErrorIs(t, err, ci.InvalidQPState)
	_, err = b.qp.u.PostSend([]ci.SendWR{{}})
	require.ErrorIs(t, err, ci.InvalidQPState)
	require.NoError(t, b.modify(b.qp, ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	n, err = b.qp.u.PostRecv(make([]ci.RecvWR, 20))
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 15, n)

	// In Error, what is posted is flushed.
	require.NoError(t, b.modify(b.qp, ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	for _, w := range b.poll(15) {
		require.Equal(t, ci.WCFlushErr, w.Status)
	}
	b.recv(ci.RecvWR{ID: 77})
	require.EqualValues(t, 77, b.poll(1)[0].ID)
	b.send(ci.SendWR{ID: 78})
	require.EqualValues(t, 78, b.poll(1)[0].ID)

	destroy := &ci.UserDestroyQP{QP: b.qp.u.Handle}
	require.NoError(t, b.lib.DestroyQP.Pre(destroy, nil))
	b.lib.DestroyQP.Post(destroy, nil, ci.ResourceBusy) // a refused destroy leaves the QP as it is
	b.recv(ci.RecvWR{ID: 79})
	require.EqualValues(t, 79, b.poll(1)[0].ID)
	require.NoError(t, b.lib.DestroyQP.Pre(destroy, nil))
	require.NoError(t, b.qp.QP.Destroy())
	b.lib.DestroyQP.Post(destroy, nil, nil)
	_, err = b.qp.u.PostSend(nil)
	require.ErrorIs(t, err, ci.InvalidQPHandle)
	_, err = b.qp.u.PostRecv(nil)
	require.ErrorIs(t, err, ci.InvalidQPHandle)
	require.NoError(t, b.cq.CQ.Destroy())
	b.lib.DestroyCQ.Post(&ci.UserDestroyCQ{CQ: b.cq.u.Handle}, nil, nil)
	_, err = b.cq.u.Poll(make([]ci.WC, 1))
	require.ErrorIs(t, err, ci.InvalidCQHandle)
	_, err = b.cq.u.Peek()
	require.ErrorIs(t, err, ci.InvalidCQHandle)
	require.ErrorIs(t, b.cq.u.Notify(0), ci.InvalidCQHandle)
	b.objects = slices.DeleteFunc(b.objects, func(o ci.Object) bool {
		return o == ci.Object(b.cq.CQ) ||
			o == ci.Object(b.qp.QP)
	})
}

// TestNotify checks that a CQ that the process arms in shared memory fires once, under the conditions of ci.CQ.Notify.
func TestNotify(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	one := func(flags ci.SendFlags) {
		b.recv(ci.RecvWR{ID: 1})
		a.send(ci.SendWR{ID: 2, Flags: flags | ci.SendSignaled})
		a.poll(1)
		b.poll(1)
	}
	fires := func(want int64) {
		t.Helper()
		require.Eventually(t, func() bool { return b.fired.Load() == want }, testenv.Patience, time.Millisecond)
	}
	one(0)
	require.NoError(t, b.cq.u.Notify(ci.NotifyNext))
	one(0)
	fires(1)
	one(0)
	require.NoError(t, b.cq.u.Notify(ci.NotifySolicited))
	one(0)
	one(ci.SendSolicited)
	fires(2)
	require.NoError(t, b.cq.u.Notify(ci.NotifyNext))
	require.NoError(t, b.cq.u.Notify(ci.NotifySolicited), "which does not replace NotifyNext")
	one(0)
	fires(3)
	require.ErrorIs(t, b.cq.u.Notify(2), ci.InvalidParameter)
	require.NoError(t, b.cq.CQ.NotifyAfter(2)) // through the proxy
	one(0)
	one(0)
	fires(4)
	n, err := b.cq.u.Peek()
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = b.cq.CQ.Resize(ci.CQResize{Size: 1000})
	require.ErrorIs(t, err, ci.InsufficientResources)
}

// TestCapabilities checks that a process with the library does not have the capabilities that shared queues lack.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	lib, open := New(), &ca{}
	attr := &ci.CAAttr{Caps: notInUserMode | ci.CapUD | ci.CapMW2, MaxMWs: 5, MaxFastRegPages: 6, MaxQPs: 7}
	lib.QueryCA.Post(&ci.UserQueryCA{CA: open, Attr: attr}, nil, nil)
	require.Equal(t, &ci.CAAttr{Caps: ci.CapUD | ci.CapMW2, MaxMWs: 5, MaxQPs: 7}, attr)
}

// TestDoorbell checks that posts ring no doorbell while the engine looks, and that one wakes an engine that sleeps.
func TestDoorbell(t *testing.T) {
	t.Parallel()
	bells := func(c *client) uint64 { n, _ := c.lca.(*ca).Calls(); return n }
	send := func(a *client) {
		a.send(ci.SendWR{ID: 1, Op: ci.OpNop, Flags: ci.SendSignaled})
		a.poll(1)
	}
	t.Run("awake", func(t *testing.T) {
		t.Parallel()
		a, _ := pairOf(t, ci.RC, func(c *reference.Config) { c.UserIdle = time.Hour })
		before := bells(a)
		for range 1000 {
			send(a)
		}
		require.LessOrEqual(t, bells(a)-before, uint64(1))
	})
	t.Run("asleep", func(t *testing.T) {
		t.Parallel()
		a, _ := pairOf(t, ci.RC, func(c *reference.Config) { c.UserIdle = time.Nanosecond })
		for range 20 {
			before := bells(a)
			require.Eventually(t, func() bool { return a.asleep() }, testenv.Patience, 100*time.Microsecond)
			send(a)
			require.Equal(t, before+1, bells(a))
		}
	})
}

// asleep reports whether the engine sleeps.
func (c *client) asleep() bool { return c.lca.(*ca).Bytes()[0] == 1 }

// TestNoAllocation checks that posting and polling do not allocate.
func TestNoAllocation(t *testing.T) {
	a, _ := pairOf(t, ci.RC, func(c *reference.Config) { c.UserIdle = time.Hour })
	wrs := []ci.SendWR{{ID: 1, Op: ci.OpNop, Flags: ci.SendSignaled}}
	recvs := []ci.RecvWR{{ID: 1, SGL: a.sge(0, 10)}}
	wc := make([]ci.WC, 4)
	run := func() {
		if _, err := a.qp.u.PostSend(wrs); err != nil {
			t.Error(err)
		}
		_, _ = a.qp.u.PostRecv(recvs) // fails when the queue is full, without allocating either
		for n := 0; n == 0; {
			n, _ = a.cq.u.Poll(wc)
			runtime.Gosched()
		}
	}
	run()
	require.Less(t, testing.AllocsPerRun(200, run), 1.0)
}

// TestCounters checks the counters of system calls: a poll that finds nothing yields from time to time, and the daemon
// counts the doorbells that the process rings.
func TestCounters(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	require.Eventually(t, func() bool { return a.asleep() && b.asleep() }, testenv.Patience, 100*time.Microsecond)
	o := &userCA{u: a.lca}
	before, ok := CountersOf(o)
	require.True(t, ok)
	daemon := a.hca.Counters()
	a.send(ci.SendWR{ID: 1, Op: ci.OpNop, Flags: ci.SendSignaled})
	a.poll(1)
	for range 10 * pollsPerYield {
		n, err := a.cq.u.Poll(make([]ci.WC, 1))
		require.NoError(t, err)
		require.Zero(t, n)
	}
	after, _ := CountersOf(o)
	require.Equal(t, before.Doorbells+1, after.Doorbells)
	require.GreaterOrEqual(t, after.Yields-before.Yields, uint64(10))
	require.Eventually(t, func() bool { return a.asleep() }, testenv.Patience, 100*time.Microsecond)
	now := a.hca.Counters()
	require.Equal(t, daemon["user_doorbells"]+1, now["user_doorbells"])
	require.Equal(t, daemon["user_sleeps"]+1, now["user_sleeps"])
	require.Greater(t, now["user_yields"], daemon["user_yields"])
	_, ok = CountersOf(a.ca)
	require.False(t, ok, "a CA without the library")
}

// userCA is a CA of the user access layer.
type userCA struct {
	ci.CA
	u any
}

func (c *userCA) UserHandle() any { return c.u }

// TestClientsComeAndGo opens and closes contexts of an adapter while another process of it has traffic.
func TestClientsComeAndGo(t *testing.T) {
	t.Parallel()
	link := direct.NewLink()
	d := newDaemon(t, link, nil)
	a, b := newClient(d, ci.RC), newClient(d, ci.RC)
	a.connect(b)
	b.connect(a)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 30 {
			newClient(d, ci.RC).die()
		}
	})
	for i := range uint64(300) {
		b.recv(ci.RecvWR{ID: i, SGL: b.sge(0, 64)})
		a.send(ci.SendWR{ID: i, Flags: ci.SendSignaled, SGL: a.sge(0, 64)})
		for _, wc := range append(a.poll(1), b.poll(1)...) {
			require.Equal(t, i, wc.ID)
			require.NoError(t, wc.Err())
		}
	}
	wg.Wait()
	a.die()
	b.die()
}

// TestKilledClient kills clients with work outstanding, again and again: nothing of them remains.
func TestKilledClient(t *testing.T) {
	t.Parallel()
	link := direct.NewLink()
	d := newDaemon(t, link, nil)
	peer := newClient(newDaemon(t, link, nil), ci.RC)
	defer peer.die()
	for i := range 20 {
		c := newClient(d, ci.RC)
		c.connect(peer)
		for range i % 8 {
			c.recv(ci.RecvWR{ID: 1, SGL: c.sge(0, 10)})
			c.send(ci.SendWR{ID: 2, SGL: c.sge(0, 10)}, ci.SendWR{ID: 3, Op: ci.OpNop, Flags: ci.SendSignaled})
		}
		c.die()
		for kind, n := range d.hca.Live() {
			require.Zero(t, n, "%s left", kind)
		}
	}
}

// TestHostileClient has a client overwrite all of its shared memory while the engine uses it. A client of the same
// adapter goes on, and nothing of the hostile one remains afterwards.
func TestHostileClient(t *testing.T) {
	t.Parallel()
	link := direct.NewLink()
	d := newDaemon(t, link, func(c *reference.Config) { c.UserMemory = 1 << 20 })
	peer := newDaemon(t, link, nil)
	good, other := newClient(d, ci.RC), newClient(peer, ci.RC)
	good.connect(other)
	other.connect(good)
	bad, victim := newClient(d, ci.RC), newClient(peer, ci.RC)
	bad.connect(victim)
	victim.connect(bad)
	badUD := newClient(d, ci.UD)
	badUD.toDatagrams()
	badUD.createAV(ci.AVAttr{Port: 1, DLID: other.lid()})

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for seed, c := range []*client{bad, badUD} {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(seed)))
			m, err := arena.Open(c.files[0]) // a mapping of its own
			if !assert.NoError(t, err) {
				return
			}
			defer func() { assert.NoError(t, m.Close()) }()
			b := m.Bytes()
			for {
				select {
				case <-stop:
					return
				default:
				}
				used := b[:64<<10]
				for range 200 {
					at := rnd.IntN(len(used) - 8)
					if rnd.IntN(4) > 0 {
						binary.NativeEndian.PutUint32(used[at&^3:], rnd.Uint32()>>uint(rnd.IntN(32)))
					} else {
						used[at] = byte(rnd.Uint32())
					}
				}
				c.lca.(*ca).notify(rnd.Uint32() % 16384)
				runtime.Gosched()
			}
		})
	}
	for i := range 300 {
		other.recv(ci.RecvWR{ID: uint64(i), SGL: other.sge(0, 1000)})
		good.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: good.sge(0, 1000)})
		w := other.poll(1)[0]
		require.NoError(t, w.Err())
		require.EqualValues(t, i, w.ID)
		require.NoError(t, good.poll(1)[0].Err())
	}
	close(stop)
	wg.Wait()
	for _, c := range []*client{bad, badUD, victim, good, other} {
		c.die()
	}
}

// TestWithoutLibrary checks a process without a user library: its queues are the daemon's, and the same verbs work.
func TestWithoutLibrary(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, direct.NewLink(), nil)
	ub := &ci.UserBuffer{Status: 9, Out: make([]byte, 0, 100)}
	u, err := d.ca.OpenUser(fakeProcess{}, ub)
	require.NoError(t, err)
	require.Equal(t, &ci.UserBuffer{Out: []byte{}}, ub)
	pd, err := u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
	require.NoError(t, err)
	require.ErrorIs(t, d.ca.Destroy(), ci.ResourceBusy)
	ub = &ci.UserBuffer{Status: 9}
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4, User: ub})
	require.NoError(t, err)
	require.Zero(t, ub.Status)
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq, User: &ci.UserBuffer{},
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1}})
	require.NoError(t, err)
	require.NoError(t, qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	_, err = qp.PostRecv([]ci.RecvWR{{ID: 5}})
	require.NoError(t, err)
	var wc [2]ci.WC
	n, err := cq.Poll(wc[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, ci.WCFlushErr, wc[0].Status)
	_, err = pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP1, SendCQ: cq, RecvCQ: cq})
	require.ErrorIs(t, err, ci.InvalidPermission)
	_, err = pd.RegisterPMR(ci.PMRCreate{PageSize: 4096, Length: 1})
	require.ErrorIs(t, err, ci.InvalidPermission)
	for _, o := range []ci.Object{qp, cq, pd, u} {
		require.NoError(t, o.Destroy())
	}
	_, err = u.AllocatePD(ci.PDNormal, nil)
	require.ErrorIs(t, err, ci.InvalidCAHandle)
	require.ErrorIs(t, u.VendorCall(&ci.VendorOp{}, nil), ci.InvalidCAHandle)
	require.ErrorIs(t, u.Destroy(), ci.InvalidCAHandle)
}

// TestOpenUserErrors checks the arguments of OpenUser, and that a failed create gives its memory back.
func TestOpenUserErrors(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, direct.NewLink(), func(c *reference.Config) { c.UserMemory = 4 * arena.PageSize })
	for name, c := range map[string]struct {
		p    ci.Process
		ub   *ci.UserBuffer
		want ci.Status
	}{
		"no process":    {nil, &ci.UserBuffer{}, ci.InvalidParameter},
		"no buffer":     {fakeProcess{}, nil, ci.InvalidParameter},
		"other library": {fakeProcess{}, &ci.UserBuffer{Command: 99}, ci.InvalidParameter},
		"bytes":         {fakeProcess{}, &ci.UserBuffer{Command: 1, In: []byte{1}}, ci.InvalidParameter},
		"no room":       {fakeProcess{}, &ci.UserBuffer{Command: 1}, ci.InvalidParameter},
	} {
		u, err := d.ca.OpenUser(c.p, c.ub)
		require.ErrorIs(t, err, c.want, name)
		require.Nil(t, u, name)
	}
	u, err := d.ca.OpenUser(fakeProcess{}, &ci.UserBuffer{Command: 1, Out: make([]byte, 0, 100)})
	require.NoError(t, err)
	pd, err := u.AllocatePD(ci.PDNormal, nil)
	require.NoError(t, err)
	for range 10 { // more than there are pages
		_, err = pd.CreateCQ(ci.CQCreate{Size: 1, User: &ci.UserBuffer{Command: 1}})
		require.ErrorIs(t, err, ci.InvalidParameter, "no room for the answer")
	}
	_, err = pd.CreateCQ(ci.CQCreate{Size: 1000, User: &ci.UserBuffer{Command: 1, Out: make([]byte, 0, 100)}})
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.NoError(t, pd.Destroy())
	require.NoError(t, u.Destroy())
}
