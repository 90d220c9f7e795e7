package rdmacm_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/cmrig"
)

func TestDatagramEndpoint(t *testing.T) {
	for name, ip := range map[string][2]string{"IPv4": {"10.66.0.1", "10.66.0.2"}, "IPv6": {"fd66::1", "fd66::2"}} {
		t.Run(name, func(t *testing.T) {
			l := newLAN()
			s, c := l.Host(t, ip[0]), l.Host(t, ip[1])
			ctx := cmrig.Within(t)
			server, err := s.M.ListenDatagram(netip.AddrPortFrom(netip.MustParseAddr(ip[0]), 7174),
				rdmacm.DatagramConfig{Private: []byte("here")})
			require.NoError(t, err)
			defer func() { assert.NoError(t, server.Close()) }()
			client, err := c.M.ListenDatagram(netip.AddrPortFrom(netip.MustParseAddr(ip[1]), 0),
				rdmacm.DatagramConfig{Depth: 4})
			require.NoError(t, err)
			defer func() { assert.NoError(t, client.Close()) }()
			to, err := client.Lookup(ctx, server.LocalAddr().AddrPort)
			require.NoError(t, err)
			buf := make([]byte, server.MaxMessage())
			for i := range 50 { // more than the number of buffers
				question := fmt.Sprint("question ", i)
				require.NoError(t, client.SendTo(ctx, []byte(question), to))
				if i == 0 {
					n, _, err := server.RecvFrom(ctx, buf[:3])
					require.ErrorIs(t, err, io.ErrShortBuffer)
					require.Equal(t, len(question), n)
				}
				n, from, err := server.RecvFrom(ctx, buf)
				require.NoError(t, err)
				require.Equal(t, question, string(buf[:n]))
				require.NoError(t, server.SendTo(ctx, []byte("answer"), from))
				n, _, err = client.RecvFrom(ctx, buf)
				require.NoError(t, err)
				require.Equal(t, "answer", string(buf[:n]))
			}
			require.NoError(t, client.SendTo(ctx, make([]byte, client.MaxMessage()), to), "the longest")
			n, _, err := server.RecvFrom(ctx, buf)
			require.NoError(t, err)
			assert.Equal(t, server.MaxMessage(), n)
			require.ErrorIs(t, client.SendTo(ctx, make([]byte, client.MaxMessage()+1), to), ci.InvalidParameter)

			group := netip.MustParseAddr("239.77.1.9")
			if name == "IPv6" {
				group = netip.MustParseAddr("ff15::77")
			}
			_, err = server.Join(ctx, group, rdmacm.JoinConfig{})
			require.NoError(t, err)
			g, err := client.Join(ctx, group, rdmacm.JoinConfig{SendOnly: true})
			require.NoError(t, err)
			require.NoError(t, client.SendTo(ctx, []byte("to all"), g.Peer()))
			n, _, err = server.RecvFrom(ctx, buf)
			require.NoError(t, err)
			assert.Equal(t, "to all", string(buf[:n]))

			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, _, err = client.RecvFrom(ended, buf)
			require.ErrorIs(t, err, context.Canceled)
			blocked := make(chan error, 1)
			go func() {
				_, _, err := server.RecvFrom(ctx, buf)
				blocked <- err
			}()
			require.NoError(t, server.Close())
			err = <-blocked
			require.ErrorIs(t, err, rdmacm.ErrEnded)
			require.ErrorIs(t, err, net.ErrClosed)
			require.ErrorIs(t, server.SendTo(ctx, nil, to), net.ErrClosed)
			_, err = client.Lookup(ctx, server.LocalAddr().AddrPort)
			require.Error(t, err)
		})
	}
}

// TestDatagramManyPeers tests an endpoint that replies to more senders than it keeps address vectors for.
func TestDatagramManyPeers(t *testing.T) {
	l := newLAN()
	s := l.Host(t, "10.66.0.1")
	ctx := cmrig.Within(t)
	d, err := s.M.ListenDatagram(ap("10.66.0.1:0"), rdmacm.DatagramConfig{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	for i := range 600 {
		at := netip.AddrFrom4([4]byte{10, 66, byte(1 + i/200), byte(1 + i%200)})
		to := rdmacm.Peer{QPN: 17, QKey: cmid.QKey, AV: ci.AVAttr{Port: 1, Global: true,
			GRH: ci.GRH{DGID: ci.GID(at.As16()), HopLimit: 64}}}
		require.NoError(t, d.SendTo(ctx, []byte("x"), to))
	}
	assert.LessOrEqual(t, s.HCAs["10.66.0.1"].Live()["AV"], 256+20)
}

func TestDatagramMistakes(t *testing.T) {
	l := newLAN()
	s := l.Host(t, "10.66.0.1")
	_, err := s.M.ListenDatagram(netip.AddrPort{}, rdmacm.DatagramConfig{})
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	_, err = s.M.ListenDatagram(ap("10.66.0.9:0"), rdmacm.DatagramConfig{})
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	_, err = s.M.ListenDatagram(ap("10.66.0.1:0"), rdmacm.DatagramConfig{Depth: -1})
	require.ErrorIs(t, err, ci.InvalidParameter)
	d, err := s.M.ListenDatagram(ap("10.66.0.1:7"), rdmacm.DatagramConfig{})
	require.NoError(t, err)
	_, err = s.M.ListenDatagram(ap("10.66.0.1:7"), rdmacm.DatagramConfig{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	d, err = s.M.ListenDatagram(ap("10.66.0.1:7"), rdmacm.DatagramConfig{})
	require.NoError(t, err, "Close has released the port")
	require.NoError(t, d.Close())
}
