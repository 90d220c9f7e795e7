package linux

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/test/linux/guest"
)

// pings is a run of rping on Linux against ours.
type pings struct {
	v6    bool
	size  int // bytes
	count int
}

func (p pings) String() string {
	ip := "IPv4"
	if p.v6 {
		ip = "IPv6"
	}
	return fmt.Sprintf("%s,%d bytes", ip, p.size)
}

// ends are the two ends of a run, with functions that wait until a server listens.
type ends struct {
	l     *lab
	addr  func(int) netip.Addr
	linux int
}

func (l *lab) ends(v6 bool) ends {
	e := ends{l: l, addr: l.net.Addr4, linux: l.linux.Index()}
	if v6 {
		e.addr = l.net.Addr6
	}
	return e
}

func (e ends) ours() netip.Addr   { return e.addr(guest.Host) }
func (e ends) theirs() netip.Addr { return e.addr(e.linux) }

// serveLinux starts a program in the guest, and waits until it listens.
func (e ends) serveLinux(t *testing.T, ctx context.Context, args ...string) *guest.Process {
	t.Helper()
	p, err := e.l.linux.Start(ctx, args...)
	require.NoError(t, err)
	for {
		r, err := e.l.linux.Run(ctx, "rdma", "resource", "show", "cm_id")
		require.NoError(t, err)
		if strings.Contains(r.Stdout, "LISTEN") {
			return p
		}
	}
}

// serveOurs is like serveLinux for a program of the host.
func (e ends) serveOurs(t *testing.T, ctx context.Context, args ...string) *guest.Process {
	t.Helper()
	p, err := e.l.net.Start(ctx, args...)
	require.NoError(t, err)
	require.NoError(t, p.WaitOutput(ctx, "listening on"))
	return p
}

// succeed waits for a server and its client, which ends first, and requires that both exit with 0.
func succeed(t *testing.T, cancel context.CancelFunc, s, c *guest.Process) (server, client guest.Result) {
	t.Helper()
	client, cerr := c.Wait()
	if cerr != nil || client.Code != 0 {
		cancel() // the server would wait
	}
	server, serr := s.Wait()
	out := report(server, client)
	require.NoError(t, cerr, out)
	require.Zero(t, client.Code, out) // before that of the server, which depends on it
	require.NoError(t, serr, out)
	require.Zero(t, server.Code, out)
	return server, client
}

func report(s, c guest.Result) string {
	return fmt.Sprintf("server: exit code %d\n%s%s\nclient: exit code %d\n%s%s", s.Code, s.Stdout, s.Stderr, c.Code,
		c.Stdout, c.Stderr)
}

// TestRPing runs sizes from the minimum to the maximum of rping, with each number of pad bytes. The client checks the
// data and disconnects.
func TestRPing(t *testing.T) {
	l := useLab(t)
	var rec recording
	for _, p := range []pings{
		{size: 64, count: 30},
		{size: 64, count: 10, v6: true},
		{size: 26, count: 5},
		{size: 27, count: 5, v6: true},
		{size: 1001, count: 5},
		{size: 4096, count: 10, v6: true},
		{size: 16387, count: 5},
		{size: 65535, count: 5},
		{size: 65535, count: 5, v6: true},
	} {
		for role, linuxServes := range map[string]bool{"linux is the server/": true, "linux is the client/": false} {
			t.Run(role+p.String(), func(t *testing.T) { l.rpings(t, &rec, p, linuxServes) })
		}
	}
	t.Run("tshark", rec.dissect)
}

func (l *lab) rpings(t *testing.T, rec *recording, p pings, linuxServes bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e := l.ends(p.v6)
	var server, client guest.Result
	sent := rec.record(t, l, func() {
		size := []string{"-v", "-S", strconv.Itoa(p.size)}
		pinging := append([]string{"-c", "-V", "-C", strconv.Itoa(p.count)}, size...)
		var s, c *guest.Process
		var err error
		if linuxServes {
			s = e.serveLinux(t, ctx, append([]string{"rping", "-s", "-a", e.theirs().String()}, size...)...)
			c, err = l.net.Start(ctx, append([]string{l.rping, "-a", e.theirs().String()}, pinging...)...)
		} else {
			s = e.serveOurs(t, ctx, append([]string{l.rping, "-s", "-a", e.ours().String()}, size...)...)
			c, err = l.linux.Start(ctx, append([]string{"rping", "-a", e.ours().String()}, pinging...)...)
		}
		require.NoError(t, err)
		client, err = c.Wait()
		if !linuxServes {
			client = forgiven(client)
		}
		if err != nil || client.Code != 0 {
			cancel() // the server would wait
		}
		var serr error
		server, serr = s.Wait()
		if linuxServes {
			server = forgiven(server)
		}
		require.NoError(t, err, report(server, client))
		require.Zero(t, client.Code, report(server, client))
		require.NoError(t, serr, report(server, client))
	})
	out := report(server, client)
	require.Zero(t, server.Code, out)
	assert.Equal(t, p.count, strings.Count(client.Stdout, "ping data: rdma-ping-"), out)
	assert.Equal(t, p.count, strings.Count(server.Stdout, "server ping data: rdma-ping-"), out)
	assert.NotContains(t, out, "mismatch", out)
	require.Len(t, sent, 2, "addresses that sent RoCEv2")
	for _, a := range []netip.Addr{e.ours(), e.theirs()} {
		assert.GreaterOrEqual(t, sent[a], 4*p.count, "packets from %v", a)
	}
}

// forgiven ignores a race at the end of Linux's rping: its main thread closes the event channel on which another thread
// waits. If that thread sees the error before the process exits, it determines the exit status.
func forgiven(r guest.Result) guest.Result {
	if strings.HasSuffix(strings.TrimSpace(r.Stdout+r.Stderr), "rdma_get_cm_event: Bad file descriptor") {
		r.Code = 0
	}
	return r
}
