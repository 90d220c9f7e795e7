package rdmacm_test

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/cmrig"
)

// TestListenInZones listens on one port of one link-local address on two rails. Each listener receives the requests of
// its rail. An address without a zone is that of the first adapter, whose zone it gets.
func TestListenInZones(t *testing.T) {
	rails := []*lan{newLAN(), newLAN()}
	server := rails[0].Host(t, "fe80::1%rail0")
	server.LAN = rails[1].Network
	server.Plug(t, "fe80::1%rail1")
	var listeners []*rdmacm.Listener
	for _, at := range []string{"[fe80::1%rail0]:7174", "[fe80::1%rail1]:7174"} {
		ln, err := server.M.Listen(netip.MustParseAddrPort(at), rdmacm.ListenConfig{})
		require.NoError(t, err, at)
		assert.Equal(t, at, ln.Addr().AddrPort.String())
		listeners = append(listeners, ln)
	}
	for _, at := range []string{"[fe80::1]:7174", "[fe80::1%rail0]:7174", "[fe80::1%rail1]:7174"} {
		_, err := server.M.Listen(netip.MustParseAddrPort(at), rdmacm.ListenConfig{})
		require.ErrorIs(t, err, syscall.EADDRINUSE, at)
	}
	for i, rail := range rails {
		client := rail.Host(t, "fe80::2%rail")
		ctx := cmrig.Within(t)
		type result struct {
			c   *rdmacm.Conn
			err error
		}
		accepted := make(chan result, 1)
		go func() {
			var r result
			var request *rdmacm.Request
			if request, r.err = listeners[i].Accept(ctx); r.err == nil {
				r.c, r.err = request.Accept(ctx)
			}
			accepted <- r
		}()
		c, err := client.M.Dial(ctx, netip.MustParseAddrPort("[fe80::1%rail]:7174"))
		require.NoError(t, err, "rail %d", i)
		r := <-accepted
		require.NoError(t, r.err)
		assert.Equal(t, listeners[i].Addr().AddrPort, r.c.LocalAddr().AddrPort)
		require.NoError(t, c.Close())
		require.NoError(t, r.c.Close())
	}
	for _, ln := range listeners {
		require.NoError(t, ln.Close())
	}
}
