package accesslayer_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
)

// tracked is the interface of all objects of the access layer.
type tracked interface {
	Destroy() error
	DestroyAsync(func(error)) error
}

// rig is a PD with one object of each kind.
type rig struct {
	h   *fakeHCA
	ca  *accesslayer.CA
	pd  *accesslayer.PD
	cq  *accesslayer.CQ
	srq *accesslayer.SRQ
	qp  *accesslayer.QP
	mr  *accesslayer.MR
	mw  *accesslayer.MW
	av  *accesslayer.AV
	fmr *accesslayer.FMR
	mc  *accesslayer.Mcast
	rdd *accesslayer.RDD
	eec *accesslayer.EEC
	dma *accesslayer.DMA
}

func newRig(t *testing.T, change ...func(*accesslayer.Config)) *rig {
	h, _, _, ca := setup(t, change...)
	r := &rig{h: h, ca: ca, pd: must(ca.NewPD(ci.PDNormal))}
	r.mr = must(r.pd.NewMR(ci.MRCreate{Length: 4096}))
	r.mw = must(r.pd.NewMW(ci.MWCreate{Type: ci.MWType1}))
	r.cq = must(r.pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{}))
	r.srq = must(r.pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}}, nil))
	r.qp = must(r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, SRQ: r.srq}, nil))
	r.av = must(r.pd.NewAV(ci.AVAttr{Port: 1}))
	r.fmr = must(r.pd.NewFMR(ci.FMRCreate{MaxPages: 4, MaxMaps: 2}))
	r.mc = must(r.qp.AttachMcast(ci.McastAttach{GID: ci.GID{0xff}, LID: 0xc000})).(*accesslayer.Mcast)
	r.rdd = must(r.pd.NewRDD())
	r.eec = must(r.rdd.NewEEC(ci.EECCreate{}, nil))
	r.dma = must(ca.NewDMA(ci.Bytes(make([]byte, 8))))
	return r
}

func destroys(trace []string) (out []string) {
	for _, s := range trace {
		if name, ok := strings.CutPrefix(s, "destroy "); ok {
			out = append(out, strings.TrimRight(name, "0123456789"))
		}
	}
	return out
}

// Destroying a PD destroys everything below it: windows first, then newest first, each object after those that use it.
func TestPDTakesAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, r.dma.Destroy())
	require.NoError(t, r.pd.Destroy())
	assert.Equal(t, []string{"DMA", "MW", "EEC", "Mcast", "RDD", "FMR", "AV", "QP", "SRQ", "CQ", "MR", "PD"},
		destroys(r.h.traced()))
	assert.Empty(t, r.h.liveObjects())
}

// A CA's mappings are destroyed last, since physical and fast registered regions of any PD may use them, also of an
// older PD.
func TestMappingsGoLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, r.ca.Destroy())
	assert.Equal(t, []string{"MW", "EEC", "Mcast", "RDD", "FMR", "AV", "QP", "SRQ", "CQ", "MR", "PD", "DMA"},
		destroys(r.h.traced()))
	assert.Empty(t, r.h.liveObjects())
}

func TestEachKindDestroys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, x := range []struct {
		o       tracked
		invalid ci.Status
	}{
		{r.eec, ci.InvalidHandle}, {r.rdd, ci.InvalidHandle}, {r.mc, ci.InvalidMcastHandle}, {r.qp, ci.InvalidQPHandle},
		{r.srq, ci.InvalidSRQHandle}, {r.cq, ci.InvalidCQHandle}, {r.fmr, ci.InvalidFMRHandle}, {r.av,
			ci.InvalidAVHandle},
		{r.mw, ci.InvalidMWHandle}, {r.mr, ci.InvalidMRHandle}, {r.dma, ci.InvalidHandle}, {r.pd, ci.InvalidPDHandle},
		{r.ca, ci.InvalidCAHandle},
	} {
		require.NoError(t, x.o.Destroy(), "%T", x.o)
		for what, err := range map[string]error{
			"second Destroy": x.o.Destroy(),
			"DestroyAsync":   x.o.DestroyAsync(func(error) { t.Error("onDone of a second destroy") }),
		} {
			assert.ErrorIs(t, err, accesslayer.ErrClosed, "%T: %s", x.o, what)
			assert.Equal(t, x.invalid, ci.StatusOf(err), "%T: %s", x.o, what)
		}
	}
	assert.Empty(t, r.h.liveObjects())
}

