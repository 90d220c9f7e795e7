package accesslayer_test

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/cimock"
	"ciddk/ci/ciwrap/faults"
	"ciddk/internal/testenv"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// newAL returns an access layer without polling, which is closed at the end of the test.
func newAL(t *testing.T, change ...func(*accesslayer.Config)) *accesslayer.AL {
	cfg := accesslayer.Config{Logger: quiet, PollInterval: -1, DestroyBackoff: time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	al := accesslayer.New(cfg)
	t.Cleanup(func() { assert.NoError(t, al.Close()) })
	return al
}

// setup registers a fake HCA and opens it.
func setup(t *testing.T, change ...func(*accesslayer.Config)) (*fakeHCA, *accesslayer.AL, *accesslayer.Client,
	*accesslayer.CA) {
	h := newFake(2)
	al := newAL(t, change...)
	require.NoError(t, al.Register(h))
	c, err := al.Open(accesslayer.ClientConfig{Name: t.Name()})
	require.NoError(t, err)
	ca, err := c.OpenCA(fakeGUID, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.Empty(t, h.violationList()) })
	return h, al, c, ca
}

// wait fails the test if nothing arrives on ch in time.
func wait(t require.TestingT, ch <-chan struct{}, what string) {
	select {
	case <-ch:
	case <-time.After(testenv.Patience):
		require.Fail(t, "timeout", what)
	}
}

// The order of verbs within Register and Deregister, on a port that has an SM.
func TestCallOrder(t *testing.T) {
	t.Parallel()
	ctrl := gomock.NewController(t)
	h, ca := cimock.NewMockHCA(ctrl), cimock.NewMockCA(ctrl)
	pd, qp := cimock.NewMockPD(ctrl), cimock.NewMockQP(ctrl)
	cq := cimock.NewMockCQ(ctrl)
	attr := func(c ci.PortCap) *ci.CAAttr {
		return &ci.CAAttr{GUID: 7, Ports: []ci.PortAttr{{Num: 1, Capability: c}, {Num: 2, Link: ci.LinkEthernet}}}
	}
	h.EXPECT().Info().Return(ci.HCAInfo{GUID: 7, Version: ci.InterfaceVersion}).AnyTimes()
	var callbacks []string
	gomock.InOrder(
		h.EXPECT().OpenCA(ci.GUID(7), gomock.Not(gomock.Nil()), gomock.Any()).Return(ca, nil),
		ca.EXPECT().Query().Return(attr(0), nil),
		ca.EXPECT().Modify(uint8(1), ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapReregister,
			Capability: ci.PortCapReregister}).Return(nil),
		ca.EXPECT().Query().Return(attr(ci.PortCapReregister), nil),

		ca.EXPECT().AllocatePD(ci.PDNormal).Return(pd, nil),
		pd.EXPECT().CreateCQ(gomock.Any()).Return(cq, nil),
		pd.EXPECT().CreateQP(gomock.Any()).Return(qp, nil),

		qp.EXPECT().Destroy().DoAndReturn(func() error {
			assert.Equal(t, []string{"add", "remove"}, callbacks, "clients are notified of the removal before "+
				"anything is destroyed")
			return nil
		}),
		cq.EXPECT().Destroy().Return(nil),
		pd.EXPECT().Destroy().Return(nil),
		ca.EXPECT().Destroy().Return(nil),
	)
	al := newAL(t)
	require.NoError(t, al.Register(h))
	assert.Equal(t, ci.PortCapReregister, must(al.Adapter(7)).Attr().Ports[0].Capability)
	c := must(al.Open(accesslayer.ClientConfig{}))
	must(c.RegisterPnP(accesslayer.PnPConfig{
		Add: func(a *accesslayer.Adapter) (any, error) {
			callbacks = append(callbacks, "add")
			p := must(must(c.OpenCA(a.GUID(), nil)).NewPD(ci.PDNormal))
			q := must(p.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}))
			must(p.NewQP(ci.QPCreate{SendCQ: q, RecvCQ: q}, nil))
			return nil, nil
		},
		Remove: func(*accesslayer.Adapter, any) { callbacks = append(callbacks, "remove") },
		Sync:   true,
	}))
	require.NoError(t, al.Deregister(7))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	require.ErrorIs(t, al.Register(nil), ci.InvalidParameter)
	present := newFake(1)
	require.NoError(t, al.Register(present))
	broken := errors.New("firmware failure")
	tests := map[string]struct {
		change func(*fakeHCA)
		want   error
		opened bool
	}{
		"no GUID": {func(h *fakeHCA) { h.setGUID(0) }, ci.InvalidParameter, false},
		"older major version": {func(h *fakeHCA) { h.info.Version = ci.InterfaceVersion - 1<<16 },
			ci.Unsupported, false},
		"newer major version": {func(h *fakeHCA) { h.info.Version = ci.InterfaceVersion + 1<<16 },
			ci.Unsupported, false},
		"duplicate":           {func(h *fakeHCA) { h.setGUID(fakeGUID) }, ci.ResourceBusy, false},
		"open fails":          {func(h *fakeHCA) { h.plan("HCA.OpenCA", broken) }, broken, false},
		"query fails":         {func(h *fakeHCA) { h.plan("CA.Query", broken) }, broken, true},
		"another GUID inside": {func(h *fakeHCA) { h.attr.GUID++ }, ci.InvalidParameter, true},
		"no ports":            {func(h *fakeHCA) { h.attr.Ports = nil }, ci.InvalidParameter, true},
		"ports misnumbered":   {func(h *fakeHCA) { h.attr.Ports[0].Num = 2 }, ci.InvalidParameter, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFake(1)
			h.setGUID(0x42)
			tt.change(h)
			require.ErrorIs(t, al.Register(h), tt.want)
			assert.Len(t, al.Adapters(), 1)
			assert.Empty(t, h.violationList())
			assert.Equal(t, tt.opened, h.opens == 1)
			assert.Equal(t, tt.opened, h.closed, "an HCA that was opened is closed again")
			if h.info.GUID == 0x42 { // nothing is left, so the same GUID can be registered again
				h := newFake(1)
				h.setGUID(0x42)
				require.NoError(t, al.Register(h))
				require.NoError(t, al.Deregister(0x42))
			}
		})
	}
	minor := newFake(1)
	minor.setGUID(0x43)
	minor.info.Version++
	assert.NoError(t, al.Register(minor), "minor versions do not matter")
}

