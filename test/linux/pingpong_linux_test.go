package linux

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/test/linux/guest"
)

const tcpPort = 18515

// game is one run of a pingpong program on Linux against ours.
type game struct {
	mode  string
	v6    bool
	size  int // bytes
	mtu   int // of the path; 0, the port's, with ud
	iters int
	extra []string // further options of both
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
	return fmt.Sprintf("%s,%d bytes,MTU %s%s", ip, g.size, mtu, strings.Join(append(slices.Clone(g.extra), g.ours...), ""))
}

// TestRCPingpong: sizes below, at and above a packet, with each count of pad bytes, at each path MTU.
func TestRCPingpong(t *testing.T) {
	play(t, []game{
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
	})
}

func TestUCPingpong(t *testing.T) {
	play(t, []game{
		{mode: "uc", size: 4096, mtu: 1024, iters: 50},
		{mode: "uc", size: 3, mtu: 256, iters: 20, v6: true},
		{mode: "uc", size: 10001, mtu: 2048, iters: 20},
	})
}

func TestUDPingpong(t *testing.T) {
	play(t, []game{
		{mode: "ud", size: 1024, iters: 50},
		{mode: "ud", size: 4096, iters: 20, v6: true},
		{mode: "ud", size: 2, iters: 20},
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
	var all []byte // one capture of all games: starting tshark takes longer than reading it
	packets := 0
	for _, g := range games {
		for role, linuxServes := range map[string]bool{"linux is the server/": true, "linux is the client/": false} {
			t.Run(role+g.String(), func(t *testing.T) {
				pcap, n := l.play(t, g, linuxServes)
				if all == nil {
					all = pcap
				} else {
					all = append(all, pcap[pcapHead:]...)
				}
				packets += n
			})
		}
	}
	t.Run("tshark", func(t *testing.T) { dissect(t, all, packets) })
}

// machine is where a program runs.
type machine interface {
	Start(ctx context.Context, args ...string) (*guest.Process, error)
	WaitListen(ctx context.Context, port uint16) error
}

// play returns what was on the wire, as a pcap file, and how many RoCEv2 packets are in it.
func (l *lab) play(t *testing.T, g game, linuxServes bool) ([]byte, int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	linux, ours := l.linux.Index(), guest.Host
	addr := l.net.Addr4
	if g.v6 {
		addr = l.net.Addr6
	}
	theirProgram := append([]string{"ibv_" + g.mode + "_pingpong", "-d", guest.Device, "-g", strconv.Itoa(l.linux.GIDIndex(addr(linux)))}, g.options()...)
	ourProgram := append([]string{l.pingpong, g.mode, "-d", addr(ours).String(), "--timeout", "20s"}, append(g.options(), g.ours...)...)

	var pcap bytes.Buffer
	capture, err := l.linux.Capture(&pcap)
	require.NoError(t, err)

	var server, client machine = l.net, l.linux
	serve, call := ourProgram, append(theirProgram, addr(ours).String())
	if linuxServes {
		server, client = client, server
		// The original server listens on IPv4 only, whatever its GID.
		serve, call = theirProgram, append(ourProgram, l.net.Addr4(linux).String())
	}
	s, err := server.Start(ctx, serve...)
	require.NoError(t, err)
	if err := server.WaitListen(ctx, tcpPort); err != nil {
		cancel()
		_, why := s.Wait()
		require.NoError(t, err, why)
	}
	c, err := client.Start(ctx, call...)
	require.NoError(t, err)
	rc, cerr := c.Wait()
	if cerr != nil || rc.Code != 0 {
		cancel() // the other would wait for its peer
	}
	rs, serr := s.Wait()
	assert.NoError(t, capture.Stop())
	report := fmt.Sprintf("server %v:\n%s%s\nclient %v:\n%s%s", serve, rs.Stdout, rs.Stderr, call, rc.Stdout, rc.Stderr)
	require.NoError(t, cerr, report)
	require.Zero(t, rc.Code, report) // before the other's, which it brings about
	require.NoError(t, serr, report)
	for _, r := range []guest.Result{rs, rc} {
		// The originals report invalid data and exit with 0 nevertheless.
		require.Zero(t, r.Code, report)
		require.Contains(t, r.Stdout, fmt.Sprintf("%d iters in", g.iters), report)
		require.NotContains(t, r.Stdout+r.Stderr, "invalid", report)
		// What --impair reports: rxe's identifications are as hca/reference expects them, and none is refused.
		require.NotContains(t, r.Stdout, "drop_ipv4_id", report)
		if slices.Contains(g.ours, "--impair") && strings.Contains(r.Stdout, "impaired: ") {
			t.Log(r.Stdout[strings.Index(r.Stdout, "impaired: "):])
		}
	}
	return pcap.Bytes(), g.checkPackets(t, pcap.Bytes(), addr(ours), addr(linux))
}

// options of the game, as both programs take them.
func (g game) options() []string {
	o := []string{"-s", strconv.Itoa(g.size), "-n", strconv.Itoa(g.iters), "-p", strconv.Itoa(tcpPort)}
	if g.mtu != 0 {
		o = append(o, "-m", strconv.Itoa(g.mtu))
	}
	if g.mode != "srq" { // where the original has no -c, and several messages share a buffer
		o = append(o, "-c")
	}
	return append(o, g.extra...)
}

// checkPackets looks at what was on the wire: each side sent its messages, and all ICRCs are right. It returns the number of packets.
func (g game) checkPackets(t *testing.T, pcap []byte, sides ...netip.Addr) int {
	list, err := frames(pcap)
	require.NoError(t, err)
	sent := map[netip.Addr]int{}
	for i, f := range list {
		p, ok := parse(f)
		if !ok {
			continue
		}
		a, _ := netip.AddrFromSlice(p.source) // 4 or 16 bytes
		sent[a]++
		require.NoError(t, p.checksum, "frame %d from %v", i+1, a)
	}
	packets := 1
	if g.mtu != 0 {
		packets = (g.size + g.mtu - 1) / g.mtu
	}
	for _, a := range sides {
		assert.GreaterOrEqual(t, sent[a], g.iters*packets, "packets from %v", a)
	}
	require.Len(t, sent, len(sides), "addresses that sent RoCEv2")
	return sent[sides[0]] + sent[sides[1]]
}

// dissect lets tshark read the capture: it must take all packets for RoCEv2, find none malformed, and see no NAK but one for a lost packet.
func dissect(t *testing.T, pcap []byte, packets int) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv(requireEnv) != "" {
			t.Fatal(err)
		}
		t.Skip("tshark is not installed (apt-get install tshark)")
	}
	file := filepath.Join(t.TempDir(), "games.pcap")
	require.NoError(t, os.WriteFile(file, pcap, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := []string{"-n", "-r", file}
	// The dissectors that try their luck on the payload of any RoCE packet would take our data for their protocol.
	guesses, err := exec.CommandContext(ctx, tshark, "-G", "heuristic-decodes").Output()
	require.NoError(t, err)
	for l := range strings.Lines(string(guesses)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "infiniband.payload" && f[1] != "ethertype" {
			args = append(args, "--disable-protocol", f[1])
		}
	}
	// One line per packet: the protocols, whether it is malformed, and a NAK's code.
	args = append(args, "-T", "fields", "-e", "frame.protocols", "-e", "_ws.malformed", "-e", "infiniband.aeth.syndrome.error_code")
	c := exec.CommandContext(ctx, tshark, args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	require.NoError(t, err, stderr.String())
	seen, lost := 0, 0
	for l := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimRight(l, "\n"), "\t")
		require.Len(t, f, 3, l)
		// Not what an ICMP error quotes: an acknowledgement may come for a program that has ended.
		if !strings.HasPrefix(f[0], "eth:ethertype:ip:udp:infiniband") && !strings.HasPrefix(f[0], "eth:ethertype:ipv6:udp:infiniband") {
			continue
		}
		seen++
		require.Empty(t, f[1], "malformed: %s", l)
		if f[2] != "" {
			require.EqualValues(t, "0", f[2], "a NAK for other reasons than a PSN sequence error")
			lost++
		}
	}
	require.Equal(t, packets, seen, "packets that tshark takes for RoCEv2")
	t.Logf("%d packets, %d NAKs for lost ones", seen, lost)
}
