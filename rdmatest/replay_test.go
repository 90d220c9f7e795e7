package rdmatest_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
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

// echo answers the messages of a number of connections, and returns when all have ended.
func echo(ctx context.Context, ln *rdmacm.Listener, connCount int) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	for range connCount {
		request, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		conns.Go(func() {
			c, err := request.Accept(ctx)
			if err != nil {
				return
			}
			for err == nil {
				var m []byte
				if m, err = c.Recv(ctx); err == nil {
					err = c.Send(ctx, m)
				}
			}
			_ = c.Close()
		})
	}
	return nil
}

// chat sends messages of several lengths to an echo.
func chat(ctx context.Context, h, server *rdmatest.Host) error {
	c, err := h.Dial(ctx, server.AddrPort(7174))
	for i := 0; err == nil && i < 10; i++ {
		if err = c.Send(ctx, make([]byte, 300*i)); err == nil {
			_, err = c.Recv(ctx)
		}
	}
	if err != nil {
		return err
	}
	return c.Close()
}

// conversation runs chats at the same time, and returns the trace and its hash. Without an interval each is on a host
// of its own and all begin at one instant; otherwise they share a host, and begin one interval after the other.
func conversation(t *testing.T, cfg rdmatest.Config, clientCount int, interval time.Duration) (
	hash string, trace []rdmatest.Packet) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		names := []string{"server", "client 0"}
		for i := 1; i < clientCount && interval == 0; i++ {
			names = append(names, fmt.Sprint("client ", i))
		}
		n := rdmatest.New(t, cfg, names...)
		server := n.Host("server")
		ln, err := server.Listen(server.AddrPort(7174), rdmacm.ListenConfig{})
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, echo(t.Context(), ln, clientCount)) })
		for i := range clientCount {
			h := n.Host(names[1+i%(len(names)-1)])
			all.Go(func() {
				time.Sleep(time.Duration(i) * interval)
				assert.NoError(t, chat(t.Context(), h, server))
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		hash, trace = n.TraceHash(), n.Trace()
	})
	return hash, trace
}

var badNetwork = impair.Model{Drop: 0.02, Duplicate: 0.02, Reorder: 0.02, Delay: 0.02, Corrupt: 0.01}

// TestReplay runs eight clients on hosts of their own, which begin at one instant: the same seed is the same run,
// packet by packet, on a good network and on a bad one. Another seed is another run.
func TestReplay(t *testing.T) {
	for name, faults := range map[string]impair.Model{"good": {}, "bad": badNetwork} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for seed := range uint64(3) {
				cfg := rdmatest.Config{Seed: seed, Faults: faults}
				first, trace := conversation(t, cfg, 8, 0)
				require.Greater(t, len(trace), 8*2*20)
				for range 3 {
					again, other := conversation(t, cfg, 8, 0)
					require.Equal(t, first, again, "seed %d: %s", seed, rdmatest.Difference(trace, other))
				}
				seen[first] = true
			}
			require.Len(t, seen, 3)
		})
	}
}

// TestReplayOnOneHost runs eight clients on one host, which begin one after the other.
func TestReplayOnOneHost(t *testing.T) {
	first, trace := conversation(t, rdmatest.Config{}, 8, time.Microsecond)
	for range 3 {
		again, other := conversation(t, rdmatest.Config{}, 8, time.Microsecond)
		require.Equal(t, first, again, rdmatest.Difference(trace, other))
	}
}

// oneSided runs a client that reads, writes and changes memory of a server by RDMA, and returns the trace.
func oneSided(t *testing.T, cfg rdmatest.Config) (trace []rdmatest.Packet, hash string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, cfg, "server", "client")
		server, client := n.Host("server"), n.Host("client")
		ln, err := server.Listen(server.AddrPort(7174), rdmacm.ListenConfig{})
		require.NoError(t, err)
		memory := server.NewMemory(ci.Bytes(make([]byte, 10000)), ci.RemoteRead|ci.RemoteWrite|ci.RemoteAtomic)
		defer memory.Close()
		ctx := t.Context()
		var all sync.WaitGroup
		all.Go(func() {
			request, err := ln.Accept(ctx)
			require.NoError(t, err)
			c, err := request.Accept(ctx)
			require.NoError(t, err)
			region, err := memory.Region(c)
			require.NoError(t, err)
			b, err := region.MarshalBinary()
			require.NoError(t, err)
			require.NoError(t, c.Send(ctx, b))
			_, _ = c.Recv(ctx) // until the client closes
			_ = c.Close()
		})
		c, err := client.Dial(ctx, server.AddrPort(7174))
		require.NoError(t, err)
		b, err := c.Recv(ctx)
		require.NoError(t, err)
		var region rdmacm.Region
		require.NoError(t, region.UnmarshalBinary(b))
		data := bytes.Repeat([]byte{7}, 9000)
		require.NoError(t, c.Write(ctx, region, data))
		require.NoError(t, c.Read(ctx, make([]byte, 9000), region))
		local := client.NewMemory(ci.Bytes(data), 0)
		defer local.Close()
		require.NoError(t, c.ReadInto(ctx, local, 100, 5000, region))
		require.NoError(t, c.WriteFrom(ctx, region, local, 0, 9000))
		word, err := region.Slice(8, 8)
		require.NoError(t, err)
		before, err := c.FetchAdd(ctx, word, 5)
		require.NoError(t, err)
		_, err = c.CompareSwap(ctx, word, before+5, 9)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		all.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		trace, hash = n.Trace(), n.TraceHash()
	})
	return trace, hash
}

// TestReplayOneSided replays READ, WRITE and atomics, whose packets have addresses of the server's memory. What is
// allocated in between does not change them.
func TestReplayOneSided(t *testing.T) {
	for name, faults := range map[string]impair.Model{"good": {}, "bad": badNetwork} {
		t.Run(name, func(t *testing.T) {
			cfg := rdmatest.Config{Seed: 5, Faults: faults}
			first, hash := oneSided(t, cfg)
			for i := range 3 {
				waste := make([]byte, 100_000*(i+1))
				again, hashAgain := oneSided(t, cfg)
				require.Empty(t, rdmatest.Difference(first, again))
				require.Equal(t, hash, hashAgain)
				runtime.KeepAlive(waste)
			}
			cfg.Seed++
			other, _ := oneSided(t, cfg)
			require.Contains(t, rdmatest.Difference(first, other), "packet 0:")
			require.Contains(t, rdmatest.Difference(first, first[:3]), "packet 3:")
		})
	}
}
