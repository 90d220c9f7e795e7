package mlx4_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config has no delay after a reset.
var config = mlx4.Config{Firmware: fw.Config{ResetDelay: time.Nanosecond}}

// newModel returns a model with a port of a link.
func newModel(t testing.TB, l *direct.Link) *model.Model {
	p, err := direct.New(l, direct.Config{})
	require.NoError(t, err)
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: p}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// registrar is a ci.Registrar. Deregister closes the CA, as an access layer does.
type registrar struct {
	mu     sync.Mutex
	cas    map[ci.GUID]ci.CA
	events chan ci.Event
	fail   error
}

func newRegistrar() *registrar {
	return &registrar{cas: map[ci.GUID]ci.CA{}, events: make(chan ci.Event, 64)}
}

func (r *registrar) setError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *registrar) Register(h ci.HCA) error {
	r.mu.Lock()
	err := r.fail
	r.mu.Unlock()
	if err != nil {
		return err
	}
	guid := h.Info().GUID
	c, err := h.OpenCA(guid, func(e ci.Event) { r.events <- e }, nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cas[guid] = c
	return nil
}

func (r *registrar) Deregister(g ci.GUID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cas[g]
	if c == nil {
		return ci.NotFound
	}
	delete(r.cas, g)
	return c.Destroy()
}

// ca returns the CA of an adapter that is registered.
func (r *registrar) ca(g ci.GUID) ci.CA {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cas[g]
}

// wait returns when an event of the type has come.
func (r *registrar) wait(t *testing.T, want ci.EventType) {
	t.Helper()
	deadline := time.After(testenv.Patience)
	for {
		select {
		case e := <-r.events:
			if e.Type == want {
				return
			}
		case <-deadline:
			require.Failf(t, "no event", "%v", want)
		}
	}
}

// TestBus starts adapters of both kinds through a bus, and removes them.
func TestBus(t *testing.T) {
	r := newRegistrar()
	var b bus.Bus
	require.NoError(t, b.Register(mlx4.Driver(r, config)))
	l := new(direct.Link)
	f := local.New(newModel(t, l), "model 0")
	i, err := b.Add(t.Context(), f)
	require.NoError(t, err)
	h := mlx4.InstanceHCA(i)
	require.Len(t, r.cas, 1)
	assert.Equal(t, h.Info().Version, uint32(ci.InterfaceVersion))
	_, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.NoError(t, b.Remove(f))
	r.wait(t, ci.EventResetForRemove)
	require.Empty(t, r.cas)
	_, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.ErrorIs(t, err, ci.InvalidState, "closed")
	require.NoError(t, h.Close(), "idempotent")
	assert.Nil(t, mlx4.InstanceHCA(nil))
	require.NoError(t, b.Close())
}

// TestRejected checks that an adapter that nobody registers is released.
func TestRejected(t *testing.T) {
	r := newRegistrar()
	_, err := mlx4.Driver(nil, config).Probe(t.Context(), local.New(newModel(t, new(direct.Link)), "no access layer"))
	require.ErrorContains(t, err, "nil ci.Registrar")
	r.fail = ci.InsufficientResources
	var b bus.Bus
	require.NoError(t, b.Register(mlx4.Driver(r, config)))
	m := newModel(t, new(direct.Link))
	_, err = b.Add(t.Context(), local.New(m, "model 0"))
	require.ErrorIs(t, err, ci.InsufficientResources)
	r.fail = nil
	_, err = b.Add(t.Context(), local.New(m, "model 0"))
	require.NoError(t, err, "the next attempt finds it free")
	require.NoError(t, b.Close())
}

// TestUnplug unplugs an adapter that has objects of all kinds. Its consumer is told, its verbs fail in time, and all
// objects are released.
func TestUnplug(t *testing.T) {
	f := local.New(newModel(t, new(direct.Link)), "model 0")
	h, err := mlx4.New(t.Context(), f, config)
	require.NoError(t, err)
	events := make(chan ci.Event, 64)
	c, err := h.OpenCA(h.Info().GUID, func(e ci.Event) { events <- e }, "ctx")
	require.NoError(t, err)
	pd, err := c.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 10})
	require.NoError(t, err)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 5000))})
	require.NoError(t, err)
	srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 5, MaxSGE: 1}})
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq,
		QPCaps: ci.QPCaps{SendDepth: 4, SendSGE: 1}})
	require.NoError(t, err)
	require.NoError(t, qp.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
	f.Unplug()
	for deadline := time.After(testenv.Patience); ; {
		var e ci.Event
		select {
		case e = <-events:
		case <-deadline:
			require.Fail(t, "no event")
		}
		if e.Type == ci.EventLocalFatal {
			assert.Equal(t, "ctx", e.Context)
			break
		}
	}
	_, err = c.Query()
	require.ErrorIs(t, err, ci.InvalidState)
	_, err = pd.CreateCQ(ci.CQCreate{Size: 10})
	require.ErrorIs(t, err, ci.InvalidState)
	_, err = qp.Query()
	require.ErrorIs(t, err, ci.InvalidState)
	n, err := cq.Poll(make([]ci.WC, 4))
	require.NoError(t, err)
	require.Zero(t, n)
	for _, o := range []ci.Object{qp, srq, mr, cq, pd, c} {
		require.NoError(t, o.Destroy())
	}
	for kind, n := range h.Live() {
		assert.Zero(t, n, kind)
	}
	require.NoError(t, h.Close())
	require.NoError(t, f.Close())
}

// TestCanceled checks that the context of New ends the attempt.
func TestCanceled(t *testing.T) {
	f := local.New(newModel(t, new(direct.Link)), "model 0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := mlx4.New(ctx, f, config)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, f.Close())
}
