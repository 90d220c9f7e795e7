package mads_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// outcome is the result of a request.
type outcome struct {
	r   *mads.Received
	err error
}

// TestStartDo ends pending requests in each possible way. done is called exactly once, with what Do would return, and
// may call Do itself.
func TestStartDo(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		var server mads.Agent
		server = b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
			OnReceive: func(r *mads.Received) {
				r.MAD[3] = byte(mad.GetResp)
				assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: r.MAD}))
			}})
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Set}}) // it does not reply
		client := a.agent(mads.AgentConfig{})
		ends := make(chan outcome, 8)
		done := func(r *mads.Received, err error) { ends <- outcome{r, err} }
		message := func(m mad.Method) *mads.Message {
			return &mads.Message{To: b.address(), MAD: request(vendor, 1, m, 7), Timeout: time.Second}
		}

		m := message(mad.Get)
		require.NoError(t, client.StartDo(t.Context(), m, func(r *mads.Received, err error) {
			_, nested := client.Do(t.Context(), message(mad.Get))
			assert.NoError(t, nested)
			done(r, err)
		}))
		clear(m.MAD) // the caller may use m again
		got := <-ends
		require.NoError(t, got.err)
		assert.Equal(t, uint64(7), got.r.Header().TID, "the caller's transaction ID")

		start := time.Now()
		require.NoError(t, client.StartDo(context.Background(), message(mad.Set), done))
		got = <-ends
		assert.ErrorIs(t, got.err, ci.Timeout)
		assert.Nil(t, got.r)
		assert.Equal(t, time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.NoError(t, client.StartDo(ctx, message(mad.Set), done))
		assert.ErrorIs(t, (<-ends).err, context.DeadlineExceeded)
		assert.ErrorIs(t, client.StartDo(ctx, message(mad.Set), done), context.DeadlineExceeded, "it does not start")

		// A context that ends after the response changes nothing.
		ctx, cancel = context.WithCancel(t.Context())
		require.NoError(t, client.StartDo(ctx, message(mad.Get), done))
		require.NoError(t, (<-ends).err)
		cancel()
		require.NoError(t, client.StartDo(cancelable(t), message(mad.Set), done))
		require.NoError(t, client.Close())
		assert.ErrorIs(t, (<-ends).err, accesslayer.ErrClosed)
		assert.ErrorIs(t, client.StartDo(t.Context(), message(mad.Get), done), accesslayer.ErrClosed)

		client = a.agent(mads.AgentConfig{})
		assert.ErrorIs(t, client.StartDo(t.Context(), message(mad.GetResp), done), ci.InvalidParameter)
		assert.ErrorIs(t, client.StartDo(t.Context(), nil, done), ci.InvalidParameter)
		assert.ErrorIs(t, client.StartDo(t.Context(), message(mad.Get), nil), ci.InvalidParameter)
		time.Sleep(time.Minute)
		assert.Empty(t, ends, "done is called once for each request that started")
	})
}

// cancelable returns a context that ends with the test.
func cancelable(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx
}

// TestStartDoHasNoGoroutine counts the goroutines while 100 requests are pending.
func TestStartDoHasNoGoroutine(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Set}})
		client := a.agent(mads.AgentConfig{})
		ctx := cancelable(t)
		var ends atomic.Int32
		start := func() {
			m := &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Set, 7), Timeout: time.Second}
			require.NoError(t, client.StartDo(ctx, m, func(_ *mads.Received, err error) {
				assert.ErrorIs(t, err, ci.Timeout)
				ends.Add(1)
			}))
			synctest.Wait()
		}
		start()
		before := testenv.NumGoroutine()
		for range 100 {
			start()
		}
		assert.Less(t, testenv.NumGoroutine(), before+50, "100 requests are pending") // others may be about to exit
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 101, ends.Load())
	})
}
