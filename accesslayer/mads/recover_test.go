package mads_test

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

// A send that the HCA cannot execute stops the queue. Only that send is lost. All others are sent once, in order.
func TestRecoverFromSendError(t *testing.T) {
	g := &gate{}
	bubble(t, nodeConfig{wrap: g.layer()}, nodeConfig{}, func(t *testing.T, a, b *node) {
		to := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}, Queue: 2000})
		from := a.agent(mads.AgentConfig{})
		bad := mads.Address{AV: ci.AVAttr{DLID: 0xc001}, QPN: 1} // a group without a GRH that names it
		g.shut = true
		var want []uint64
		failed := make(chan error, 3)
		for i := range uint64(300) {
			if i%100 == 50 {
				go func() {
					_, err := from.Do(t.Context(), &mads.Message{To: bad, MAD: request(vendor, 1, mad.Send, i)})
					failed <- err
				}()
				synctest.Wait()
				continue
			}
			want = append(want, i)
			require.NoError(t, from.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, i)}))
		}
		g.open(t)
		for range 3 {
			err := <-failed
			require.ErrorIs(t, err, ci.ErrorStatus)
			assert.ErrorIs(t, err, ci.WCLocalOpErr.Err())
		}
		var got []uint64
		for range want {
			r, err := to.Recv(soon(t))
			require.NoError(t, err)
			got = append(got, r.Header().TID)
		}
		assert.Equal(t, want, got)
		synctest.Wait()
		c := a.counters()
		assert.Equal(t, uint64(3), c.Recovered)
		assert.Equal(t, uint64(3), c.Dropped[mads.DropSend])
		assert.Equal(t, uint64(len(want)), c.Sent)
	})
}

// A QP that goes to Error, with receives and sends posted, is moved through Reset and continues. The timers of pending
// requests send them again.
func TestRecoverFromError(t *testing.T) {
	g := &gate{}
	bubble(t, nodeConfig{wrap: g.layer()}, nodeConfig{}, func(t *testing.T, a, b *node) {
		echo(t, b)
		got := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}})
		client := a.agent(mads.AgentConfig{})
		do := func() error {
			_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get,
				1), Retries: 1})
			return err
		}
		require.NoError(t, do())
		for i := range uint64(5) {
			require.NoError(t, g.qp.QP.Modify(ci.ToError()))
			require.NoError(t, client.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, i)}))
			require.NoError(t, do())
			r, err := got.Recv(soon(t))
			require.NoError(t, err)
			assert.Equal(t, i, r.Header().TID)
			synctest.Wait()
			assert.Equal(t, i+1, a.counters().Recovered)
		}
		attr := must(g.qp.QP.Query())
		assert.Equal(t, ci.QPRTS, attr.State)
		for range 2000 { // all receives were posted again, once each
			require.NoError(t, do())
		}
	})
}

// Recovery of a QP is repeated, after pauses that grow, until it succeeds.
func TestRecoverRetries(t *testing.T) {
	g := &gate{}
	var mu sync.Mutex
	var tries []time.Duration
	fail := true
	layer := g.layer()
	inner := layer.QP
	layer.QP = func(in ci.QP, c ci.QPCreate) ci.QP {
		if c.Type == ci.QP1 {
			in = &stubborn{QP: in, may: func() bool {
				mu.Lock()
				defer mu.Unlock()
				tries = append(tries, time.Duration(time.Now().UnixNano()))
				return !fail
			}}
		}
		return inner(in, c)
	}
	fail = false
	bubble(t, nodeConfig{wrap: layer}, nodeConfig{}, func(t *testing.T, a, b *node) {
		echo(t, b)
		client := a.agent(mads.AgentConfig{})
		mu.Lock()
		fail, tries = true, nil
		mu.Unlock()
		require.NoError(t, g.qp.QP.Modify(ci.ToError()))
		time.Sleep(time.Minute)
		mu.Lock()
		fail = false
		n := len(tries)
		mu.Unlock()
		assert.True(t, n >= 10 && n < 20, "%d tries", n)
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
			Timeout: time.Minute})
		assert.NoError(t, err)
	})
}

type stubborn struct {
	ci.QP
	may func() bool
}

func (s *stubborn) Unwrap() any { return s.QP }

func (s *stubborn) Modify(set ci.QPField, attr ci.QPAttr) error {
	if attr.State == ci.QPReset && !s.may() {
		return &ci.Error{Verb: "QP.Modify", Status: ci.Timeout, Detail: "the firmware sleeps"}
	}
	return s.QP.Modify(set, attr)
}

