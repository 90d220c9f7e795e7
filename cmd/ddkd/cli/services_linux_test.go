package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ual"
	"ciddk/ual/services"
)

// TestServices connects two clients of the daemon by IP address. The status lists the listener and the connections.
func TestServices(t *testing.T) {
	socket(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--adapter", "link=network,address=10.0.0.1", "--adapter",
			"link=network,address=10.0.0.2"}, io.Discard, io.Discard)
	}()
	require.NoError(t, dial(t).Close())
	one, err := services.Dial(services.Config{UAL: ual.Config{Name: "one"}})
	require.NoError(t, err)
	two, err := services.Dial(services.Config{UAL: ual.Config{Name: "two"}})
	require.NoError(t, err)
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	ln, err := one.Listen(at, rdmacm.ListenConfig{})
	require.NoError(t, err)
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		defer close(accepted)
		if q, err := ln.Accept(ctx); err == nil {
			if c, err := q.Accept(ctx); err == nil {
				accepted <- c
			}
		}
	}()
	a, err := two.Dial(ctx, at)
	require.NoError(t, err)
	b := <-accepted
	require.NotNil(t, b)
	require.NoError(t, a.Send(ctx, []byte("hello")))
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(m))

	var out, errs bytes.Buffer
	require.Zero(t, run(ctx, []string{"status"}, &out, &errs), errs.String())
	for _, want := range []string{"SENT BYTES  RECEIVED BYTES", "listener:1", "connection:1", "listener: service",
		"Established"} {
		assert.Contains(t, out.String(), want)
	}
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	stop()
	assert.Zero(t, <-done)
}
