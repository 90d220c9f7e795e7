package main

import (
	"bytes"
	"fmt"
	"net"
	"slices"
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
	table := &table{b: must(mapMemory(buckets * bucketLen))}
	go func() { served <- serve(ctx, server.Manager, ln, table) }()

	c, region, err := dial(ctx, client, ln.Addr().AddrPort)
	require.NoError(t, err)
	_, ok, err := get(ctx, c, region, "missing")
	require.NoError(t, err)
	assert.False(t, ok)
	require.NoError(t, put(ctx, c, "key", "a long value"))
	require.NoError(t, put(ctx, c, "key", "value"))
	value, ok, err := get(ctx, c, region, "key")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "value", value)
	require.Error(t, put(ctx, c, "", "value"))
	require.Error(t, put(ctx, c, "long", strings.Repeat("x", slotLen)))

	// One writer and readers of one key: no reader sees a mix of two values.
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			r, region, err := dial(ctx, client, ln.Addr().AddrPort)
			if !assert.NoError(t, err) {
				return
			}
			for range 50 {
				value, _, err := get(ctx, r, region, "shared")
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

	// A slot that stays torn is an error at the client, and no value; other buckets are not affected.
	slot, _ := find(table.b[bucketOf([]byte("key")):][:bucketLen], []byte("key"))
	slot[slotLen-1]++
	_, ok, err = get(ctx, c, region, "key")
	require.ErrorContains(t, err, "torn")
	assert.False(t, ok)
	_, ok, err = get(ctx, c, region, "shared")
	require.NoError(t, err)
	assert.True(t, ok)
	slot[slotLen-1]--

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

// TestTorn puts a value in place of another one of the same key, and has the first READs return a slot that is in part
// of the one and in part of the other, at every byte.
func TestTorn(t *testing.T) {
	t.Parallel()
	slots := make([][]byte, 2)
	for i, value := range []string{strings.Repeat("old", 50), strings.Repeat("new", 70)} {
		table := &table{b: make([]byte, buckets*bucketLen)}
		require.Equal(t, "ok", table.put([]byte("first\x00x"))) // in another bucket
		require.Equal(t, "ok", table.put([]byte("key\x00"+value)))
		slots[i] = table.b[bucketOf([]byte("key")):][:slotLen]
	}
	from, to := slots[0], slots[1]
	for at := 1; at < slotLen; at++ {
		torn := slices.Concat(to[:at], from[at:])
		if bytes.Equal(torn, from) || bytes.Equal(torn, to) {
			continue // such as the zeros at the end
		}
		for _, tears := range []int{1, attempts - 1, attempts} {
			reads := 0
			value, ok, err := lookup("key", func(bucket []byte) error {
				copy(bucket, torn)
				if reads++; reads > tears {
					copy(bucket, to)
				}
				return nil
			})
			if tears == attempts {
				require.ErrorContains(t, err, "torn", at)
				require.Equal(t, attempts, reads)
				continue
			}
			require.NoError(t, err, at)
			require.True(t, ok, at)
			require.Equal(t, strings.Repeat("new", 70), value, at)
			require.Equal(t, tears+1, reads, at)
		}
	}
	_, _, err := lookup("key", func([]byte) error { return net.ErrClosed })
	require.ErrorIs(t, err, net.ErrClosed)
}