// Ports are added and removed with their HCA. Watchers are called in order, after the agents were closed. A port that
// is added again has services.
func TestHotPlug(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		var mu sync.Mutex
		var log []string
		var agent mads.Agent
		note := func(watcher string) func(mads.Port, bool) {
			return func(p mads.Port, there bool) {
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, a.port(), p)
				if there {
					log = append(log, watcher+" added")
				} else {
					log = append(log, watcher+" removed")
					assert.ErrorIs(t, agent.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, 1)}),
						accesslayer.ErrClosed)
				}
				assert.Equal(t, there, slices.Contains(a.m.Ports(), p))
			}
		}
		stop := a.m.Watch(note("1"))
		defer a.m.Watch(note("2"))()
		taken := func() []string {
			mu.Lock()
			defer mu.Unlock()
			l := log
			log = nil
			return l
		}
		assert.Equal(t, []string{"1 added", "2 added"}, taken())
		for range 3 {
			agent = a.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}})
			require.NoError(t, agent.Send(&mads.Message{To: a.address(), MAD: request(vendor, 1, mad.Send, 7)}))
			r, err := agent.Recv(soon(t))
			require.NoError(t, err)
			assert.Equal(t, uint64(7), r.Header().TID)
			require.NoError(t, a.al.Deregister(a.hca.Info().GUID))
			require.NoError(t, a.al.WaitPnP(t.Context()))
			assert.Equal(t, []string{"1 removed", "2 removed"}, taken())
			assert.NotZero(t, a.counters().Sent, "counters are kept")
			_, err = a.m.Register(mads.AgentConfig{Port: a.port()})
			require.ErrorIs(t, err, ci.InvalidPort)
			require.NoError(t, a.al.Register(a.hca))
			require.NoError(t, a.al.WaitPnP(t.Context()))
			assert.Equal(t, []string{"1 added", "2 added"}, taken())
		}
		agent = a.agent(mads.AgentConfig{})
		stop()
		stop()
		require.NoError(t, a.m.Close())
		assert.Equal(t, []string{"2 removed"}, taken())
	})
}

// A port that goes down and comes up again with another LID keeps its agents.
func TestLinkFlap(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		echo(t, b)
		client, sm := a.agent(mads.AgentConfig{}), a.agent(mads.AgentConfig{SubnetManagement: true})
		do := func() error {
			_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1)})
			return err
		}
		require.NoError(t, do())
		require.NoError(t, b.hca.SetLink(1, false))
		require.ErrorIs(t, do(), ci.Timeout)
		require.NoError(t, b.hca.SetLink(1, true))
		require.NoError(t, do())

		m := request(mad.ClassSubnetLID, 1, mad.Get, 1)
		m[17] = byte(mad.AttrPortInfo)
		r, err := sm.Do(t.Context(), &mads.Message{To: b.qp0(), MAD: m})
		require.NoError(t, err)
		var info mad.PortInfo
		info.Parse(r.MAD[64:])
		info.LID, info.State, info.PhysState = 99, 0, 0
		m[3] = byte(mad.Set)
		info.Put(m[64:])
		r, err = sm.Do(t.Context(), &mads.Message{To: b.qp0(), MAD: m})
		require.ErrorIs(t, err, ci.Timeout, "a response from the new LID does not match a request to the old one")
		require.Nil(t, r)
		require.NoError(t, b.al.WaitPnP(t.Context()))
		require.Equal(t, ci.LID(99), b.attr().LID)
		require.NoError(t, do())
	})
}

// The access layer may be closed before its MAD services. Then they have no ports, and Close works as usual.
func TestAccessLayerGoesFirst(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		agent := a.agent(mads.AgentConfig{})
		end := make(chan error, 1)
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get}})
		go func() {
			_, err := agent.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
				Timeout: time.Hour})
			end <- err
		}()
		synctest.Wait()
		require.NoError(t, a.al.Close())
		assert.ErrorIs(t, <-end, accesslayer.ErrClosed)
		assert.Empty(t, a.m.Ports())
		require.NoError(t, a.m.Close())
		_, err := mads.New(a.al, mads.Config{})
		assert.ErrorIs(t, err, accesslayer.ErrClosed)
	})
}

// refusing makes posts fail with the error of refuse, from that request on.
type refusing struct {
	ci.QP
	mu     sync.Mutex
	refuse func(w *ci.SendWR) error
}

func (r *refusing) Unwrap() any { return r.QP }

func (r *refusing) PostSend(wrs []ci.SendWR) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wrs {
		if err := r.refuse(&wrs[i]); err != nil {
			n, err2 := r.QP.PostSend(wrs[:i])
			if err2 != nil {
				return n, err2
			}
			return i, err
		}
	}
	return r.QP.PostSend(wrs)
}

