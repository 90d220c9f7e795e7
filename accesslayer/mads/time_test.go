package mads_test

import (
	"context"
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
	"ciddk/clock"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// A request is sent 1 + Retries times, one timeout apart, and then ends.
func TestTimeoutAndRetries(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		start := time.Now()
		var at []time.Duration
		var tids []uint64
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
			OnReceive: func(r *mads.Received) {
				at = append(at, time.Since(start))
				tids = append(tids, r.Header().TID)
			}})
		client := a.agent(mads.AgentConfig{})
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
			Timeout: 300 * time.Millisecond, Retries: 3})
		require.ErrorIs(t, err, ci.Timeout)
		assert.Equal(t, 1200*time.Millisecond, time.Since(start))
		synctest.Wait()
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{0, 300 * ms, 600 * ms, 900 * ms}, at)
		assert.Equal(t, []uint64{tids[0], tids[0], tids[0], tids[0]}, tids)
		c := a.counters()
		assert.Equal(t, [3]uint64{4, 3, 1}, [3]uint64{c.Sent, c.Retried, c.TimedOut})

		for _, m := range []mads.Message{{}, {Timeout: -time.Hour}, {Retries: -1}} {
			start, at = time.Now(), nil
			m.To, m.MAD = b.address(), request(vendor, 1, mad.Get, 1)
			_, err = client.Do(t.Context(), &m)
			require.ErrorIs(t, err, ci.Timeout)
			assert.Equal(t, time.Second, time.Since(start), "the default")
			synctest.Wait()
			assert.Len(t, at, 1)
		}
	})
}

// A response that arrives after the first timeout ends the request. After the last timeout it is dropped.
func TestLateAnswers(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		delay := 1500 * time.Millisecond
		var server mads.Agent
		server = b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
			OnReceive: func(r *mads.Received) {
				time.AfterFunc(delay, func() {
					r.MAD[3] = byte(mad.GetResp)
					assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: r.MAD}))
				})
			}})
		client := a.agent(mads.AgentConfig{})
		m := mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1), Timeout: time.Second, Retries: 1}
		start := time.Now()
		_, err := client.Do(t.Context(), &m)
		require.NoError(t, err)
		assert.Equal(t, delay, time.Since(start))
		time.Sleep(5 * time.Second)
		assert.Equal(t, uint64(1), a.counters().Dropped[mads.DropUnmatched], "the response to the second request")

		delay = 3 * time.Second
		_, err = client.Do(t.Context(), &m)
		require.ErrorIs(t, err, ci.Timeout)
		time.Sleep(10 * time.Second)
		assert.Equal(t, uint64(3), a.counters().Dropped[mads.DropUnmatched])

		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		start = time.Now()
		_, err = client.Do(ctx, &m)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second/2, time.Since(start))
		time.Sleep(10 * time.Second)
		assert.Equal(t, uint64(4), a.counters().Dropped[mads.DropUnmatched], "sent once")
	})
}

// Close of an agent or the Manager, and the removal of the HCA, end pending requests. Recv first returns what has
// arrived.
func TestPendingEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, n *node, a mads.Agent){
		"agent":   func(t *testing.T, _ *node, a mads.Agent) { require.NoError(t, a.Close()) },
		"manager": func(t *testing.T, n *node, _ mads.Agent) { require.NoError(t, n.m.Close()) },
		"HCA": func(t *testing.T, n *node, _ mads.Agent) {
			require.NoError(t, n.al.Deregister(n.hca.Info().GUID))
			require.NoError(t, n.al.WaitPnP(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
				b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get}})
				agent := a.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}})
				require.NoError(t,
					agent.Send(&mads.Message{To: a.address(), MAD: request(vendor, 1, mad.Send, 1)})) // to itself
				synctest.Wait()
				ends := make(chan error, 2)
				go func() {
					_, err := agent.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
						Timeout: time.Hour})
					ends <- err
				}()
				synctest.Wait()
				start := time.Now()
				end(t, a, agent)
				assert.ErrorIs(t, <-ends, accesslayer.ErrClosed)
				assert.Zero(t, time.Since(start))
				_, err := agent.Recv(t.Context())
				require.NoError(t, err)
				_, err = agent.Recv(t.Context())
				assert.ErrorIs(t, err, accesslayer.ErrClosed)
				assert.ErrorIs(t, agent.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1)}),
					accesslayer.ErrClosed)
			})
		})
	}
}

// slowQP completes no send while its gate is shut.
type slowQP struct {
	ciwrap.QP
	gate *gate
}

// gate holds sends back, and can make the QP fail.
type gate struct {
	mu   sync.Mutex
	shut bool
	held [][]ci.SendWR
	qp   *slowQP // QP1
	most int     // maximum number of sends posted and not completed
}

