package mads_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// stall stops the pump of a node's QP1 from one time until another, as a busy machine does.
func stall(t *testing.T, n *node, from, until time.Duration) {
	busy := n.agent(mads.AgentConfig{Class: vendor, Version: 7, Methods: []mad.Method{mad.Send},
		OnReceive: func(*mads.Received) { time.Sleep(until - from) }})
	time.AfterFunc(from, func() {
		assert.NoError(t, busy.Send(&mads.Message{To: n.address(), MAD: request(vendor, 7, mad.Send, 1)}))
	})
}

// TestTimeoutWaitsForPump checks that a response that arrived before the timeout ends the request, although the pump
// has not handled it by then.
func TestTimeoutWaitsForPump(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		var server mads.Agent
		server = b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
			OnReceive: func(r *mads.Received) {
				time.AfterFunc(500*time.Millisecond, func() {
					r.MAD[3] = byte(mad.GetResp)
					assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: r.MAD}))
				})
			}})
		client := a.agent(mads.AgentConfig{})
		stall(t, a, 400*time.Millisecond, 2500*time.Millisecond)
		start := time.Now()
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
			Timeout: time.Second})
		assert.NoError(t, err)
		assert.Equal(t, 2500*time.Millisecond, time.Since(start))
		c := a.counters()
		assert.Zero(t, c.Retried)
		assert.Zero(t, c.TimedOut)
	})
}

// TestTimeoutOfStalledPump checks that a pump that does not catch up defers a timeout for a bounded time.
func TestTimeoutOfStalledPump(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get}})
		client := a.agent(mads.AgentConfig{})
		stall(t, a, 400*time.Millisecond, time.Minute)
		start := time.Now()
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
			Timeout: time.Second})
		require.ErrorIs(t, err, ci.Timeout)
		assert.Equal(t, 4*time.Second, time.Since(start))
		time.Sleep(time.Hour)

		// The pump's late call does not shorten the timeout of another request.
		start = time.Now()
		_, err = client.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 1),
			Timeout: time.Second, Retries: 1})
		require.ErrorIs(t, err, ci.Timeout)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

// TestACKWaitsForPump checks that a transfer by RMPP does not send its segments again if an ACK arrived in time.
func TestACKWaitsForPump(t *testing.T) {
	tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
		const segments = 100
		longEcho(t, b, func(*mads.Received) int { return 1 })
		client := longAgent(a, "client", nil, nil)
		// b sends the first ACK after 600 ms, when a's pump has handled the completion of the segment and has stopped.
		stall(t, b, 0, 600*time.Millisecond)
		stall(t, a, 500*time.Millisecond, 3*time.Second)
		synctest.Wait()
		start := time.Now()
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: message(mad.Get, 1, segments*perSegment),
			Timeout: time.Second, Retries: 3})
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second, time.Since(start))
		synctest.Wait()
		assert.Equal(t, segments, x.count("> DATA"), "nothing was sent twice")
		assert.Zero(t, a.counters().Retried)
	})
}

// TestCloseWaitsForCallback closes an agent and the Manager while a callback sleeps. Close waits for it, a second Close
// waits, too, and virtual time advances meanwhile.
func TestCloseWaitsForCallback(t *testing.T) {
	single(t, func(t *testing.T, n *node) {
		start := time.Now()
		over := false
		agent := n.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Send},
			OnReceive: func(*mads.Received) {
				time.Sleep(10 * time.Second)
				over = true
			}})
		require.NoError(t, agent.Send(&mads.Message{To: n.address(), MAD: request(vendor, 1, mad.Send, 1)}))
		synctest.Wait()
		ends := make(chan error)
		closers := []func() error{agent.Close, agent.Close, n.m.Close, n.m.Close}
		for _, f := range closers {
			go func() { ends <- f() }()
		}
		for range closers {
			assert.NoError(t, <-ends)
			assert.True(t, over)
			assert.Equal(t, 10*time.Second, time.Since(start))
		}
	})
}

// TestWatchWaitsForWatcher starts and stops a Watch while the callback of another one sleeps.
func TestWatchWaitsForWatcher(t *testing.T) {
	single(t, func(t *testing.T, n *node) {
		start := time.Now()
		go n.m.Watch(func(mads.Port, bool) { time.Sleep(10 * time.Second) })
		synctest.Wait()
		stop := n.m.Watch(func(mads.Port, bool) { time.Sleep(10 * time.Second) })
		assert.Equal(t, 20*time.Second, time.Since(start))
		stop()
	})
}
