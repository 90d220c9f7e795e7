package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer/rdmacm"
	"ciddk/rdmatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStore has several clients put and get at the same time: each reads what was put, whole.
func TestStore(t *testing.T) { synctest.Test(t, testStore) }

func testStore(t *testing.T) {
	n := rdmatest.New(t, rdmatest.Config{}, "server", "client")
	server, client := n.Host("server"), n.Host("client").Manager
	ctx := t.Context()
	ln, err := server.Listen(server.AddrPort(7300), rdmacm.ListenConfig{})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server.Manager, ln) }()

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