func (q *slowQP) PostSend(wrs []ci.SendWR) (int, error) {
	g := q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		kept := make([]ci.SendWR, len(wrs))
		for i, w := range wrs {
			kept[i] = w
			kept[i].SGL = append([]ci.SGE(nil), w.SGL...)
		}
		g.held = append(g.held, kept)
		g.most += len(wrs)
		return len(wrs), nil
	}
	return q.QP.PostSend(wrs)
}

// open posts the sends that were held back.
func (g *gate) open(t *testing.T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	for _, wrs := range g.held {
		_, err := g.qp.QP.PostSend(wrs)
		require.NoError(t, err)
	}
	g.held = nil
}

func (g *gate) layer() ciwrap.Layer {
	return ciwrap.Layer{QP: func(in ci.QP, c ci.QPCreate) ci.QP {
		q := &slowQP{ciwrap.QP{QP: in}, g}
		if c.Type == ci.QP1 {
			g.qp = q
			return q
		}
		return in
	}}
}

// Of many datagrams, 128 are posted and more wait, up to a limit. All arrive in order. The timeout of a request begins
// when it was sent.
func TestSendQueue(t *testing.T) {
	g := &gate{}
	bubble(t, nodeConfig{wrap: g.layer(), mads: mads.Config{QueueLimit: 1000}},
		nodeConfig{mads: mads.Config{RecvDepth: 2048}}, func(t *testing.T, a, b *node) {
			to := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}, Queue: 2000})
			echoed := longEcho(t, b, func(*mads.Received) int { return 1 })
			require.NotNil(t, echoed)
			from := a.agent(mads.AgentConfig{})
			g.shut = true
			n := 0
			for ; ; n++ {
				err := from.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, uint64(n))})
				if err != nil {
					require.ErrorIs(t, err, ci.InsufficientResources)
					break
				}
			}
			assert.Equal(t, 1128, n)
			assert.Equal(t, 128, g.most)
			assert.ErrorIs(t, func() error {
				_, err := from.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, 1)})
				return err
			}(), ci.InsufficientResources)
			time.Sleep(time.Hour)
			g.open(t)
			for i := range n {
				r, err := to.Recv(soon(t))
				require.NoError(t, err)
				require.Equal(t, uint64(i), r.Header().TID)
			}
			synctest.Wait()
			assert.Equal(t, uint64(n), a.counters().Sent)

			echo(t, a) // responds to every request
			b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get}})
			g.shut = true
			end := make(chan error, 1)
			go func() {
				_, err := from.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
					Timeout: time.Second})
				end <- err
			}()
			time.Sleep(time.Minute)
			require.Empty(t, end)
			g.open(t)
			start := time.Now()
			require.ErrorIs(t, <-end, ci.Timeout)
			assert.Equal(t, time.Second, time.Since(start))
		})
}

// An agent that does not receive loses the datagrams beyond its queue. Other agents lose none.
func TestReceiveQueue(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		deaf := b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send}, Queue: 5})
		echo(t, b)
		client := a.agent(mads.AgentConfig{})
		for i := range 1000 {
			for {
				err := client.Send(&mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Send, uint64(i))})
				if err == nil {
					break
				}
				require.ErrorIs(t, err, ci.InsufficientResources)
				synctest.Wait()
			}
		}
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get,
			1), Retries: 5})
		require.NoError(t, err)
		for i := range 5 {
			r, err := deaf.Recv(t.Context())
			require.NoError(t, err)
			assert.Equal(t, uint64(i), r.Header().TID)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = deaf.Recv(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotZero(t, b.counters().Dropped[mads.DropQueue])
	})
}

// All times are those of the access layer's clock. With a virtual clock, nothing takes real time.
func TestVirtualClock(t *testing.T) {
	v := clock.NewVirtual(0)
	l := direct.NewLink()
	a := newNode(t, nodeConfig{clock: v}, testenv.Must(direct.New(l, direct.Config{})))
	b := newNode(t, nodeConfig{clock: v}, testenv.Must(direct.New(l, direct.Config{})))
	received := make(chan struct{}, 10)
	b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
		OnReceive: func(*mads.Received) { received <- struct{}{} }})
	client := a.agent(mads.AgentConfig{})
	end := make(chan error)
	go func() {
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
			Timeout: 24 * time.Hour, Retries: 2})
		end <- err
	}()
	for range 3 {
		<-received
		require.Eventually(t, func() bool {
			at, ok := v.Next()
			return ok && at <= v.Elapsed()+24*time.Hour // a later one is that of the grace time, which is over
		}, testenv.Patience, time.Millisecond, "the timer is set when the send has completed")
		v.Advance(24 * time.Hour)
	}
	require.ErrorIs(t, <-end, ci.Timeout)
	assert.Equal(t, 72*time.Hour, v.Elapsed())
}