// Destroying a CQ destroys its QPs, also those of another PD. Destroying an SRQ, an RDD or the source of a shared
// region fails while it is in use.
func TestUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := must(r.ca.NewPD(ci.PDNormal))
	far := must(other.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, nil))
	shared := must(other.NewSMR(r.mr, 0, 0))
	assert.ErrorIs(t, r.srq.Destroy(), ci.ResourceBusy)
	assert.ErrorIs(t, r.srq.DestroyAsync(nil), ci.ResourceBusy)
	assert.ErrorIs(t, r.mr.Destroy(), ci.ResourceBusy)
	require.NoError(t, r.cq.Destroy())
	assert.ErrorIs(t, far.Destroy(), ci.InvalidQPHandle)
	assert.ErrorIs(t, r.qp.Destroy(), ci.InvalidQPHandle)
	assert.ErrorIs(t, r.mc.Destroy(), ci.InvalidMcastHandle)
	assert.NoError(t, r.srq.Destroy(), "nothing uses it any more")
	require.NoError(t, shared.Destroy())
	assert.NoError(t, r.mr.Destroy())
	assert.NotContains(t, strings.Join(r.h.liveObjects(), " "), "QP")
	// Destroying a parent does not fail: the source is destroyed after the shared region of another PD.
	src := must(r.pd.NewMR(ci.MRCreate{}))
	must(other.NewSMR(src, 0, 0))
	require.NoError(t, r.pd.Destroy())
	require.NoError(t, other.Destroy())
}

// An object can be destroyed from its own event callback, before its create has returned. The driver's destroy runs
// later, once, on another goroutine.
func TestDestroyFromCallbacks(t *testing.T) {
	t.Parallel()
	t.Run("event", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		done := make(chan struct{})
		var after atomic.Bool
		must(r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, func(qp *accesslayer.QP, _ ci.Event) {
			assert.NoError(t,
				qp.DestroyAsync(func(err error) { assert.NoError(t, err); assert.True(t, after.Load()); close(done) }))
			assert.ErrorIs(t, qp.DestroyAsync(nil), ci.InvalidQPHandle)
			after.Store(true) // the driver's destroy cannot have run while this callback is in progress
		}))
		fireAll(r.h, "QP", ci.EventQPFatal)
		wait(t, done, "the destroy callback")
	})
	t.Run("completion", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		done := make(chan struct{})
		cq := must(r.pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{OnCompletion: func(cq *accesslayer.CQ) {
			assert.NoError(t, cq.DestroyAsync(func(error) { close(done) }))
		}}))
		require.NoError(t, cq.Notify(ci.NotifyNext))
		drv, _ := ci.As[*fakeCQ](cq)
		drv.complete(ci.WC{ID: 1})
		wait(t, done, "the destroy callback")
	})
	t.Run("before create returned", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.h.onCreate = func(o any) {
			if q, ok := o.(*fakeQP); ok {
				q.fire(ci.EventQPComm, 0)
			}
		}
		done := make(chan struct{})
		qp := must(r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, func(qp *accesslayer.QP, e ci.Event) {
			assert.Equal(t, ci.EventQPComm, e.Type)
			_, err := qp.PostSend(make([]ci.SendWR, 1)) // the object is complete
			assert.NoError(t, err)
			assert.NoError(t, qp.DestroyAsync(func(error) { close(done) }))
		}))
		wait(t, done, "the destroy callback")
		assert.ErrorIs(t, qp.Destroy(), ci.InvalidQPHandle)
	})
	t.Run("completion before create returned", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		got := make(chan struct{}, 1)
		r.h.onCreate = func(o any) {
			if q, ok := o.(*fakeCQ); ok {
				q.armed = true
				q.complete(ci.WC{ID: 5})
			}
		}
		must(r.pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{OnCompletion: func(cq *accesslayer.CQ) {
			wc := make([]ci.WC, 2)
			n, err := cq.Poll(wc)
			assert.NoError(t, err)
			assert.Equal(t, 1, n)
			got <- struct{}{}
		}}))
		wait(t, got, "the completion")
	})
}

// The destroy callback is the last one. Events that were queued before it are delivered in order, and later ones are
// dropped.
func TestEventsInOrderAndLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 1000
	var got []uint64
	ended := make(chan struct{})
	qp := must(r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, Context: "mine"},
		func(_ *accesslayer.QP, e ci.Event) {
			assert.Equal(t, "mine", e.Context)
			got = append(got, e.Vendor)
		}))
	drv, _ := ci.As[*fakeQP](qp)
	for i := range uint64(n) {
		require.True(t, drv.call(func() { drv.onEvent(ci.Event{Type: ci.EventQPComm, Context: "mine", Vendor: i}) }))
	}
	require.NoError(t, qp.DestroyAsync(func(error) { close(ended) }))
	drv.call(func() {
		drv.onEvent(ci.Event{Type: ci.EventQPFatal, Context: "mine",
			Vendor: n})
	}) // after the destruction began
	wait(t, ended, "the destroy callback")
	require.Len(t, got, n)
	assert.True(t, slices.IsSorted(got))
}

