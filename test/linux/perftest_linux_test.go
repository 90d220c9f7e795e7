package linux

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

var perftestNames = []string{"send_bw", "send_lat", "write_bw", "write_lat", "read_bw", "read_lat", "atomic_bw",
	"atomic_lat"}

// perftestPrograms lists the programs of Debian's package perftest.
func perftestPrograms() []string {
	var list []string
	for _, n := range perftestNames {
		list = append(list, "ib_"+n)
	}
	return list
}

// missingPerftest returns an error if this machine lacks one of the programs.
func missingPerftest() error {
	for _, p := range perftestPrograms() {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed (apt-get install perftest)", p)
		}
	}
	return nil
}

// pairing is a run of one of Debian's programs against ours.
type pairing struct {
	test, service string
	cm, both      bool
	linuxServes   bool
	v6            bool
	extra         []string // options of both
}

func (p pairing) String() string {
	name := p.test + "," + p.service
	if p.cm {
		name += ",-R"
	}
	if p.both {
		name += ",-b"
	}
	if p.v6 {
		name += ",IPv6"
	}
	if len(p.extra) > 0 {
		name += "," + strings.Join(p.extra, "")
	}
	if p.linuxServes {
		return name + ",linux is the server"
	}
	return name + ",linux is the client"
}

// pairings returns all pairings: every test over every transport service of perftest, with TCP and RDMA CM (not UC), in
// one and in both directions, in both roles, and with options that change the exchange or the packets.
func pairings() []pairing {
	services := map[string][]string{"send": {"RC", "UC", "UD"}, "write": {"RC", "UC"}, "read": {"RC"}, "atomic": {"RC"}}
	var list []pairing
	add := func(p pairing) {
		list = append(list, p)
		p.linuxServes = true
		list = append(list, p)
	}
	for _, test := range perftestNames {
		verb, kind, _ := strings.Cut(test, "_")
		for _, service := range services[verb] {
			for _, cm := range []bool{false, true} {
				if cm && service == "UC" {
					continue
				}
				add(pairing{test: test, service: service, cm: cm})
				if kind == "bw" {
					add(pairing{test: test, service: service, cm: cm, both: true})
				}
			}
		}
	}
	for _, p := range []pairing{
		{test: "send_bw", service: "RC", v6: true},
		{test: "send_lat", service: "UD", v6: true},
		{test: "write_lat", service: "RC", v6: true},
		{test: "read_bw", service: "RC", v6: true, extra: []string{"-m", "512"}},
		{test: "send_bw", service: "RC", extra: []string{"-q", "3", "-s", "1001"}},
		{test: "write_bw", service: "RC", cm: true, extra: []string{"-q", "3", "-l", "4"}},
		{test: "send_bw", service: "UD", cm: true, both: true, extra: []string{"-q", "2"}},
		{test: "send_bw", service: "UD", extra: []string{"-a"}},
		{test: "send_lat", service: "UD", extra: []string{"-a", "-m", "256"}}, // Linux needs half a second for each row
		{test: "write_bw", service: "RC", extra: []string{"-s", "65536"}},
		{test: "read_lat", service: "RC", extra: []string{"-e", "-s", "70000"}},
		// send_lat -e is left out: up to release 4.5, it waits for both CQs on one completion channel, and hangs if a
		// reply overtakes the acknowledgement of the message (perftest's commit 2209cf8 of 2023).
		{test: "send_bw", service: "RC", extra: []string{"-e", "-r", "64"}},
		{test: "atomic_bw", service: "RC", extra: []string{"-A", "CMP_AND_SWAP", "-o", "3"}},
		{test: "write_bw", service: "RC", extra: []string{"-D", "3", "-f", "1"}},
		{test: "send_lat", service: "RC", extra: []string{"-D", "3", "-f", "1"}},
		{test: "send_bw", service: "RC", extra: []string{"-z"}},
	} {
		add(p)
	}
	return list
}

// perftestParts is the size of the matrix divided by that of its core.
const perftestParts = 4

// TestPerftest runs Debian's programs against ours.
func TestPerftest(t *testing.T) {
	testenv.Linux(t, missingPerftest())
	l := useLab(t)
	var rec recording
	for _, p := range testenv.Sample(t, pairings(), perftestParts) {
		t.Run(p.String(), func(t *testing.T) { l.pair(t, &rec, p) })
	}
	t.Run("tshark", rec.dissect)
}

// TestPerftestSample checks that the pairings differ, and that the core has each program, each service and both roles.
func TestPerftestSample(t *testing.T) {
	seen := map[string]int{}
	for _, p := range pairings() {
		seen[p.String()]++
	}
	assert.Len(t, seen, len(pairings()))
	kinds := func(list []pairing) map[any]bool {
		seen := map[any]bool{}
		for _, p := range list {
			for _, kind := range []any{p.test, p.service, p.linuxServes, p.cm || p.v6} {
				seen[kind] = true
			}
		}
		return seen
	}
	t.Setenv(testenv.WholeVariable, "")
	assert.Equal(t, kinds(pairings()), kinds(testenv.Core(pairings(), perftestParts)))
}

// has reports whether an option is one of the extra options.
func (p pairing) has(option string) bool { return slices.Contains(p.extra, option) }

