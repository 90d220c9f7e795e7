package cmid_test

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// operation is a call of a lower layer that has not ended.
type operation struct {
	ended atomic.Bool
	stop  func() bool
	done  func(error)
}

// end ends the operation, unless its context has.
func (o *operation) end(err error) {
	if !o.ended.Swap(true) {
		o.stop()
		o.done(err)
	}
}

// lowerFake is a Resolver and a connection manager whose operations end when the test says so, or with their context.
type lowerFake struct {
	*fakeCM
	source  resolve.Source
	last    *operation // the operation that began last
	repeats bool       // the Resolver calls done twice
}

func (f *lowerFake) begin(ctx context.Context, done func(error)) {
	o := &operation{done: done}
	o.stop = context.AfterFunc(ctx, func() {
		if !o.ended.Swap(true) {
			done(ctx.Err())
		}
	})
	f.last = o
}

func (f *lowerFake) ResolveAddr(ctx context.Context, _ resolve.Query, done func(resolve.Source, error)) {
	f.begin(ctx, func(err error) {
		done(f.source, err)
		if f.repeats {
			done(f.source, nil)
		}
	})
}

func (f *lowerFake) ResolveRoute(ctx context.Context, _ resolve.Query, _ resolve.Source, done func(cm.Path, error)) {
	f.begin(ctx, func(err error) {
		done(cm.Path{Port: f.source.Port}, err)
		if f.repeats {
			done(cm.Path{}, errors.New("the second result"))
		}
	})
}

func (f *lowerFake) StartConnect(ctx context.Context, cfg cm.ConnectConfig, done func(cm.Conn, error)) error {
	f.begin(ctx, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&lowerConn{fakeConn: &fakeConn{rep: &mad.REP{}, state: cm.StateEstablished}, f: f, onEvent: cfg.OnEvent},
			nil)
	})
	return nil
}

// lowerConn is a connection of a lowerFake.
type lowerConn struct {
	*fakeConn
	f       *lowerFake
	onEvent func(cm.Conn, cm.Event)
}

func (c *lowerConn) StartDisconnect(ctx context.Context, _ []byte, done func([]byte, error)) error {
	c.f.begin(ctx, func(err error) { done(nil, err) })
	return nil
}

// modelID is what the model expects of an ID.
type modelID struct {
	id      *cmid.ID
	state   string // new, addr, route, replied, connected, over
	pending string // the step in progress
	op      *operation
	want    []cmid.EventType // events that have to come
}

// model runs random steps of several IDs on one channel.
type model struct {
	t      *rapid.T
	f      *lowerFake
	m      *cmid.Manager
	events *cmid.EventChannel
	ids    []*modelID
}

// results are the events of the steps: of success, and of each failure.
var results = map[string]struct {
	ok, to string
	event  cmid.EventType
	fails  map[error]cmid.EventType
}{
	"address": {to: "addr", event: cmid.EventAddrResolved, fails: map[error]cmid.EventType{
		errModel: cmid.EventAddrError}},
	"route": {to: "route", event: cmid.EventRouteResolved, fails: map[error]cmid.EventType{
		errModel: cmid.EventRouteError}},
	"connect": {to: "replied", event: cmid.EventConnectResponse, fails: map[error]cmid.EventType{
		errModel:      cmid.EventConnectError,
		cm.ErrTimeout: cmid.EventUnreachable,
		errRejected:   cmid.EventRejected}},
	"disconnect": {to: "over", event: cmid.EventDisconnected, fails: map[error]cmid.EventType{
		cm.ErrTimeout: cmid.EventDisconnected}},
}

var (
	errModel          = errors.New("failed")
	errRejected error = &cm.RejectError{Reason: mad.RejConsumer}
)

// start starts a step. It must fail exactly if the state does not allow it.
func (m *model) start(x *modelID) {
	step := rapid.SampledFrom([]string{"address", "route", "connect", "disconnect"}).Draw(m.t, "step")
	var err error
	m.f.last = nil
	allowed := false
	switch step {
	case "address":
		allowed = x.state == "new" || x.state == "addr" || x.state == "route"
		err = x.id.StartResolveAddr(ap("10.66.0.9:7"), 0)
	case "route":
		allowed = x.state == "addr" || x.state == "route"
		err = x.id.StartResolveRoute(0)
	case "connect":
		allowed = x.state == "route"
		err = x.id.StartConnect(cmid.ConnParam{QP: &cm.QP{Num: 7}})
	case "disconnect":
		allowed = x.state == "connected"
		if x.state == "replied" || x.state == "over" || x.state == "connected" && x.pending != "" {
			return // allowed, and without a step: see the other tests
		}
		err = x.id.StartDisconnect()
	}
	if !allowed || x.pending != "" {
		require.ErrorIs(m.t, err, ci.InvalidState, "%s in %s", step, x.state)
		return
	}
	require.NoError(m.t, err, "%s in %s", step, x.state)
	require.NotNil(m.t, m.f.last)
	x.pending, x.op = step, m.f.last
}

