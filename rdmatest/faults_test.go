package rdmatest_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/link/impair"
	"ciddk/rdmatest"
)

// connect returns the two ends of a connection between two hosts.
func connect(t *testing.T, client, server *rdmatest.Host) (dialed, accepted *rdmacm.Conn) {
	t.Helper()
	ln, err := server.Listen(server.AddrPort(0), rdmacm.ListenConfig{})
	require.NoError(t, err)
	done := make(chan *rdmacm.Conn)
	go func() {
		defer close(done)
		request, err := ln.Accept(t.Context())
		if !assert.NoError(t, err) {
			return
		}
		c, err := request.Accept(t.Context())
		assert.NoError(t, err)
		done <- c
	}()
	dialed, err = client.Dial(t.Context(), ln.Addr().AddrPort)
	require.NoError(t, err)
	accepted = <-done
	require.NotNil(t, accepted)
	require.NoError(t, ln.Close())
	return dialed, accepted
}

// TestSeveralNetworks checks that a test can have several networks, and that nothing that a program has used in one
// bubble reaches another.
func TestSeveralNetworks(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			for _, seed := range []uint64{1, 2} {
				n := rdmatest.New(t, rdmatest.Config{Seed: seed}, "a", "b")
				dialed, accepted := connect(t, n.Host("a"), n.Host("b"))
				go func() { assert.NoError(t, dialed.Send(t.Context(), []byte("hello"))) }()
				b, err := accepted.Recv(t.Context())
				require.NoError(t, err)
				require.Equal(t, "hello", string(b))
				require.NoError(t, dialed.Close())
				require.NoError(t, accepted.Close())
			}
		})
	}
}

// TestKill checks both ends of a connection whose host dies: the program there gets errors at once, its peer after the
// retries of the transport.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{}, "server", "client")
		server, client := n.Host("server"), n.Host("client")
		c, s := connect(t, client, server)
		ln, err := server.Listen(server.AddrPort(7174), rdmacm.ListenConfig{})
		require.NoError(t, err)
		connEnd, listenerEnd := make(chan error, 1), make(chan error, 1)
		go func() { _, err := s.Recv(t.Context()); connEnd <- err }()
		go func() { _, err := ln.Accept(t.Context()); listenerEnd <- err }()
		synctest.Wait()
		before := n.Trace()
		n.Kill("server")
		err = <-connEnd
		assert.ErrorIs(t, err, rdmacm.ErrEnded)
		assert.ErrorIs(t, err, rdmacm.ErrDeviceRemoved)
		assert.ErrorIs(t, <-listenerEnd, net.ErrClosed)

		start := time.Now()
		require.NoError(t, c.Send(t.Context(), []byte("are you there?")))
		err = c.Flush(t.Context())
		require.ErrorIs(t, err, rdmacm.ErrEnded)
		require.ErrorIs(t, err, ci.WCTimeoutRetryErr.Err())
		assert.InDelta(t, 4.3, time.Since(start).Seconds(), 1)
		for _, p := range n.Trace()[len(before):] {
			assert.True(t, p.Arrived || p.Verdict == impair.Drop, "sent after the end of the server: %v", p)
		}

		// A new server at the same address.
		again := n.Restart("server")
		assert.Same(t, again, n.Host("server"))
		assert.Equal(t, server.Addr, again.Addr)
		c, s = connect(t, client, again)
		require.NoError(t, c.Send(t.Context(), []byte("hello")))
		m, err := s.Recv(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "hello", string(m))
	})
}

// TestPartition parts two of three hosts. A connection between them waits and goes on, and the third host notices
// nothing.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{Latency: time.Millisecond}, "a", "b", "c")
		ab, ba := connect(t, n.Host("a"), n.Host("b"))
		ac, ca := connect(t, n.Host("a"), n.Host("c"))
		roundTrip := func(x, y *rdmacm.Conn) time.Duration {
			start := time.Now()
			require.NoError(t, x.Send(t.Context(), []byte("hello")))
			_, err := y.Recv(t.Context())
			require.NoError(t, err)
			require.NoError(t, x.Flush(t.Context()))
			return time.Since(start)
		}
		whole := roundTrip(ab, ba)
		assert.InDelta(t, 2*time.Millisecond, whole, float64(10*time.Microsecond))
		n.Partition("b", "a")
		time.AfterFunc(time.Second, func() { n.Heal("a", "b") })
		assert.Less(t, roundTrip(ac, ca), 3*time.Millisecond)
		parted := roundTrip(ab, ba)
		assert.Greater(t, parted, time.Second)
		assert.Less(t, parted, 2*time.Second)
		n.Heal("a", "b") // a second time
	})
}

// TestBreakQP breaks one end of a connection: both programs learn of it without a timeout.
func TestBreakQP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{IPv6: true}, "server", "client")
		c, s := connect(t, n.Host("client"), n.Host("server"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		peer := make(chan error, 1)
		go func() { _, err := s.Recv(ctx); peer <- err }()
		n.BreakQP(c)
		_, err := c.Recv(ctx)
		require.ErrorIs(t, err, rdmacm.ErrQPFailed)
		require.ErrorIs(t, err, rdmacm.ErrEnded)
		require.ErrorIs(t, <-peer, rdmacm.ErrPeerDisconnected)
	})
}
