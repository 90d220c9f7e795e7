package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/testenv"
	"ciddk/softroce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Several clients put and get at the same time: each reads what was put, whole.
func TestStore(t *testing.T) {
	const serverIP, clientIP = "127.20.21.1", "127.20.21.2"
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, err := softroce.Open(netip.MustParseAddr(serverIP), softroce.Config{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close()) }()
	client, err := softroce.Open(netip.MustParseAddr(clientIP), softroce.Config{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Close()) }()
	ln, err := server.Listen(netip.MustParseAddrPort(serverIP+":7300"), rdmacm.ListenConfig{})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server, ln) }()

	c, table, err := dial(ctx, client, ln.Addr().AddrPort)
	require.NoError(t, err)
	_, ok, err := get(ctx, c, table, "missing")
	require.NoError(t, err)
	assert.False(t, ok)
	require.NoError(t, put(ctx, c, "key", "a long value"))
	require.NoError(t, put(ctx, c, "key", "value"))
	value, ok, err := get(ctx, c, table, "key")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "value", value)
	require.Error(t, put(ctx, c, "", "value"))
	require.Error(t, put(ctx, c, "long", strings.Repeat("x", slotLen)))

	// One writer and readers of one key: no reader sees a mix of two values.
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			r, table, err := dial(ctx, client, ln.Addr().AddrPort)
			if !assert.NoError(t, err) {
				return
			}
			for range 50 {
				value, _, err := get(ctx, r, table, "shared")
				whole := value == "" || value == strings.Repeat(value[:1], 200)
				if !assert.NoError(t, err) || !assert.True(t, whole, value) {
					return
				}
			}
			assert.NoError(t, r.Close())
		})
	}
	for i := range 50 {
		require.NoError(t, put(ctx, c, "shared", strings.Repeat(fmt.Sprint(i%10), 200)))
	}
	wg.Wait()

	// A bucket that is full says so.
	var full error
	for i := 0; full == nil && i < 20*buckets; i++ {
		if key := fmt.Sprint(i); bucketOf([]byte(key)) == bucketOf([]byte("key")) {
			full = put(ctx, c, key, "x")
		}
	}
	require.ErrorContains(t, full, "no room")
	require.NoError(t, c.Close())
	require.NoError(t, ln.Close())
	require.Error(t, <-served)
}
