package verbs

import (
	"bytes"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// early are in the output of a client of perftest whose second connection was refused: with -R, a server of perftest
// ends its listener after the first connection and creates another one for the second, and nothing makes the client
// wait for it. Without a listener, Linux answers a REQ with a REJ of reason 8, invalid service ID, and a SIDR REQ with
// the status 1, service ID not supported, and does not repeat either (cm_req_handler, cm_sidr_req_handler). perftest
// does not repeat them either.
var early = []string{"RDMA_CM_EVENT_REJECTED; error: 8", "RDMA_CM_EVENT_UNREACHABLE; error: 1"}

// wasEarly reports whether a client's output contains one of early.
func wasEarly(out string) bool {
	return slices.ContainsFunc(early, func(text string) bool { return strings.Contains(out, text) })
}

// connect runs a server and a client, whose output it returns, again if the client of perftest was early. env is added
// to the environment. With isEndless, the server does not end by itself.
func (r *rig) connect(server, client string, isEndless bool, env ...string) string {
	for begin := time.Now(); ; {
		out, serverOut, err, serverErr := r.connectOnce(server, client, isEndless, env)
		if err != nil && wasEarly(out) && time.Since(begin) < patience {
			continue
		}
		if !hasLostChannel(out) {
			require.NoError(r.t, err, "client %s:\n%s\nserver:\n%s", client, out, serverOut)
		}
		if !isEndless && !hasLostChannel(serverOut) {
			require.NoError(r.t, serverErr, "server %s:\n%s", server, serverOut)
		}
		return out
	}
}

// hasLostChannel reports whether the output is that of a race at the end of rping, which it has on Linux, too: its main
// thread closes the event channel on which another thread waits. If that thread sees the error before the process
// exits, it determines the exit status.
func hasLostChannel(out string) bool {
	return strings.HasSuffix(strings.TrimSpace(out), "rdma_get_cm_event: Bad file descriptor")
}

// connectOnce runs a server and, when it listens, a client. A client that connects earlier is refused, and one with
// several connections could even find the server between two of them.
func (r *rig) connectOnce(server, client string, isEndless bool, env []string) (out, serverOut string,
	err, serverErr error,
) {
	s, sb := r.command(strings.Fields(server)...)
	s.Env = append(s.Env, env...)
	require.NoError(r.t, s.Start())
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	require.Eventually(r.t, func() bool { return r.isServed() || len(ended) > 0 }, patience, 5*time.Millisecond)
	c, cb := r.client().command(strings.Fields(client)...)
	c.Env = append(c.Env, env...)
	err = c.Run()
	if err != nil || isEndless {
		_ = s.Process.Kill() // it fails if the server has ended
	}
	serverErr = <-ended
	return cb.String(), sb.String(), err, serverErr
}

// TestConnect runs the programs of librdmacm: connections, datagrams and rsockets.
func TestConnect(t *testing.T) {
	testenv.Long(t)
	const to = "10.0.0.1"
	for _, x := range testenv.Sample(t, []struct {
		server, client, want string
		isEndless            bool
	}{
		{server: "rping -s -a " + to + " -v -C 5", client: "rping -c -a " + to + " -v -C 5", want: "rdma-ping-4: EFGH"},
		{server: "ucmatose", client: "ucmatose -s " + to, want: "return status 0"},
		{server: "rstream -b " + to + " -S 64 -I 10", client: "rstream -s " + to + " -S 64 -I 10", want: "custom"},
		{server: "ib_send_bw -R -n 64 -F", client: "ib_send_bw -R -n 64 -F " + to, want: "#bytes"},
		{server: "udaddy", client: "udaddy -s " + to, want: "return status 0"},
		{server: "riostream -b " + to + " -S 64 -I 10", client: "riostream -s " + to + " -S 64 -I 10", want: "custom"},
		{server: "rdma_server", client: "rdma_client -s " + to, want: "rdma_client: end 0"},
		{server: "ucmatose -c 5 -C 10 -S 5000 -a 14", client: "ucmatose -c 5 -C 10 -S 5000 -s " + to,
			want: "return status 0"},
		{server: "ib_write_bw -R -n 64 -F", client: "ib_write_bw -R -n 64 -F 127.0.0.1", want: "#bytes"},
		{server: "rping -s -a ::1 -v -C 5", client: "rping -c -a ::1 -v -C 5", want: "rdma-ping-4: EFGH"},
		{server: "rdma_xserver -c r", client: "rdma_xclient -c r -s " + to, want: "rdma_xclient: end 0"},
		{server: "cmtime -c 10", client: "cmtime -c 10 -s " + to, want: "destroy", isEndless: true},
		{server: "ib_write_lat -R -n 64 -F", client: "ib_write_lat -R -n 64 -F " + to, want: "#bytes"},
		{server: "ib_read_bw -R -q 4 -n 64 -F", client: "ib_read_bw -R -q 4 -n 64 -F " + to, want: "#bytes"},
		{server: "ib_send_lat -R -c UD -n 64 -F", client: "ib_send_lat -R -c UD -n 64 -F " + to, want: "#bytes"},
	}, 3) {
		t.Run(x.client, func(t *testing.T) {
			if strings.Contains(x.client, "::") {
				needIPv6(t)
			}
			assert.Contains(t, newRig(t).connect(x.server, x.client, x.isEndless), x.want)
		})
	}
}

// TestReturn runs a server on any address that takes connections for ever, removes the adapter and adds it again. The
// server opens the new one for the next client.
func TestReturn(t *testing.T) {
	testenv.Long(t)
	const at = "address=10.0.0.1"
	r := newRig(t)
	server, out := r.command("rping", "-s", "-P", "-a", "0.0.0.0")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill(), "the server ended: %s", out)
		require.Error(t, server.Wait())
	})
	client := func() {
		assert.Contains(t, r.run("rping", "-c", "-v", "-C", "2", "-a", "10.0.0.1"), "rdma-ping-1: BCDE")
		// The server ends if the adapter is removed while it has the connection, with Linux, too.
		require.Eventually(t, func() bool { return !r.has("connection: ") }, patience, 5*time.Millisecond)
	}
	require.Eventually(t, r.isServed, patience, 5*time.Millisecond)
	client()
	for range 2 {
		r.run("-daemon", "adapter", "remove", at[len("address="):], "--socket", r.socket)
		r.run("-daemon", "adapter", "add", "link=network,"+at, "--socket", r.socket)
		client()
	}
}

