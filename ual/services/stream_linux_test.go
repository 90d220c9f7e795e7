package services_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/kproxy"
)

// TestStream checks that the stream between two processes is a net.Conn.
func TestStream(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	server, client := r.manager(), r.manager()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
		ln, err := server.Listen(at, rdmacm.ListenConfig{})
		if err != nil {
			return nil, nil, nil, err
		}
		accepted := make(chan *rdmacm.Conn, 1)
		go func() {
			defer close(accepted)
			if q, err := ln.Accept(t.Context()); err == nil {
				if c, err := q.Accept(t.Context()); err == nil {
					accepted <- c
				}
			}
		}()
		c, err := client.Dial(deadline(t), at)
		if err != nil {
			ln.Close()
			return nil, nil, nil, err
		}
		x, y := rdmacm.NewStream(c), rdmacm.NewStream(<-accepted)
		return x, y, func() {
			x.Close()
			y.Close()
			ln.Close()
		}, nil
	})
}

// TestDatagram looks up the queue pair of another process, and sends datagrams to it.
func TestDatagram(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	server, client := r.manager(), r.manager()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	s, err := server.ListenDatagram(at, rdmacm.DatagramConfig{})
	require.NoError(t, err)
	c, err := client.ListenDatagram(netip.MustParseAddrPort("10.0.0.2:0"), rdmacm.DatagramConfig{})
	require.NoError(t, err)
	ctx := deadline(t)
	peer, err := c.Lookup(ctx, at)
	require.NoError(t, err)
	require.NoError(t, c.SendTo(ctx, []byte("datagram"), peer))
	b := make([]byte, 64)
	n, from, err := s.RecvFrom(ctx, b)
	require.NoError(t, err)
	assert.Equal(t, "datagram", string(b[:n]))
	require.NoError(t, s.SendTo(ctx, []byte("reply"), from))
	n, _, err = c.RecvFrom(ctx, b)
	require.NoError(t, err)
	assert.Equal(t, "reply", string(b[:n]))
	require.NoError(t, s.Close())
	var failed *cm.LookupError
	_, err = c.Lookup(ctx, at)
	require.ErrorAs(t, err, &failed, "nobody listens any more")
	require.NoError(t, c.Close())
}

// TestReject rejects a request with private data, and ends a dial by its context.
func TestReject(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	server, client := r.manager(), r.manager()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	ln, err := server.IDs().Listen(at, cmid.ListenConfig{})
	require.NoError(t, err)
	go func() {
		if id, err := ln.Accept(t.Context()); err == nil {
			_ = id.Reject([]byte("not today")) // the dial reports it
			_ = id.Close()
		}
	}()
	var rejected *cm.RejectError
	_, err = client.IDs().Dial(deadline(t), at, cmid.DialConfig{})
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, "not today", string(rejected.Private[:9]))

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.IDs().Dial(ctx, at, cmid.DialConfig{}) // nobody accepts
	require.ErrorIs(t, err, ctx.Err())
	require.NoError(t, ln.Close())
	eventually(t, "the end of the request in the daemon", func() bool {
		n := 0
		for _, c := range r.core.Status().Clients {
			n += c.Objects["connection"]
		}
		return n == 0
	})
}