// A send that is rejected for its own fault is lost. A send that is rejected because of the queue's state is posted
// later. No other send is lost, and the order is kept.
func TestRefusedPosts(t *testing.T) {
	q := &refusing{refuse: func(*ci.SendWR) error { return nil }}
	layer := ciwrap.Layer{QP: func(in ci.QP, c ci.QPCreate) ci.QP {
		if c.Type == ci.QP1 && q.QP == nil {
			q.QP = in
			return q
		}
		return in
	}}
	bubble(t, nodeConfig{wrap: layer}, nodeConfig{}, func(t *testing.T, a, b *node) {
		to := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}, Queue: 1000})
		from := a.agent(mads.AgentConfig{})
		n := 0
		q.refuse = func(w *ci.SendWR) error {
			if w.To.QPN == 77 {
				return &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidAVHandle}
			}
			if n++; n%7 == 0 {
				return &ci.Error{Verb: "QP.PostSend", Status: ci.InsufficientResources}
			}
			return nil
		}
		var want []uint64
		for i := range uint64(200) {
			if i%50 == 10 {
				far := b.address()
				far.QPN = 77
				_, err := from.Do(t.Context(), &mads.Message{To: far, MAD: request(vendor, 1, mad.Send, i)})
				require.ErrorIs(t, err, ci.InvalidAVHandle)
				require.ErrorIs(t, err, ci.ErrorStatus)
				continue
			}
			want = append(want, i)
			require.NoError(t, from.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, i)}))
		}
		for _, i := range want {
			r, err := to.Recv(soon(t))
			require.NoError(t, err)
			require.Equal(t, i, r.Header().TID)
		}
		synctest.Wait()
		assert.Empty(t, a.m.Held(a.port()))
		assert.Equal(t, uint64(4), a.counters().Dropped[mads.DropSend])
		assert.Zero(t, a.counters().Recovered, "the QP had no fault")

		// The same holds for segments of a long message.
		q.mu.Lock()
		q.refuse = func(w *ci.SendWR) error { return &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidParameter} }
		q.mu.Unlock()
		_, err := longAgent(a, "long", nil, nil).Do(t.Context(), &mads.Message{To: b.address(),
			MAD: message(mad.Get, 1, 1000)})
		require.ErrorIs(t, err, ci.InvalidParameter)
		synctest.Wait()
		assert.Empty(t, a.m.Held(a.port()))
	})
}

// An HCA that does not flush posted requests is reset after a second. Sends that had not completed are sent then.
func TestResetWithoutFlush(t *testing.T) {
	g := &gate{}
	bubble(t, nodeConfig{wrap: g.layer()}, nodeConfig{}, func(t *testing.T, a, b *node) {
		to := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}})
		from := a.agent(mads.AgentConfig{})
		g.shut = true
		for i := range uint64(20) {
			require.NoError(t, from.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, i)}))
		}
		g.mu.Lock()
		g.shut, g.held = false, nil // these sends are lost
		g.mu.Unlock()
		start := time.Now()
		require.NoError(t, g.qp.QP.Modify(ci.ToError()))
		for i := range uint64(20) {
			r, err := to.Recv(soon(t))
			require.NoError(t, err)
			require.Equal(t, i, r.Header().TID)
		}
		assert.Equal(t, 2*time.Second, time.Since(start), "a second before the state is looked at, another before "+
			"the reset")
		synctest.Wait()
		assert.Empty(t, a.m.Held(a.port()))
		assert.Equal(t, uint64(1), a.counters().Recovered)
	})
}

// An HCA whose QP1 is in use gets no services, and no object on it is left.
func TestQP1Taken(t *testing.T) {
	h, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(),
		direct.Config{}))}})
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, al.Register(h))
	c := must(al.Open(accesslayer.ClientConfig{}))
	pd := must(must(c.OpenCA(h.Info().GUID, nil)).NewPD(ci.PDSpecial))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 2}, accesslayer.CQHandler{}))
	caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	must(pd.NewSpecialQP(1, ci.QPCreate{Type: ci.QP1, QPCaps: caps, SendCQ: cq, RecvCQ: cq}, nil))
	before := h.Live()
	m, err := mads.New(al, mads.Config{})
	require.NoError(t, err)
	assert.Empty(t, m.Ports())
	require.NoError(t, m.Close())
	assert.Equal(t, before, h.Live())
	require.NoError(t, al.Close())
	require.NoError(t, h.Close())
}

// A second Manager on an access layer is rejected, and does not affect the first. It can be created after the first is
// closed.
func TestOnePerAccessLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{mads: mads.Config{Name: "the first"}},
			testenv.Must(direct.New(direct.NewLink(), direct.Config{})))
		echo(t, n)
		before := n.hca.Live()
		for range 2 {
			_, err := mads.New(n.al, mads.Config{})
			require.ErrorIs(t, err, ci.ResourceBusy)
			require.ErrorContains(t, err, `in use by client "the first" (share it, or close that client first)`)
			require.Equal(t, before, n.hca.Live())
		}
		_, err := n.agent(mads.AgentConfig{}).Do(t.Context(), &mads.Message{To: n.address(),
			MAD: request(vendor, 1, mad.Get, 1)})
		require.NoError(t, err, "to itself")
		require.NoError(t, n.m.Close())
		n.m, err = mads.New(n.al, mads.Config{})
		require.NoError(t, err)
		require.Equal(t, []mads.Port{n.port()}, n.m.Ports())
	})
}