func TestDeregisterUnknown(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	assert.ErrorIs(t, al.Deregister(1), ci.NotFound)
	require.NoError(t, al.Register(newFake(1)))
	require.NoError(t, al.Deregister(fakeGUID))
	assert.ErrorIs(t, al.Deregister(fakeGUID), ci.NotFound)
	assert.NoError(t, al.Register(newFake(1)), "an HCA may be registered again")
}

// A registration that fails leaves the access layer unchanged, whichever verb fails.
func TestRegisterWithFaults(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"HCA.OpenCA", "CA.Query"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			inj := faults.New(1)
			inj.MustAdd(faults.Rule{Verb: verb, Status: ci.Timeout, Count: 1})
			h := newFake(1)
			al := newAL(t)
			require.ErrorIs(t, al.Register(inj.Wrap(h)), ci.Timeout)
			require.Empty(t, al.Adapters())
			require.NoError(t, al.Register(inj.Wrap(h)))
		})
	}
	t.Run("CA.Modify", func(t *testing.T) {
		t.Parallel()
		inj := faults.New(1)
		inj.MustAdd(faults.Rule{Verb: "CA.Modify", Status: ci.Unsupported})
		h := newFake(1)
		h.attr.Ports[0].Link = ci.LinkInfiniBand
		al := newAL(t)
		require.NoError(t, al.Register(inj.Wrap(h)), "a port without client reregistration is usable")
	})
}

// Events that arrive during OpenCA are delivered when the adapter is registered.
func TestEventDuringRegister(t *testing.T) {
	t.Parallel()
	h := newFake(1)
	early := &earlyHCA{fakeHCA: h}
	al := newAL(t)
	c := must(al.Open(accesslayer.ClientConfig{}))
	got := make(chan accesslayer.PortEvent, 16)
	must(c.RegisterPnP(accesslayer.PnPConfig{Port: func(_ *accesslayer.Adapter, _ any,
		e accesslayer.PortEvent) {
		got <- e
	}}))
	require.NoError(t, al.Register(early))
	var types []accesslayer.PortEventType
	for range 3 {
		types = append(types, (<-got).Type)
	}
	assert.Equal(t, []accesslayer.PortEventType{accesslayer.PortAdd, accesslayer.PortDown, accesslayer.PortReregister},
		types)
}

