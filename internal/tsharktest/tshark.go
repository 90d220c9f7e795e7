// Package tsharktest lets tests have packets judged by tshark, the dissector of Wireshark, which shares no code with this kit: Write makes a
// capture file, Read takes one apart. Where tshark is not installed, the test is skipped and says so.
package tsharktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How tshark puts its fields apart, and the values of a field that a packet has more than once: characters that stand in no value.
const (
	betweenFields = "\x1f"
	betweenValues = "\x1e"
)

// sound is what every packet is asked beside the fields of the caller.
var sound = []string{"_ws.malformed", "_ws.expert.severity", "_ws.expert.message"}

// severityError is the highest severity of Wireshark's expert information (epan/proto.h, PI_ERROR); warnings, notes and chats are below.
const severityError = 0x800000

// checksums has tshark verify what it leaves alone unless told. The UDP checksum of RoCEv2 may be 0 over IPv6, too: Linux Soft-RoCE sends it so, and the
// ICRC covers the datagram (RFC 6935 allows that to tunnels).
var checksums = []string{"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"}

// deadline bounds one run of tshark, which takes a second for a thousand packets when nothing else runs.
const deadline = 2 * time.Minute

// maxReported is how many of the packets that are not sound are told one by one.
const maxReported = 10

// Read has tshark read a capture file and gives, for each packet, the first value of every field, "" where a packet lacks it. A packet that tshark
// finds malformed, or of which its expert information says "error", fails the test, and so does a file without packets.
func Read(t testing.TB, file string, fields ...string) [][]string {
	t.Helper()
	return ReadMatching(t, file, "", fields...)
}

// ReadMatching is Read of those packets alone that a display filter lets pass.
func ReadMatching(t testing.TB, file, filter string, fields ...string) [][]string {
	t.Helper()
	p, err := find(t)
	if err != nil {
		t.Skipf("no second opinion on the packets: %v (apt-get install tshark)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	packets, err := p.read(ctx, file, filter, fields)
	require.NoError(t, err)
	require.NotEmpty(t, packets, "%s: packets that tshark reads", file)
	rows := make([][]string, len(packets))
	bad := 0
	for i, k := range packets {
		rows[i] = k.values
		if k.err == nil {
			continue
		}
		if bad++; bad <= maxReported {
			t.Errorf("packet %d of %d that tshark reads: %v", i+1, len(packets), k.err)
		}
	}
	if bad > maxReported {
		t.Errorf("%d more packets that are not sound", bad-maxReported)
	}
	return rows
}

// program is an installed tshark.
type program struct {
	path string
	env  []string
}

// find looks tshark up. It will run without the preferences and plugins of whoever runs the test.
func find(t testing.TB) (program, error) {
	path, err := exec.LookPath("tshark")
	if err != nil {
		return program{}, err
	}
	home := t.TempDir()
	return program{path, append(os.Environ(), "HOME="+home, "WIRESHARK_CONFIG_DIR="+home)}, nil
}

// run returns what tshark prints.
func (p program) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = p.env
	cmd.WaitDelay = 5 * time.Second // tshark's children may hold its output open
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("tshark %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return "", fmt.Errorf("tshark %s: %w", strings.Join(args, " "), err)
}

var (
	guessMu sync.Mutex
	noGuess = map[string][]string{} // by the path of tshark
)

// noGuesses returns the arguments that keep protocols from trying their luck on the payload of any InfiniBand packet: they take our data for broken
// packets of their own. Which there are depends on the version, and tshark refuses a name that it does not know, so it is asked, once.
func (p program) noGuesses(ctx context.Context) ([]string, error) {
	guessMu.Lock()
	defer guessMu.Unlock()
	if args, ok := noGuess[p.path]; ok {
		return args, nil
	}
	out, err := p.run(ctx, "-G", "heuristic-decodes")
	if err != nil {
		return nil, err
	}
	args := parseGuesses(out)
	noGuess[p.path] = args
	return args, nil
}

// parseGuesses reads lines of "dissector that has payloads, protocol that guesses, T or F". Without the protocol ethertype there would be no
// Ethernet, so of that one the guess alone is switched off, by the name that it has in epan/dissectors/packet-infiniband.c.
func parseGuesses(out string) (args []string) {
	for l := range strings.Lines(out) {
		switch f := strings.Fields(l); {
		case len(f) < 2 || f[0] != "infiniband.payload":
		case f[1] == "ethertype":
			args = append(args, "--disable-heuristic", "eth_over_ib")
		default:
			args = append(args, "--disable-protocol", f[1])
		}
	}
	return args
}

// packet is what tshark says of one.
type packet struct {
	values []string // the first of each field
	err    error    // why it is not sound, or nil
}

func (p program) read(ctx context.Context, file, filter string, fields []string) ([]packet, error) {
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "separator=" + betweenFields, "-E", "occurrence=a", "-E", "aggregator=" + betweenValues}
	args = append(args, checksums...)
	if filter != "" {
		args = append(args, "-Y", filter)
	}
	quiet, err := p.noGuesses(ctx)
	if err != nil {
		return nil, err
	}
	args = append(args, quiet...)
	for _, f := range append(sound[:len(sound):len(sound)], fields...) {
		args = append(args, "-e", f)
	}
	out, err := p.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	var packets []packet
	for l := range strings.Lines(out) {
		k, err := parse(strings.TrimSuffix(l, "\n"), len(fields))
		if err != nil {
			return nil, err
		}
		packets = append(packets, k)
	}
	return packets, nil
}

// parse takes a line of tshark apart.
func parse(line string, fields int) (packet, error) {
	f := strings.Split(line, betweenFields)
	if len(f) != len(sound)+fields {
		return packet{}, fmt.Errorf("tshark gives %d fields of %d: %q", len(f), len(sound)+fields, line)
	}
	var k packet
	for _, v := range f[len(sound):] {
		first, _, _ := strings.Cut(v, betweenValues)
		k.values = append(k.values, first)
	}
	k.err = judge(f[0], strings.Split(f[1], betweenValues), strings.Split(f[2], betweenValues))
	return k, nil
}

// judge returns an error for a packet that is not sound: the name of the malformed protocol, and the expert information.
func judge(malformed string, severities, messages []string) error {
	var errs []error
	if malformed != "" {
		errs = append(errs, fmt.Errorf("malformed: %s", strings.ReplaceAll(malformed, betweenValues, ", ")))
	}
	for i, s := range severities {
		if s == "" {
			continue
		}
		v, err := strconv.ParseUint(s, 0, 32)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("severity of the expert information: %w", err))
		case v >= severityError && i < len(messages):
			errs = append(errs, fmt.Errorf("expert information: %s", messages[i]))
		case v >= severityError:
			errs = append(errs, fmt.Errorf("expert information of severity %s", s))
		}
	}
	return errors.Join(errs...)
}