// A verb in progress delays the driver's destroy.
func TestDestroyWaitsForVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	drv, _ := ci.As[*fakeQP](r.qp)
	drv.gate = make(chan struct{})
	in := make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		close(entered)
		in <- r.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPInit})
	}()
	<-entered
	drv.gate <- struct{}{} // Modify is or was inside the driver
	require.NoError(t, <-in)
	go func() { in <- r.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPInit}) }()
	done := make(chan struct{})
	require.NoError(t, r.qp.DestroyAsync(func(error) { close(done) }))
	close(drv.gate)
	if err := <-in; err != nil {
		assert.ErrorIs(t, err, accesslayer.ErrClosed)
	}
	wait(t, done, "the destroy")
	assert.ErrorIs(t, r.qp.Modify(0, ci.QPAttr{}), ci.InvalidQPHandle)
}

// A destroy that the driver refuses is repeated. After the last attempt the error is reported, and the rest of the tree
// is destroyed.
func TestDriverRefusesDestroy(t *testing.T) {
	t.Parallel()
	busy := &ci.Error{Verb: "QP.Destroy", Status: ci.ResourceBusy}
	t.Run("for a while", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.h.plan("destroy QP", busy, busy, busy)
		assert.NoError(t, r.qp.Destroy())
		assert.NotContains(t, strings.Join(r.h.liveObjects(), " "), "QP")
	})
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		lost := make(chan error, 1)
		r := newRig(t,
			func(c *accesslayer.Config) { c.DestroyRetries = 1; c.OnDestroyError = func(err error) { lost <- err } })
		r.h.plan("destroy QP", busy, busy)
		var result error
		done := make(chan struct{})
		require.NoError(t, r.qp.DestroyAsync(func(err error) { result = err; close(done) }))
		wait(t, done, "the destroy callback")
		assert.ErrorIs(t, result, ci.ResourceBusy)
		assert.ErrorIs(t, <-lost, ci.ResourceBusy)
		again := r.qp.Destroy()
		assert.ErrorIs(t, again, ci.InvalidQPHandle)
		assert.NotErrorIs(t, again, ci.ResourceBusy, "the QP is not usable")
		assert.ErrorContains(t, again, "given up: QP.Destroy: resource busy")
		// The driver still has the object. It is destroyed here, so that the rest can be.
		drv, _ := ci.As[*fakeQP](r.qp)
		require.NoError(t, drv.Destroy())
	})
	t.Run("already destroyed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		drv, _ := ci.As[*fakeQP](r.qp)
		require.NoError(t, r.mc.Destroy())
		require.NoError(t, drv.fakeObj.Destroy())
		r.h.plan("destroy QP", &ci.Error{Verb: "QP.Destroy", Status: ci.InvalidQPHandle}, ci.UnknownError)
		assert.ErrorIs(t, r.qp.Destroy(), ci.InvalidQPHandle)
		r.h.mu.Lock()
		assert.Len(t, r.h.fail["destroy QP"], 1, "a destroyed object is not destroyed again")
		r.h.mu.Unlock()
	})
}

// A busy region stays usable, unless its parent is being destroyed.
func TestBusyRegionStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	drv, _ := ci.As[*fakeMR](r.mr)
	bind := func(b bool) { r.h.mu.Lock(); drv.bound = b; r.h.mu.Unlock() }
	bind(true)
	require.ErrorIs(t, r.mr.Destroy(), ci.ResourceBusy)
	attr, err := r.mr.Query()
	require.NoError(t, err)
	assert.Same(t, r.pd.CI(), attr.PD)
	require.ErrorIs(t, r.mr.Destroy(), ci.ResourceBusy, "Destroy may be called again")
	bind(false)
	require.NoError(t, r.mr.Destroy())

	drv, _ = ci.As[*fakeMR](must(r.pd.NewMR(ci.MRCreate{})))
	bind(true)
	done := make(chan struct{})
	require.NoError(t, r.pd.DestroyAsync(func(error) { close(done) }))
	bind(false)
	wait(t, done, "the PD's end, by retries")
}

