package verbs

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestLibfabric runs libfabric's ping-pong over connections of its provider for verbs. The adapter has an address of
// the machine, in a simulated network, because libfabric uses the addresses of network interfaces only, and not those
// of the loopback interface.
func TestLibfabric(t *testing.T) {
	testenv.Long(t)
	address := interfaceAddress(t)
	for _, to := range []string{address, "127.0.0.1"} {
		t.Run(to, func(t *testing.T) {
			port := strconv.Itoa(freePort(t))
			out := newRigAt(t, address).serveOnPort(port, "fi_pingpong -p verbs -e msg -I 10 -B "+port,
				"fi_pingpong -p verbs -e msg -I 10 -P "+port+" "+to)
			assert.Contains(t, out, "bytes   #sent")
		})
	}
}

// serveOnPort runs a server and, when it listens on a TCP port, a client, whose output it returns.
func (r *rig) serveOnPort(port, server, client string) string {
	n, err := strconv.Atoi(port)
	require.NoError(r.t, err)
	s, serverOut := r.command(strings.Fields(server)...)
	require.NoError(r.t, s.Start())
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	awaitListener(r.t, n, ended, waiting{r, s.Process.Pid, serverOut})
	c, out := r.client().command(strings.Fields(client)...)
	err = c.Run()
	if err != nil {
		_ = s.Process.Kill() // it fails if the server has ended
	}
	serverErr := <-ended
	require.NoError(r.t, err, "client %s:\n%s\nserver:\n%s", client, out, serverOut)
	require.NoError(r.t, serverErr, "server %s:\n%s", server, serverOut)
	return out.String()
}

// interfaceAddress returns an IPv4 address of a network interface other than the loopback interface.
func interfaceAddress(t *testing.T) string {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	t.Skip("this machine has no IPv4 address except for loopback")
	return ""
}
