package accesslayer_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap/faults"
	"ciddk/internal/testenv"
)

// The driver's creates and destroys fail at random while clients create and destroy on several goroutines and events
// arrive; at the end the HCA is removed. Every failure must reach a client or be retried, and no object of the driver
// may be left.
func TestChaos(t *testing.T) {
	t.Parallel()
	inj := faults.New(7)
	for _, v := range faults.Verbs() {
		switch v {
		case "HCA.OpenCA", "UserCA.AllocatePD", "UserCA.VendorCall", "CA.VendorCall", "CA.LocalMAD", "CA.SLForIP":
			continue
		}
		inj.MustAdd(faults.Rule{Verb: v, Status: ci.ResourceBusy, Probability: 0.15, Skip: 1})
	}
	h := newFake(2)
	var lost sync.Map // errors of objects that were given up
	al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1, DestroyBackoff: time.Microsecond,
		DestroyRetries: 60,
		OnDestroyError: func(err error) { lost.Store(err, true) }})
	require.NoError(t, al.Register(inj.Wrap(h)))
	stop := make(chan struct{})
	var workers, noise sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { chaos(t, al, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	noise.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				fireAll(h, "QP", ci.EventQPComm)
				h.mu.Lock()
				open := h.open
				h.mu.Unlock()
				if open != nil {
					open.fire(ci.EventPortActive, 1)
				}
			}
		}
	})
	workers.Wait()
	require.NoError(t, al.Deregister(fakeGUID))
	close(stop)
	noise.Wait()
	require.NoError(t, al.Close())
	lost.Range(func(err, _ any) bool { t.Error("given up:", err); return true })
	assert.Empty(t, h.liveObjects())
	assert.True(t, h.closed)
	assert.Empty(t, h.violationList())
	assert.Positive(t, inj.Calls("QP.Destroy"))
}

// chaos creates and destroys objects at random. An error must be the injected one, or report that something is closed.
func chaos(t *testing.T, al *accesslayer.AL, rnd *rand.Rand) {
	ok := func(err error) bool {
		if err != nil && !assert.ErrorIs(t, err, ci.ResourceBusy) {
			t.Log(err)
		}
		return err == nil
	}
	for range 6 {
		c, err := al.Open(accesslayer.ClientConfig{})
		require.NoError(t, err)
		ca, err := c.OpenCA(fakeGUID, func(*accesslayer.CA, ci.Event) {})
		require.NoError(t, err)
		pd, err := ca.NewPD(ci.PDNormal)
		if !ok(err) {
			_ = c.Close()
			continue
		}
		var cqs []*accesslayer.CQ
		var things []tracked
		for range 120 {
			switch rnd.IntN(9) {
			case 0:
				if q, err := pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}); ok(err) {
					cqs = append(cqs, q)
				}
			case 1, 2:
				if len(cqs) == 0 {
					continue
				}
				q := cqs[rnd.IntN(len(cqs))]
				if qp, err := pd.NewQP(ci.QPCreate{SendCQ: q, RecvCQ: q}, func(*accesslayer.QP, ci.Event) {}); ok(err) {
					things = append(things, qp)
					if m, err := qp.AttachMcast(ci.McastAttach{GID: ci.GID{0xff}, LID: 0xc000}); ok(err) {
						things = append(things, m.(*accesslayer.Mcast))
					}
				}
			case 3:
				if mr, err := pd.NewMR(ci.MRCreate{}); ok(err) {
					things = append(things, mr)
				}
			case 4:
				if mw, err := pd.NewMW(ci.MWCreate{Type: ci.MWType1}); ok(err) {
					things = append(things, mw)
				}
			case 5:
				if p, err := pd.NewFMRPool(poolConfig()); ok(err) {
					if m, err := p.Map([]uint64{1}, 0); ok(err) {
						ok(m.Unmap())
					}
					things = append(things, p)
				}
			case 6:
				if p, err := pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 2, MaxPages: 1}); ok(err) {
					things = append(things, p)
					if m, err := p.Map(ci.Bytes(make([]byte, 1)), 0); ok(err) && rnd.IntN(2) == 0 {
						ok(m.Unmap())
					} else if err == nil && rnd.IntN(2) == 0 {
						ok(m.Drop())
					}
				}
			default:
				if len(things) == 0 {
					continue
				}
				o := things[rnd.IntN(len(things))]
				if rnd.IntN(2) == 0 {
					_ = o.DestroyAsync(nil)
				} else if err := o.Destroy(); !errors.Is(err, accesslayer.ErrClosed) && err != nil {
					assert.ErrorIs(t, err, ci.ResourceBusy)
				}
			}
		}
		if rnd.IntN(2) == 0 {
			assert.NoError(t, c.Close())
		}
	}
}

// The access layer is closed while a driver registers. Close waits, and the HCA is not registered.
func TestCloseDuringRegister(t *testing.T) {
	t.Parallel()
	h := newFake(1)
	al := newAL(t)
	in, hold := make(chan struct{}), make(chan struct{})
	h.onQuery = func() { close(in); <-hold }
	registered, closed := make(chan error, 1), make(chan error, 1)
	go func() { registered <- al.Register(h) }()
	wait(t, in, "the query")
	assert.ErrorIs(t, al.Deregister(fakeGUID), ci.NotFound, "not registered yet")
	c := must(al.Open(accesslayer.ClientConfig{}))
	_, err := c.OpenCA(fakeGUID, nil)
	assert.ErrorIs(t, err, ci.NotFound)
	go func() { closed <- al.Close() }()
	require.Eventually(t, func() bool { _, err := al.Open(accesslayer.ClientConfig{}); return err != nil },
		10*time.Second, time.Millisecond)
	close(hold)
	assert.ErrorIs(t, <-registered, accesslayer.ErrClosed)
	assert.NoError(t, <-closed)
	assert.True(t, h.closed)
}

// A registration that fails closes the driver, even if that takes several attempts.
func TestRegisterRollbackIsRetried(t *testing.T) {
	t.Parallel()
	h := newFake(1)
	al := newAL(t)
	h.plan("CA.Query", ci.Timeout)
	h.plan("CA.Destroy", ci.ResourceBusy, ci.ResourceBusy)
	require.ErrorIs(t, al.Register(h), ci.Timeout)
	require.Eventually(t, func() bool { return al.Register(h) == nil }, testenv.Patience, time.Millisecond)
	assert.Equal(t, 2, h.opens)
}
