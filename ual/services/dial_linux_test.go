package services_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// TestDial connects two clients of a daemon by IP address: messages, a stream, and the end of the connection.
func TestDial(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	server, client := r.manager(), r.manager()
	ctx := deadline(t)
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	ln, err := server.Listen(at, rdmacm.ListenConfig{})
	require.NoError(t, err)
	_, err = client.Listen(at, rdmacm.ListenConfig{})
	require.ErrorIs(t, err, syscall.EADDRINUSE, "another process has the port")

	served := make(chan error, 1)
	go func() {
		served <- func() error {
			q, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			c, err := q.Accept(ctx)
			if err != nil {
				return err
			}
			for {
				b, err := c.Recv(ctx)
				if errors.Is(err, io.EOF) || errors.Is(err, rdmacm.ErrEnded) {
					return c.Close()
				}
				if err == nil {
					err = c.Send(ctx, b)
				}
				if err != nil {
					return err
				}
			}
		}()
	}()
	c, err := client.Dial(ctx, at)
	require.NoError(t, err)
	for _, text := range []string{"hello", "daemon"} {
		require.NoError(t, c.Send(ctx, []byte(text)))
		b, err := c.Recv(ctx)
		require.NoError(t, err)
		assert.Equal(t, text, string(b))
	}
	require.NoError(t, c.Close())
	require.NoError(t, <-served)
	require.NoError(t, ln.Close())

	_, err = client.Dial(ctx, at)
	_, rejected := errors.AsType[*cm.RejectError](err)
	assert.True(t, rejected, "nobody listens any more: %v", err)
	ln, err = client.Listen(at, rdmacm.ListenConfig{})
	require.NoError(t, err, "the port is free again")
	require.NoError(t, ln.Close())
}