// A region that moves to another PD is destroyed with that PD.
func TestRegionMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := must(r.ca.NewPD(ci.PDNormal))
	require.NoError(t, r.mr.Modify(ci.MRFieldPD, other.CI(), ci.MRCreate{}))
	assert.Same(t, other, r.mr.PD())
	require.NoError(t, r.pd.Destroy())
	_, err := r.mr.Query()
	require.NoError(t, err)
	assert.ErrorIs(t, r.mr.Modify(ci.MRFieldPD, r.pd.CI(), ci.MRCreate{}), ci.InvalidPDHandle)
	r.h.plan("destroy MR",
		&ci.Error{Verb: "MR.Destroy", Status: ci.Timeout}) // the PD waits for it, however long it takes
	require.NoError(t, other.Destroy())
	_, err = r.mr.Query()
	assert.ErrorIs(t, err, ci.InvalidMRHandle)
}

// Objects of another access layer or HCA, and objects of the driver, are rejected with the status of their kind.
func TestStrangers(t *testing.T) {
	t.Parallel()
	r, far := newRig(t), newRig(t)
	bare, _ := ci.As[*fakeCQ](r.cq)
	for name, tt := range map[string]struct {
		c    ci.QPCreate
		want ci.Status
	}{
		"send CQ of another AL": {ci.QPCreate{SendCQ: far.cq, RecvCQ: r.cq}, ci.InvalidCQHandle},
		"receive CQ bare":       {ci.QPCreate{SendCQ: r.cq, RecvCQ: bare}, ci.InvalidCQHandle},
		"SRQ of another AL":     {ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, SRQ: far.srq}, ci.InvalidSRQHandle},
		"RDD of another AL":     {ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, RDD: far.rdd.CI()}, ci.InvalidHandle},
		"no CQ":                 {ci.QPCreate{SendCQ: r.cq}, ci.InvalidCQHandle},
	} {
		_, err := r.pd.NewQP(tt.c, nil)
		assert.ErrorIs(t, err, tt.want, name)
	}
	_, err := r.pd.NewSMR(far.mr, 0, 0)
	assert.ErrorIs(t, err, ci.InvalidMRHandle)
	assert.ErrorIs(t, r.mr.Modify(ci.MRFieldPD, far.pd.CI(), ci.MRCreate{}), ci.InvalidPDHandle)
	require.NoError(t, r.cq.Destroy())
	_, err = r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, nil)
	assert.ErrorIs(t, err, ci.InvalidCQHandle)
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	_, err = r.ca.NewPD(ci.PDAlias)
	assert.ErrorIs(t, err, ci.InvalidParameter)
}

// Query returns the client's objects and not the driver's.
func TestQueriesNameTheClientsObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	qa, err := r.qp.Query()
	require.NoError(t, err)
	assert.Same(t, r.pd.CI(), qa.PD)
	assert.Same(t, r.cq, qa.SendCQ)
	assert.Same(t, r.cq, qa.RecvCQ)
	assert.Same(t, r.srq, qa.SRQ)
	_, pd, err := r.av.Query()
	require.NoError(t, err)
	assert.Same(t, r.pd.CI(), pd)
	ma, err := r.mw.Query()
	require.NoError(t, err)
	assert.Same(t, r.pd.CI(), ma.PD)
	drv, ok := ci.As[*fakeQP](r.qp)
	assert.True(t, ok)
	assert.True(t, ci.Same(drv, r.qp))
}

