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

// A send that the HCA cannot carry out stops the queue. It alone is lost; all others go out, in order, once.
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

// A QP that goes to Error, with receives and sends posted, is taken through Reset, and goes on; requests in flight are sent again by
// their own timers.
func TestRecoverFromError(t *testing.T) {
	g := &gate{}
	bubble(t, nodeConfig{wrap: g.layer()}, nodeConfig{}, func(t *testing.T, a, b *node) {
		echo(t, b)
		got := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}})
		client := a.agent(mads.AgentConfig{})
		ask := func() error {
			_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1), Retries: 1})
			return err
		}
		require.NoError(t, ask())
		for i := range uint64(5) {
			require.NoError(t, g.qp.QP.Modify(ci.ToError()))
			require.NoError(t, client.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, i)}))
			require.NoError(t, ask())
			r, err := got.Recv(soon(t))
			require.NoError(t, err)
			assert.Equal(t, i, r.Header().TID)
			synctest.Wait()
			assert.Equal(t, i+1, a.counters().Recovered)
		}
		attr := must(g.qp.QP.Query())
		assert.Equal(t, ci.QPRTS, attr.State)
		for range 2000 { // all receives are posted again, and once
			require.NoError(t, ask())
		}
	})
}

// A QP that does not come back is tried again, ever more rarely, until it does.
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
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1), Timeout: time.Minute})
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

// Ports come and go with their HCA; watchers hear of it in order, after the agents are gone; services are there again.
func TestHotPlug(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		var mu sync.Mutex
		var log []string
		var agent mads.Agent
		note := func(who string) func(mads.Port, bool) {
			return func(p mads.Port, there bool) {
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, a.port(), p)
				if there {
					log = append(log, who+" comes")
				} else {
					log = append(log, who+" goes")
					assert.ErrorIs(t, agent.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, 1)}), accesslayer.ErrClosed)
				}
				assert.Equal(t, there, slices.Contains(a.m.Ports(), p))
			}
		}
		stop := a.m.Watch(note("1"))
		defer a.m.Watch(note("2"))()
		heard := func() []string {
			mu.Lock()
			defer mu.Unlock()
			l := log
			log = nil
			return l
		}
		assert.Equal(t, []string{"1 comes", "2 comes"}, heard())
		for range 3 {
			agent = a.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}})
			require.NoError(t, agent.Send(&mads.Message{To: a.address(), MAD: request(vendor, 1, mad.Send, 7)}))
			r, err := agent.Recv(soon(t))
			require.NoError(t, err)
			assert.Equal(t, uint64(7), r.Header().TID)
			require.NoError(t, a.al.Deregister(a.hca.Info().GUID))
			require.NoError(t, a.al.WaitPnP(t.Context()))
			assert.Equal(t, []string{"1 goes", "2 goes"}, heard())
			assert.NotZero(t, a.counters().Sent, "they are kept")
			_, err = a.m.Register(mads.AgentConfig{Port: a.port()})
			require.ErrorIs(t, err, ci.InvalidPort)
			require.NoError(t, a.al.Register(a.hca))
			require.NoError(t, a.al.WaitPnP(t.Context()))
			assert.Equal(t, []string{"1 comes", "2 comes"}, heard())
		}
		agent = a.agent(mads.AgentConfig{})
		stop()
		stop()
		require.NoError(t, a.m.Close())
		assert.Equal(t, []string{"2 goes"}, heard())
	})
}

// A port that goes down and comes up again, with another LID, has the agents it had.
func TestLinkFlap(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		echo(t, b)
		client, sm := a.agent(mads.AgentConfig{}), a.agent(mads.AgentConfig{SubnetManagement: true})
		ask := func() error {
			_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1)})
			return err
		}
		require.NoError(t, ask())
		require.NoError(t, b.hca.SetLink(1, false))
		require.ErrorIs(t, ask(), ci.Timeout)
		require.NoError(t, b.hca.SetLink(1, true))
		require.NoError(t, ask())

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
		require.ErrorIs(t, err, ci.Timeout, "the answer comes from the new LID, and is no answer of the old one's")
		require.Nil(t, r)
		require.NoError(t, b.al.WaitPnP(t.Context()))
		require.Equal(t, ci.LID(99), b.attr().LID)
		require.NoError(t, ask())
	})
}

// The access layer may be closed before its services: then they have no ports, and close as ever.
func TestAccessLayerGoesFirst(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		agent := a.agent(mads.AgentConfig{})
		end := make(chan error, 1)
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get}})
		go func() {
			_, err := agent.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1), Timeout: time.Hour})
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

// refusing refuses posts: with what refuse says, from that request on.
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

// A post that is refused: one for a reason of its own is lost alone; what is the queue's fault is posted later. Nothing else is lost,
// and the order stays.
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

		// The segments of a long message, too.
		q.mu.Lock()
		q.refuse = func(w *ci.SendWR) error { return &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidParameter} }
		q.mu.Unlock()
		_, err := longAgent(a, "long", nil, nil).Do(t.Context(), &mads.Message{To: b.address(), MAD: message(mad.Get, 1, 1000)})
		require.ErrorIs(t, err, ci.InvalidParameter)
		synctest.Wait()
		assert.Empty(t, a.m.Held(a.port()))
	})
}

// An HCA that does not flush what was posted is reset all the same, after a second, and what had not completed is sent then.
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
		g.shut, g.held = false, nil // swallowed
		g.mu.Unlock()
		start := time.Now()
		require.NoError(t, g.qp.QP.Modify(ci.ToError()))
		for i := range uint64(20) {
			r, err := to.Recv(soon(t))
			require.NoError(t, err)
			require.Equal(t, i, r.Header().TID)
		}
		assert.Equal(t, 2*time.Second, time.Since(start), "a second before the state is looked at, another before the reset")
		synctest.Wait()
		assert.Empty(t, a.m.Held(a.port()))
		assert.Equal(t, uint64(1), a.counters().Recovered)
	})
}

// An HCA whose QP1 somebody else has is left out, and nothing of it is held.
func TestQP1Taken(t *testing.T) {
	h, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(), direct.Config{}))}})
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

// A second one on the same access layer is refused, and disturbs the first in nothing. It works when the first is closed.
func TestOnePerAccessLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{mads: mads.Config{Name: "the first"}}, testenv.Must(direct.New(direct.NewLink(), direct.Config{})))
		echo(t, n)
		before := n.hca.Live()
		for range 2 {
			_, err := mads.New(n.al, mads.Config{})
			require.ErrorIs(t, err, ci.ResourceBusy)
			require.ErrorContains(t, err, `in use by client "the first" (share it, or close that client first)`)
			require.Equal(t, before, n.hca.Live())
		}
		_, err := n.agent(mads.AgentConfig{}).Do(t.Context(), &mads.Message{To: n.address(), MAD: request(vendor, 1, mad.Get, 1)})
		require.NoError(t, err, "to itself")
		require.NoError(t, n.m.Close())
		n.m, err = mads.New(n.al, mads.Config{})
		require.NoError(t, err)
		require.Equal(t, []mads.Port{n.port()}, n.m.Ports())
	})
}