type earlyHCA struct{ *fakeHCA }

func (h *earlyHCA) OpenCA(g ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	fn(ci.Event{Type: ci.EventReregister, Port: 1, Context: arg})
	return h.fakeHCA.OpenCA(g, fn, arg)
}

// Many opens share one open of the driver, and destroying them does not close it.
func TestOneDriverOpen(t *testing.T) {
	t.Parallel()
	h, al, c, ca := setup(t)
	d := must(al.Open(accesslayer.ClientConfig{}))
	cas := []*accesslayer.CA{ca}
	for range 10 {
		cas = append(cas, must(c.OpenCA(fakeGUID, nil)), must(d.OpenCA(fakeGUID, nil)))
	}
	for _, ca := range cas {
		require.NoError(t, ca.Destroy())
	}
	assert.Equal(t, 1, h.opens)
	assert.False(t, h.closed)
	_, err := c.OpenCA(99, nil)
	assert.ErrorIs(t, err, ci.NotFound)
	_, err = c.OpenCA(0, nil)
	assert.ErrorIs(t, err, ci.NotFound)
}

// The HCA is removed while a full tree exists and events and verbs of many goroutines are in progress. The driver sees
// one orderly destruction.
func TestHotRemovalUnderTraffic(t *testing.T) {
	t.Parallel()
	h, al, c, _ := setup(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	started := make(chan struct{}, 8)
	for range 4 {
		pd, err := must(c.OpenCA(fakeGUID, func(*accesslayer.CA, ci.Event) {})).NewPD(ci.PDNormal)
		require.NoError(t, err)
		wg.Go(func() {
			var err error
			for err == nil {
				var cq *accesslayer.CQ
				if cq, err = pd.NewCQ(ci.CQCreate{Size: 16}, accesslayer.CQHandler{}); err != nil {
					break
				}
				_, err = pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq},
					func(qp *accesslayer.QP, _ ci.Event) { _ = qp.DestroyAsync(nil) })
				if err == nil {
					_, err = pd.NewMR(ci.MRCreate{Length: 1})
				}
				select {
				case started <- struct{}{}:
				default:
				}
			}
			assert.ErrorIs(t, err, accesslayer.ErrClosed)
		})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h.mu.Lock()
				var target *fakeObj
				for o := range h.live {
					target = o
					break
				}
				open := h.open
				h.mu.Unlock()
				if target != nil {
					target.fire(ci.EventQPFatal, 0)
				}
				if open != nil {
					open.fire(ci.EventPortActive, 1)
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	require.NoError(t, al.Deregister(fakeGUID))
	close(stop)
	wg.Wait()
	assert.Empty(t, h.liveObjects())
	assert.Equal(t, "close", h.traced()[len(h.traced())-1], "close is the last verb")
	_, err := c.OpenCA(fakeGUID, nil)
	assert.ErrorIs(t, err, ci.NotFound)
}

// All objects exist while clients are being notified.
func TestClientsAreToldFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newFake(1)
		al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1})
		require.NoError(t, al.Register(h))
		c := must(al.Open(accesslayer.ClientConfig{}))
		pd := must(must(c.OpenCA(fakeGUID, nil)).NewPD(ci.PDNormal))
		must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Remove: func(*accesslayer.Adapter, any) {
			synctest.Wait() // everything that can proceed has proceeded
			assert.NotEmpty(t, h.liveObjects())
			_, err := pd.NewMR(ci.MRCreate{})
			assert.NoError(t, err, "a client can still work, to end in good order")
			_, err = c.OpenCA(fakeGUID, nil)
			assert.ErrorIs(t, err, ci.InvalidState, "no client can open it any more")
		}}))
		require.NoError(t, al.Deregister(fakeGUID))
		assert.Empty(t, h.liveObjects())
		require.NoError(t, al.Close())
	})
}

