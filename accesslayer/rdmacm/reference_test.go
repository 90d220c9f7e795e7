package rdmacm_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/mad"
)

// accepted is what the passive end of a test does with a request, on a goroutine.
type accepted struct {
	id  *rdmacm.ID
	err error
}

// serve accepts one request.
func serve(t *testing.T, ln *rdmacm.Listener, setup func(*rdmacm.ID), cfg rdmacm.ConnConfig) <-chan accepted {
	ctx := within(t)
	c := make(chan accepted, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if err == nil {
			if err = id.CreateQP(rdmacm.QPConfig{}); err == nil {
				if setup != nil {
					setup(id)
				}
				err = id.Accept(ctx, cfg)
			}
		}
		c <- accepted{id, err}
	}()
	return c
}

// A connection by IP address over UDP ports: private data both ways, a message each way, disconnect by either side.
func TestConnect(t *testing.T) {
	tests := map[string]struct {
		server, client string
		listen         string
		typ            ci.QPType
		serverLeaves   bool
	}{
		"IPv4":                {server: "127.0.0.1", client: "127.0.0.2", listen: "127.0.0.1:7174"},
		"IPv4, any":           {server: "127.0.0.1", client: "127.0.0.2", listen: "0.0.0.0:7174", serverLeaves: true},
		"any of both":         {server: "127.0.0.1", client: "127.0.0.2", listen: "[::]:7174"},
		"unreliable":          {server: "127.0.0.1", client: "127.0.0.2", listen: "127.0.0.1:7174", typ: ci.UC},
		"IPv6, to itself":     {server: "::1", listen: "[::1]:7174", serverLeaves: true},
		"IPv4, to itself, UC": {server: "127.0.0.1", listen: "127.0.0.1:7174", typ: ci.UC, serverLeaves: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newHost(t, tt.server)
			c := s
			if tt.client != "" {
				c = newHost(t, tt.client)
			}
			ctx := within(t)
			ln, err := s.m.Listen(ap(tt.listen), rdmacm.ListenConfig{})
			require.NoError(t, err)
			var in *buffer
			peer := serve(t, ln, func(id *rdmacm.ID) {
				assert.Equal(t, "hello", string(id.Request().Private[:5]))
				assert.Len(t, id.Request().Private, rdmacm.ConnectLen)
				assert.Equal(t, tt.typ, id.Request().Type)
				in = newBuffer(t, id, 64)
				_, err := id.QP().PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{in.r.SGE(0, 64)}}})
				assert.NoError(t, err)
			}, rdmacm.ConnConfig{Private: []byte("welcome")})
			to := gidAddr(tt.server)
			id, err := c.m.Dial(ctx, to, rdmacm.DialConfig{ID: rdmacm.IDConfig{Type: tt.typ}, Conn: rdmacm.ConnConfig{Private: []byte("hello")}})
			require.NoError(t, err)
			p := <-peer
			require.NoError(t, p.err)
			assert.Equal(t, "welcome", string(id.Reply()[:7]))
			assert.Len(t, id.Reply(), rdmacm.AcceptLen)
			assert.Equal(t, to, id.RemoteAddr().AddrPort)
			assert.Equal(t, id.LocalAddr(), p.id.RemoteAddr())
			assert.Equal(t, to, p.id.LocalAddr().AddrPort)

			out := newBuffer(t, id, 64)
			copy(out.b, "a message")
			_, err = id.QP().PostSend([]ci.SendWR{{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{out.r.SGE(0, 9)}}})
			require.NoError(t, err)
			wc := make([]ci.WC, 1)
			_, err = id.SendCQ().Wait(ctx, wc)
			require.NoError(t, err)
			assert.Equal(t, ci.WCSuccess, wc[0].Status)
			_, err = p.id.RecvCQ().Wait(ctx, wc)
			require.NoError(t, err)
			assert.Equal(t, ci.WCSuccess, wc[0].Status)
			assert.Equal(t, "a message", string(in.b[:9]))

			leaver, other := id, p.id
			if tt.serverLeaves {
				leaver, other = other, leaver
			}
			require.NoError(t, leaver.Disconnect(ctx))
			assert.ErrorIs(t, leaver.Err(), rdmacm.ErrDisconnected)
			await(t, other.Done(), "the end of the connection")
			assert.ErrorIs(t, other.Err(), rdmacm.ErrPeerDisconnected)
			for _, e := range []*rdmacm.ID{leaver, other} {
				attr, err := e.QP().Query()
				require.NoError(t, err)
				assert.Equal(t, ci.QPError, attr.State)
				require.NoError(t, e.Disconnect(ctx), "once more does no harm")
				for ev := (rdmacm.Event{}); ev.Type != rdmacm.EventDisconnected; {
					ev, err = e.Next(ctx)
					require.NoError(t, err)
				}
				require.NoError(t, e.Close())
				require.NoError(t, e.Close())
			}
			require.NoError(t, ln.Close())
			require.NoError(t, ln.Close())
		})
	}
}

// What nobody wants ends with an error that says so.
func TestRefused(t *testing.T) {
	s, c := newHost(t, "127.0.0.1"), newHost(t, "127.0.0.2")
	ctx := within(t)
	_, err := c.m.Dial(ctx, ap("127.0.0.1:7174"), rdmacm.DialConfig{})
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	r, ok := errors.AsType[*cm.RejectError](err)
	require.True(t, ok)
	assert.Equal(t, mad.RejInvalidServiceID, r.Reason)
	assert.ErrorContains(t, err, "connect rdma-tcp 127.0.0.2:")

	ln, err := s.m.Listen(ap("127.0.0.1:7174"), rdmacm.ListenConfig{})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if err == nil {
			err = id.Reject([]byte("no, because"))
		}
		done <- err
	}()
	_, err = c.m.Dial(ctx, ap("127.0.0.1:7174"), rdmacm.DialConfig{})
	require.NoError(t, <-done)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	r, ok = errors.AsType[*cm.RejectError](err)
	require.True(t, ok)
	assert.Equal(t, mad.RejConsumer, r.Reason)
	assert.Equal(t, "no, because", string(r.Private[:11]))

	_, err = c.m.Dial(ctx, ap("127.0.0.1:7174"), rdmacm.DialConfig{ID: rdmacm.IDConfig{Space: rdmacm.UDP}})
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "ports of other spaces are others")
	_, ok = errors.AsType[*cm.LookupError](err)
	require.True(t, ok)
}