// A create that fails leaves nothing. A create whose parent is destroyed meanwhile is undone.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for kind, create := range map[string]func() error{
		"PD": func() error { _, err := r.ca.NewPD(ci.PDNormal); return err },
		"CQ": func() error { _, err := r.pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}); return err },
		"QP": func() error { _, err := r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, nil); return err },
		"SRQ": func() error {
			_, err := r.pd.CI().CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}})
			return err
		},
		"MR":    func() error { _, err := r.pd.CI().RegisterMR(ci.MRCreate{}); return err },
		"MW":    func() error { _, err := r.pd.CI().CreateMW(ci.MWCreate{Type: 1}); return err },
		"AV":    func() error { _, err := r.pd.CI().CreateAV(ci.AVAttr{}); return err },
		"FMR":   func() error { _, err := r.pd.CI().AllocFMR(ci.FMRCreate{}); return err },
		"RDD":   func() error { _, err := r.pd.CI().AllocRDD(); return err },
		"EEC":   func() error { _, err := r.rdd.CI().CreateEEC(ci.EECCreate{}); return err },
		"DMA":   func() error { _, err := r.ca.CI().MapDMA(nil); return err },
		"Mcast": func() error { _, err := r.qp.AttachMcast(ci.McastAttach{GID: ci.GID{}, LID: 0}); return err },
	} {
		before := r.h.liveObjects()
		r.h.plan("create "+kind, &ci.Error{Verb: kind, Status: ci.InsufficientResources})
		assert.ErrorIs(t, create(), ci.InsufficientResources, kind)
		assert.Equal(t, before, r.h.liveObjects())
	}
	r.h.onEarly = func(q *fakeQP) {
		q.create.OnEvent(ci.Event{Type: ci.EventQPComm})
		r.h.plan("create QP", &ci.Error{Verb: "QP", Status: ci.InsufficientResources})
	}
	_, err := r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq},
		func(*accesslayer.QP, ci.Event) { t.Error("an event of a QP that was not made") })
	assert.ErrorIs(t, err, ci.InsufficientResources)
	r.h.onEarly = nil
	for name, c := range map[string]struct {
		a    ci.SRQAttr
		want ci.Status
	}{"no WRs": {ci.SRQAttr{MaxSGE: 1}, ci.InvalidMaxWRs}, "too many": {ci.SRQAttr{MaxWR: 129, MaxSGE: 1},
		ci.InvalidMaxWRs}, "no SGE": {ci.SRQAttr{MaxWR: 1}, ci.InvalidMaxSGE}} {
		_, err := r.pd.NewSRQ(ci.SRQCreate{SRQAttr: c.a}, nil)
		assert.ErrorIs(t, err, c.want, name)
	}
	r.h.onCreate = func(o any) {
		if _, ok := o.(*fakeQP); ok {
			assert.NoError(t, r.pd.DestroyAsync(nil))
		}
	}
	_, err = r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, nil)
	assert.ErrorIs(t, err, ci.InvalidState)
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	require.ErrorIs(t, r.pd.Destroy(), accesslayer.ErrClosed, "it waits for the end of DestroyAsync")
	require.NoError(t, r.dma.Destroy())
	assert.Empty(t, r.h.liveObjects())
}

func TestTimeWait(t *testing.T) {
	t.Parallel()
	now := clock.NewVirtual(time.Hour)
	r := newRig(t, func(c *accesslayer.Config) { c.Clock = now })
	r.qp.TimeWait(time.Minute)
	for state, want := range map[ci.QPState]error{ci.QPRTR: ci.QPInTimewait, ci.QPRTS: ci.QPInTimewait,
		ci.QPSQD: ci.QPInTimewait, ci.QPReset: nil, ci.QPInit: nil, ci.QPError: nil} {
		assert.ErrorIs(t, r.qp.Modify(ci.QPFieldState, ci.QPAttr{State: state}), want, state.String())
	}
	assert.NoError(t, r.qp.Modify(ci.QPFieldAccess, ci.QPAttr{}))
	now.Advance(time.Minute)
	assert.NoError(t, r.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTR}))
	r.qp.TimeWait(time.Minute)
	now.Advance(time.Second)
	drv, _ := ci.As[*fakeQP](r.qp)
	require.NoError(t, r.qp.Destroy())
	assert.Equal(t, []time.Duration{59 * time.Second}, drv.wait, "the rest of the time is passed to the driver "+
		"before its destroy")
}

// Destroying the context of a process destroys all of its objects, and no others.
func TestUserCA(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u := must(r.ca.NewUser(nil, nil))
	before := len(r.h.liveObjects())
	pd := must(u.NewPD(ci.PDNormal, nil))
	cq := must(pd.CI().CreateCQ(ci.CQCreate{Size: 1}))
	must(pd.CI().CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}))
	require.NoError(t, u.Destroy())
	require.ErrorIs(t, u.Destroy(), accesslayer.ErrClosed)
	assert.Len(t, r.h.liveObjects(), before-1)
	_, err := pd.NewMR(ci.MRCreate{})
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
}

// Posting through the access layer does not allocate.
func TestDataPathAllocatesNothing(t *testing.T) {
	r := newRig(t)
	wrs, rrs, wc := make([]ci.SendWR, 4), make([]ci.RecvWR, 4), make([]ci.WC, 4)
	drv, _ := ci.As[*fakeCQ](r.cq)
	one := make([]ci.WC, 1)
	var qp ci.QP = r.qp
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = qp.PostSend(wrs)
		_, _ = r.qp.PostRecv(rrs)
		_, _ = r.srq.PostRecv(rrs)
		drv.complete(one...)
		_, _ = r.cq.Poll(wc)
		_ = r.cq.Notify(ci.NotifyNext)
	}))
}