// TestOrdinarySockets runs a TCP program on rsockets, which librspreload puts in the place of its sockets. No TCP port
// is opened. The address is one of the machine's, since librspreload tries TCP when a connection is refused.
func TestOrdinarySockets(t *testing.T) {
	testenv.Long(t)
	found, err := filepath.Glob("/usr/lib/*/rsocket/librspreload.so")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("librspreload is not installed (Debian: librdmacm1)")
	}
	out := newRigAt(t, "127.9.9.9").connect("rstream -b 127.9.9.9 -T s -S 64 -I 10",
		"rstream -s 127.9.9.9 -T s -S 64 -I 10", false, "LD_PRELOAD="+found[0])
	assert.Contains(t, out, "custom")
	const port = ":1D2F" // 7471
	assert.False(t, isListening(port), "TCP was used")
}

// needIPv6 skips a test of rping with IPv6 addresses where no interface but lo has one: getaddrinfo, as rping calls it,
// then takes none.
func needIPv6(t *testing.T) {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	has := func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() == nil && !n.IP.IsLoopback()
	}
	if !slices.ContainsFunc(list, has) {
		t.Skip("no interface but lo has an IPv6 address")
	}
}

// TestIPv6 connects by an IPv6 address.
func TestIPv6(t *testing.T) {
	testenv.Long(t)
	needIPv6(t)
	out := newRigAt(t, "fd00::7").connect("rping -s -C 3 -a fd00::7", "rping -c -v -C 3 -a fd00::7", false)
	assert.Contains(t, out, "rdma-ping-2: CDEF")
}

// TestMulticast runs a receiver, and senders until it has received all messages, through one daemon and through two.
func TestMulticast(t *testing.T) {
	t.Run("one", func(t *testing.T) { newRig(t).multicast("10.0.0.1", "10.0.0.1") })
	t.Run("two", func(t *testing.T) {
		r, address := newPair(t)
		r.multicast(address, strings.TrimSuffix(address, "1")+"2")
	})
}

// multicast runs a receiver with the adapter at one address, and senders with the one at the other address.
func (r *rig) multicast(receiver, sender string) {
	t := r.t
	cmd, out := r.command("mckey", "-m", "239.1.2.3", "-b", receiver)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for begin := time.Now(); len(ended) == 0 && time.Since(begin) < patience; {
		sent := r.client().run("mckey", "-s", "-m", "239.1.2.3", "-b", sender)
		assert.Contains(t, sent, "return status 0")
	}
	require.NoError(t, <-ended, "%s", out)
	assert.Contains(t, out.String(), "data transfers complete")
}

// TestRefused connects where nothing listens.
func TestRefused(t *testing.T) {
	c, out := newRig(t).command("rping", "-c", "-a", "10.0.0.1", "-C", "1")
	var exit *exec.ExitError
	require.ErrorAs(t, c.Run(), &exit)
	assert.True(t, bytes.Contains(out.Bytes(), []byte("RDMA_CM_EVENT_REJECTED, error 8")), "%s", out)
}

// TestWaitPort starts a client when its server listens.
func TestWaitPort(t *testing.T) {
	r := newRig(t)
	server, out := r.command("rping", "-s", "-C", "3", "-p", "7175", "-a", "10.0.0.1")
	require.NoError(t, server.Start())
	client := *r
	client.flags = []string{"--wait", patience.String(), "--wait-port", "7175"}
	client.run("rping", "-c", "-C", "3", "-p", "7175", "-a", "10.0.0.1")
	assert.NoError(t, server.Wait(), "%s", out)
}
