package linux

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

const tcpPort = 18515

// game is a run of a pingpong program on Linux against ours.
type game struct {
	mode  string
	v6    bool
	size  int // bytes
	mtu   int // of the path; 0, the port's, with ud
	iters int
	extra []string // further options of both programs
	ours  []string // further options of our program
}

func (g game) String() string {
	ip := "IPv4"
	if g.v6 {
		ip = "IPv6"
	}
	mtu := "port"
	if g.mtu != 0 {
		mtu = strconv.Itoa(g.mtu)
	}
	return fmt.Sprintf("%s,%d bytes,MTU %s%s", ip, g.size, mtu,
		strings.Join(append(slices.Clone(g.extra), g.ours...), ""))
}

// rcParts is the size of TestRCPingpong's list divided by that of its core.
const rcParts = 2

// TestRCPingpong runs sizes below, at and above the path MTU, with each number of pad bytes, at each path MTU.
func TestRCPingpong(t *testing.T) {
	play(t, testenv.Sample(t, []game{
		{mode: "rc", size: 4096, mtu: 1024, iters: 200},
		{mode: "rc", size: 4096, mtu: 1024, iters: 100, v6: true},
		{mode: "rc", size: 1, mtu: 256, iters: 20},
		{mode: "rc", size: 255, mtu: 256, iters: 20, v6: true},
		{mode: "rc", size: 256, mtu: 256, iters: 20},
		{mode: "rc", size: 514, mtu: 512, iters: 20},
		{mode: "rc", size: 4097, mtu: 2048, iters: 20, v6: true},
		{mode: "rc", size: 4096, mtu: 4096, iters: 20},
		{mode: "rc", size: 65537, mtu: 256, iters: 10},
		{mode: "rc", size: 65536, mtu: 4096, iters: 10, v6: true},
		{mode: "rc", size: 1 << 20, mtu: 1024, iters: 4},
		{mode: "rc", size: 4096, mtu: 1024, iters: 100, extra: []string{"-e"}},
		{mode: "rc", size: 64, mtu: 1024, iters: 100, extra: []string{"-r", "2"}},
		{mode: "rc", size: 65537, mtu: 1024, iters: 20, ours: []string{"--strict", "--sources", "4"}},
		{mode: "rc", size: 4096, mtu: 1024, iters: 20, v6: true, ours: []string{"--strict", "--sources", "4"}},
	}, rcParts))
}

func TestUCPingpong(t *testing.T) {
	play(t, []game{
		{mode: "uc", size: 4096, mtu: 1024, iters: 50},
		{mode: "uc", size: 3, mtu: 256, iters: 20, v6: true},
		{mode: "uc", size: 10001, mtu: 2048, iters: 20},
		{mode: "uc", size: 4096, mtu: 1024, iters: 20, ours: []string{"--strict", "--sources", "4"}},
	})
}

func TestUDPingpong(t *testing.T) {
	play(t, []game{
		{mode: "ud", size: 1024, iters: 50},
		{mode: "ud", size: 4096, iters: 20, v6: true},
		{mode: "ud", size: 2, iters: 20},
		{mode: "ud", size: 1024, iters: 20, ours: []string{"--strict", "--sources", "4"}},
	})
}

func TestSRQPingpong(t *testing.T) {
	play(t, []game{
		{mode: "srq", size: 4096, mtu: 1024, iters: 100},
		{mode: "srq", size: 1000, mtu: 512, iters: 100, v6: true, extra: []string{"-q", "3"}},
	})
}

// play runs each game in both roles.
func play(t *testing.T, games []game) {
	l := useLab(t)
	var rec recording
	for _, g := range games {
		for role, linuxServes := range map[string]bool{"linux is the server/": true, "linux is the client/": false} {
			t.Run(role+g.String(), func(t *testing.T) { l.play(t, &rec, g, linuxServes) })
		}
	}
	t.Run("tshark", rec.dissect)
}

// machine is the host or the guest.
type machine interface {
	Start(ctx context.Context, args ...string) (*guest.Process, error)
	WaitListen(ctx context.Context, port uint16) error
}

// play records a game, and checks that each side sent its messages.
func (l *lab) play(t *testing.T, rec *recording, g game, linuxServes bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	linux, ours := l.linux.Index(), guest.Host
	addr := l.net.Addr4
	if g.v6 {
		addr = l.net.Addr6
	}
	theirProgram := append([]string{"ibv_" + g.mode + "_pingpong", "-d", guest.Device, "-g",
		strconv.Itoa(l.linux.GIDIndex(addr(linux)))}, g.options()...)
	ourProgram := append([]string{l.pingpong, g.mode, "-d", addr(ours).String(), "--timeout", "20s"},
		append(g.options(), g.ours...)...)

	var server, client machine = l.net, l.linux
	serve, call := ourProgram, append(theirProgram, addr(ours).String())
	if linuxServes {
		server, client = client, server
		// Linux's server listens only on IPv4, for any GID.
		serve, call = theirProgram, append(ourProgram, l.net.Addr4(linux).String())
	}
	sent := rec.record(t, l, func() {
		s, err := server.Start(ctx, serve...)
		require.NoError(t, err)
		if err := server.WaitListen(ctx, tcpPort); err != nil {
			cancel()
			_, why := s.Wait()
			require.NoError(t, err, "%v", why)
		}
		c, err := client.Start(ctx, call...)
		require.NoError(t, err)
		rs, rc := succeed(t, cancel, s, c)
		report := fmt.Sprintf("%v, %v:\n%s", serve, call, report(rs, rc))
		for _, r := range []guest.Result{rs, rc} {
			// Linux's programs exit with 0 even if they report invalid data.
			require.Contains(t, r.Stdout, fmt.Sprintf("%d iters in", g.iters), report)
			require.NotContains(t, r.Stdout+r.Stderr, "invalid", report)
			// With --impair, our program prints its drop counters. None of rxe's packets may be dropped for its IPv4
			// identification.
			require.NotContains(t, r.Stdout, "drop_ipv4_id", report)
			if slices.Contains(g.ours, "--impair") && strings.Contains(r.Stdout, "impaired: ") {
				t.Log(r.Stdout[strings.Index(r.Stdout, "impaired: "):])
			}
		}
	})
	packets := 1
	if g.mtu != 0 {
		packets = (g.size + g.mtu - 1) / g.mtu
	}
	for _, i := range []int{ours, linux} {
		assert.GreaterOrEqual(t, sent[addr(i)], g.iters*packets, "packets from %v", addr(i))
	}
	require.Len(t, sent, 2, "addresses that sent RoCEv2")
}

// options returns the options of both programs.
func (g game) options() []string {
	o := []string{"-s", strconv.Itoa(g.size), "-n", strconv.Itoa(g.iters), "-p", strconv.Itoa(tcpPort)}
	if g.mtu != 0 {
		o = append(o, "-m", strconv.Itoa(g.mtu))
	}
	if g.mode != "srq" { // Linux's program has no -c, and several messages share a buffer
		o = append(o, "-c")
	}
	return append(o, g.extra...)
}