// value returns the value of an option, or a default.
func (p pairing) value(option, otherwise string) string {
	if i := slices.Index(p.extra, option); i >= 0 {
		return p.extra[i+1]
	}
	return otherwise
}

// iterations returns the number of messages. It is small because the guest is slow, and small enough that no queue
// overflows with UC and UD.
func (p pairing) iterations() int {
	switch {
	case p.has("-a"):
		return 10
	case strings.HasSuffix(p.test, "_lat"):
		return 50
	case p.service == "RC":
		return 60
	}
	return 40
}

// size returns the length of a message.
func (p pairing) size() string {
	switch {
	case strings.HasPrefix(p.test, "atomic"):
		return "8"
	case strings.HasSuffix(p.test, "_lat"):
		return p.value("-s", "33")
	case p.service == "RC":
		return p.value("-s", "9000")
	}
	return p.value("-s", "2048")
}

// options returns the options of both programs. The acknowledgement timeout is long enough for a busy machine.
func (p pairing) options() []string {
	o := []string{"-c", p.service, "-p", strconv.Itoa(tcpPort), "-F", "-u", "18"}
	if !p.has("-D") {
		o = append(o, "-n", strconv.Itoa(p.iterations()))
	}
	if !p.has("-a") && !p.has("-s") {
		o = append(o, "-s", p.size())
	}
	if p.cm {
		o = append(o, "-R")
	}
	if p.both {
		o = append(o, "-b")
	}
	return append(o, p.extra...)
}

// rows returns the expected first two columns of both programs' tables, or only the first with -D.
func (p pairing) rows() [][]string {
	if p.has("-D") {
		return [][]string{{p.size()}}
	}
	queues, err := strconv.Atoi(p.value("-q", "1"))
	if err != nil {
		panic(err) // of the table above
	}
	iters := strconv.Itoa(queues * p.iterations())
	if !p.has("-a") {
		return [][]string{{p.size(), iters}}
	}
	mtu, err := strconv.Atoi(p.value("-m", "4096"))
	if err != nil {
		panic(err) // of the table above
	}
	var list [][]string
	for n := 2; n <= mtu; n *= 2 {
		list = append(list, []string{strconv.Itoa(n), iters})
	}
	return list
}

// perftestRows returns the first columns of the rows of a table.
func perftestRows(out string, columns int) [][]string {
	var list [][]string
	_, table, _ := strings.Cut(out, "#bytes")
	for l := range strings.Lines(table) {
		if f := strings.Fields(l); len(f) >= 4 && strings.Trim(f[0], "0123456789") == "" {
			list = append(list, f[:columns])
		}
	}
	return list
}

func (l *lab) pair(t *testing.T, rec *recording, p pairing) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	addr := l.net.Addr4
	if p.v6 {
		addr = l.net.Addr6
	}
	linux := l.linux.Index()
	theirs := append([]string{"ib_" + p.test, "-d", guest.Device, "-x", strconv.Itoa(l.linux.GIDIndex(addr(linux)))},
		p.options()...)
	ours := append([]string{l.perftest, p.test, "-d", addr(guest.Host).String(), "--timeout", "20s"}, p.options()...)
	var server, client guest.Result
	sent := rec.record(t, l, func() {
		var s, c *guest.Process
		var err error
		if p.linuxServes {
			s, err = l.linux.Start(ctx, theirs...)
			require.NoError(t, err)
			l.waitPerftest(t, ctx, p, s)
			c, err = l.net.Start(ctx, append(ours, l.net.Addr4(linux).String())...)
		} else {
			if p.v6 { // perftest's client connects only over IPv4
				ours = append(ours, "--listen", l.net.Addr4(guest.Host).String())
			}
			s, err = l.net.Start(ctx, ours...)
			require.NoError(t, err)
			require.NoError(t, s.WaitOutput(ctx, "Waiting for a client at"))
			c, err = l.linux.Start(ctx, append(theirs, l.net.Addr4(guest.Host).String())...)
		}
		require.NoError(t, err)
		server, client = succeed(t, cancel, s, c)
	})
	out := report(server, client)
	want := p.rows()
	assert.Equal(t, want, perftestRows(client.Stdout, len(want[0])), out)
	oneSidedLatency := p.test == "read_lat" || p.test == "atomic_lat" // the server reports nothing
	if !oneSidedLatency {
		assert.Equal(t, want, perftestRows(server.Stdout, len(want[0])), out)
	}
	senders := 2
	if p.service != "RC" && strings.HasSuffix(p.test, "_bw") && !p.both && !p.cm { // nothing is acknowledged
		senders = 1
	}
	assert.Len(t, sent, senders, "addresses that sent RoCEv2")
}

// waitPerftest waits until a server in the guest listens.
func (l *lab) waitPerftest(t *testing.T, ctx context.Context, p pairing, s *guest.Process) {
	t.Helper()
	for p.cm || p.has("-z") {
		r, err := l.linux.Run(ctx, "rdma", "resource", "show", "cm_id")
		require.NoError(t, err)
		if strings.Contains(r.Stdout, "LISTEN") {
			return
		}
	}
	if err := l.linux.WaitListen(ctx, tcpPort); err != nil {
		_, why := s.Wait()
		require.NoError(t, err, "%v", why)
	}
}