// A driver that refuses to close stays registered. Deregister returns its error, and may be called again.
func TestDeregisterStuck(t *testing.T) {
	t.Parallel()
	var lost []error
	h, al, _, _ := setup(t, func(c *accesslayer.Config) {
		c.DestroyRetries = 2
		c.OnDestroyError = func(err error) { lost = append(lost, err) }
	})
	busy := &ci.Error{Verb: "CA.Destroy", Status: ci.ResourceBusy}
	h.plan("CA.Destroy", busy, busy, busy)
	assert.ErrorIs(t, al.Deregister(fakeGUID), ci.ResourceBusy)
	require.Len(t, lost, 1)
	assert.ErrorIs(t, lost[0], ci.ResourceBusy)
	assert.False(t, h.closed)
	assert.ErrorIs(t, al.Register(newFake(1)), ci.ResourceBusy, "the GUID is in use until the HCA is removed")
	assert.NoError(t, al.Deregister(fakeGUID))
	assert.True(t, h.closed)
}

// A client that does not return from its callback delays the removal, and Deregister reports it.
func TestDeregisterTimeout(t *testing.T) {
	t.Parallel()
	h, al, _, ca := setup(t, func(c *accesslayer.Config) { c.DrainTimeout = 50 * time.Millisecond })
	pd := must(ca.NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}))
	in, hold := make(chan struct{}), make(chan struct{})
	must(pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, func(*accesslayer.QP, ci.Event) { close(in); <-hold }))
	fireAll(h, "QP", ci.EventQPFatal)
	wait(t, in, "the event")
	err := al.Deregister(fakeGUID)
	require.ErrorIs(t, err, ci.Timeout)
	assert.ErrorContains(t, err, "1 QP")
	close(hold)
	require.Eventually(t, func() bool { return al.Deregister(fakeGUID) != nil && len(h.liveObjects()) == 0 },
		10*time.Second, time.Millisecond)
}

func fireAll(h *fakeHCA, kind string, e ci.EventType) (n int) {
	h.mu.Lock()
	var targets []*fakeObj
	for o := range h.live {
		if o.kind == kind {
			targets = append(targets, o)
		}
	}
	h.mu.Unlock()
	for _, o := range targets {
		if o.fire(e, 0) {
			n++
		}
	}
	return n
}

func TestConcurrentRegistrations(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	c := must(al.Open(accesslayer.ClientConfig{}))
	adds, removes := map[ci.GUID]int{}, map[ci.GUID]int{}
	must(c.RegisterPnP(accesslayer.PnPConfig{
		Add:    func(a *accesslayer.Adapter) (any, error) { adds[a.GUID()]++; return a.GUID(), nil },
		Remove: func(a *accesslayer.Adapter, data any) { assert.Equal(t, a.GUID(), data); removes[a.GUID()]++ },
	}))
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				h := newFake(1)
				h.setGUID(ci.GUID(1 + i%3))
				err := al.Register(h)
				if err != nil {
					assert.ErrorIs(t, err, ci.ResourceBusy)
					continue
				}
				if err := al.Deregister(h.info.GUID); err != nil {
					assert.ErrorIs(t, err, ci.NotFound)
				} else {
					mu.Lock()
					done++
					mu.Unlock()
				}
				assert.Empty(t, h.violationList())
			}
		})
	}
	wg.Wait()
	require.NoError(t, al.WaitPnP(t.Context()))
	assert.Positive(t, done)
	assert.Equal(t, adds, removes)
}

func TestClosedAccessLayer(t *testing.T) {
	t.Parallel()
	h, al, c, ca := setup(t)
	pd := must(ca.NewPD(ci.PDNormal))
	require.NoError(t, al.Close())
	require.NoError(t, al.Close(), "Close is idempotent")
	assert.True(t, h.closed)
	assert.ErrorIs(t, al.Register(newFake(1)), accesslayer.ErrClosed)
	_, err := al.Open(accesslayer.ClientConfig{})
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	_, err = c.OpenCA(fakeGUID, nil)
	assert.Error(t, err)
	_, err = pd.NewMR(ci.MRCreate{})
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	assert.ErrorIs(t, err, ci.InvalidState)
	_, err = ca.Query()
	assert.ErrorIs(t, err, ci.InvalidCAHandle)
	assert.NoError(t, c.Close())
	assert.ErrorIs(t, pd.Destroy(), ci.InvalidPDHandle)
	assert.ErrorIs(t, pd.Destroy(), accesslayer.ErrClosed)
}