// complete ends the pending step of an ID with success or with a failure.
func (m *model) complete(x *modelID) {
	if x.pending == "" {
		return
	}
	r := results[x.pending]
	var err error
	event, to := r.event, r.to
	if rapid.Bool().Draw(m.t, "fails") {
		errs := []error{errModel, cm.ErrTimeout, errRejected}
		err = rapid.SampledFrom(errs).Draw(m.t, "error")
		if failed, ok := r.fails[err]; ok {
			event, to = failed, x.state
		} else {
			err = nil
		}
		if x.pending == "disconnect" {
			to = "over"
		}
	}
	x.op.end(err)
	x.want = append(x.want, event)
	x.state, x.pending = to, ""
}

// establish sends RTU, of an ID whose peer has accepted.
func (m *model) establish(x *modelID) {
	err := x.id.Establish()
	if x.state != "replied" || x.pending != "" {
		require.Error(m.t, err)
		return
	}
	require.NoError(m.t, err)
	x.state = "connected"
}

// peerDisconnects has the peer of a connection disconnect.
func (m *model) peerDisconnects(x *modelID) {
	if x.state != "connected" {
		return
	}
	c := x.id.Conn().(*lowerConn)
	c.onEvent(c, cm.Event{Type: cm.EventDisconnect})
	c.onEvent(c, cm.Event{Type: cm.EventDisconnected})
	x.want = append(x.want, cmid.EventDisconnected)
	if x.pending != "" {
		x.op.end(nil) // the connection manager ends the pending disconnect; the event is not repeated
	}
	x.state, x.pending = "over", ""
}

// check compares the events that have come with those that have to.
func (m *model) check() {
	synctest.Wait()
	got := map[*cmid.ID][]cmid.EventType{}
	for e, ok := m.events.TryNext(); ok; e, ok = m.events.TryNext() {
		got[e.ID] = append(got[e.ID], e.Type)
		e.Ack()
	}
	for _, x := range m.ids {
		require.Equal(m.t, x.want, got[x.id], "state %s", x.state)
		delete(got, x.id)
		x.want = nil
	}
	require.Empty(m.t, got, "events of closed IDs")
}

// TestStepsModel starts, completes and ends steps in random orders. Each step ends once, with the event that belongs to
// its result, and no event comes for a closed ID.
func TestStepsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failure any // of rapid, whose goroutine is outside the bubble
		synctest.Test(t, func(t *testing.T) {
			al := accesslayer.New(accesslayer.Config{PollInterval: -1})
			port := testenv.Must(sim.New(newLAN().Network, sim.Config{Addr: netip.MustParseAddr("10.66.0.1")}))
			hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
			require.NoError(t, err)
			defer func() { require.NoError(t, errors.Join(al.Close(), hca.Close())) }()
			require.NoError(t, al.Register(hca))
			client, err := al.Open(accesslayer.ClientConfig{})
			require.NoError(t, err)
			guid := hca.Info().GUID
			f := &lowerFake{fakeCM: &fakeCM{}, source: resolve.Source{Port: mads.Port{CA: guid, Num: 1},
				Addr: netip.MustParseAddr("10.66.0.1")}}
			m := &model{t: rt, f: f, events: cmid.NewEventChannel(nil)}
			m.m, err = cmid.New(client, cmid.Config{CM: f, Resolver: f})
			require.NoError(t, err)
			defer func() { require.NoError(t, errors.Join(m.m.Close(), m.events.Close())) }()
			defer func() { failure = recover() }()
			f.repeats = rapid.Bool().Draw(rt, "repeats")
			m.run()
			m.remove(func() { require.NoError(t, al.Deregister(guid)) })
			require.NoError(t, m.m.Close())
			m.ids = nil
			m.check()
		})
		if failure != nil {
			panic(failure)
		}
	})
}

func (m *model) run() {
	for range rapid.IntRange(1, 60).Draw(m.t, "actions") {
		action := rapid.SampledFrom([]string{"new", "start", "start", "start", "complete", "complete", "complete",
			"establish", "peer", "close"}).Draw(m.t, "action")
		if action == "new" || len(m.ids) == 0 {
			id, err := m.m.NewID(cmid.IDConfig{Events: m.events})
			require.NoError(m.t, err)
			m.ids = append(m.ids, &modelID{id: id, state: "new"})
			continue
		}
		k := rapid.IntRange(0, len(m.ids)-1).Draw(m.t, "ID")
		x := m.ids[k]
		switch action {
		case "start":
			m.start(x)
		case "complete":
			m.complete(x)
		case "establish":
			m.establish(x)
		case "peer":
			m.peerDisconnects(x)
		case "close":
			if rapid.Bool().Draw(m.t, "with an event") {
				m.complete(x) // its event is discarded
			}
			require.NoError(m.t, x.id.Close())
			m.ids = append(m.ids[:k], m.ids[k+1:]...)
			require.Error(m.t, x.id.StartResolveAddr(ap("10.66.0.9:7"), 0))
		}
		m.check()
	}
}

// remove removes the HCA: each ID on it gets one EventDeviceRemoved, and the failure of its pending step.
func (m *model) remove(pull func()) {
	for _, x := range m.ids {
		if x.state == "new" { // no HCA is chosen yet
			continue
		}
		x.want = append(x.want, cmid.EventDeviceRemoved)
		switch x.pending {
		case "address":
			x.want = append(x.want, cmid.EventAddrError)
		case "route":
			x.want = append(x.want, cmid.EventRouteError)
		case "connect":
			x.want = append(x.want, cmid.EventConnectError)
		case "disconnect":
			x.want = append(x.want, cmid.EventDisconnected)
		}
	}
	pull()
	m.check()
}
