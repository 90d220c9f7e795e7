// Package tsharktest checks packets with tshark, the dissector of Wireshark, which shares no code with this module.
// Write creates a capture file and Read dissects one. Where tshark is not installed, the test is skipped with that
// reason.
package tsharktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Separators of tshark's output. No value contains them.
const (
	fieldSeparator = "\x1f"
	valueSeparator = "\x1e" // between the values of a field that occurs more than once in a packet
)

// errorFields are the fields that Read checks in every packet, before those of the caller.
var errorFields = []string{"_ws.malformed", "_ws.expert.severity", "_ws.expert.message"}

// severityError is the highest severity of Wireshark's expert information (epan/proto.h, PI_ERROR). Warnings, notes and
// chats have lower values.
const severityError = 0x800000

// checksums are the options that make tshark verify checksums, which it does not do by default. The UDP checksum of
// RoCEv2 may be 0 over IPv6, too: Linux Soft-RoCE sends it so, and the ICRC covers the datagram (RFC 6935 allows that
// to tunnels).
var checksums = []string{
	"-o", "ip.check_checksum:TRUE",
	"-o", "udp.check_checksum:TRUE",
	"-o", "udp.ignore_ipv6_zero_checksum:TRUE",
}

// deadline bounds one run of tshark, which takes a second for a thousand packets on a quiet machine.
const deadline = 2 * time.Minute

// maxReported is the number of bad packets that are reported individually.
const maxReported = 10

// Read dissects a capture file with tshark. It returns, for each packet, the first value of every field, or "" where
// the packet lacks the field. The test fails if tshark finds a packet malformed, if its expert information on a packet
// includes an error, or if the file has no packets.
func Read(t testing.TB, file string, fields ...string) [][]string {
	t.Helper()
	return ReadMatching(t, file, "", fields...)
}

// ReadAll is like Read, but returns all values of a field that occurs more than once in a packet, separated by commas.
func ReadAll(t testing.TB, file string, fields ...string) [][]string {
	t.Helper()
	return dissect(t, file, "", true, fields)
}

// ReadMatching is like Read, but dissects only the packets that match a display filter.
func ReadMatching(t testing.TB, file, filter string, fields ...string) [][]string {
	t.Helper()
	return dissect(t, file, filter, false, fields)
}

func dissect(t testing.TB, file, filter string, all bool, fields []string) [][]string {
	t.Helper()
	p, err := find(t)
	if err != nil {
		t.Skipf("packets are not checked with tshark: %v (apt-get install tshark)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	packets, err := p.read(ctx, file, filter, fields)
	require.NoError(t, err)
	require.NotEmpty(t, packets, "%s: tshark reads no packets", file)
	rows := make([][]string, len(packets))
	badCount := 0
	for i, k := range packets {
		for _, v := range k.values {
			if all {
				v = strings.ReplaceAll(v, valueSeparator, ",")
			} else {
				v, _, _ = strings.Cut(v, valueSeparator)
			}
			rows[i] = append(rows[i], v)
		}
		if k.err == nil {
			continue
		}
		if badCount++; badCount <= maxReported {
			t.Errorf("packet %d of %d: tshark reports: %v", i+1, len(packets), k.err)
		}
	}
	if badCount > maxReported {
		t.Errorf("tshark reports %d more bad packets", badCount-maxReported)
	}
	return rows
}

// program is an installed tshark.
type program struct {
	path string
	env  []string
}

// find finds tshark in PATH. It will run without the preferences and plugins of the user who runs the test.
func find(t testing.TB) (program, error) {
	path, err := exec.LookPath("tshark")
	if err != nil {
		return program{}, err
	}
	home := t.TempDir()
	return program{path, append(os.Environ(), "HOME="+home, "WIRESHARK_CONFIG_DIR="+home)}, nil
}

// run runs tshark and returns its standard output.
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
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("tshark %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return "", fmt.Errorf("tshark %s: %w", strings.Join(args, " "), err)
}

var (
	heuristicsMu sync.Mutex
	noHeuristics = map[string][]string{} // by the path of tshark
)

// disableHeuristics returns the arguments that disable the heuristic dissectors of InfiniBand payloads, which take our
// data for broken packets of their own. The set depends on the version, and tshark rejects unknown names, so the first
// call reads the list from tshark.
func (p program) disableHeuristics(ctx context.Context) ([]string, error) {
	heuristicsMu.Lock()
	defer heuristicsMu.Unlock()
	if args, ok := noHeuristics[p.path]; ok {
		return args, nil
	}
	out, err := p.run(ctx, "-G", "heuristic-decodes")
	if err != nil {
		return nil, err
	}
	args := parseHeuristics(out)
	noHeuristics[p.path] = args
	return args, nil
}

// parseHeuristics reads lines of "dissector with payload, heuristic protocol, T or F". Disabling the protocol ethertype
// would disable Ethernet, so only its heuristic is disabled, under its name in epan/dissectors/packet-infiniband.c.
// LNet remains: it looks for a magic number, and package lnd is tested with it.
func parseHeuristics(out string) (args []string) {
	for l := range strings.Lines(out) {
		switch f := strings.Fields(l); {
		case len(f) < 2 || f[0] != "infiniband.payload" || f[1] == "lnet":
		case f[1] == "ethertype":
			args = append(args, "--disable-heuristic", "eth_over_ib")
		default:
			args = append(args, "--disable-protocol", f[1])
		}
	}
	return args
}

// packet is the dissection of one packet.
type packet struct {
	values []string // of each field, separated by valueSeparator
	err    error    // why the packet is bad, or nil
}

func (p program) read(ctx context.Context, file, filter string, fields []string) ([]packet, error) {
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "separator=" + fieldSeparator,
		"-E", "occurrence=a", "-E", "aggregator=" + valueSeparator}
	args = append(args, checksums...)
	if filter != "" {
		args = append(args, "-Y", filter)
	}
	quiet, err := p.disableHeuristics(ctx)
	if err != nil {
		return nil, err
	}
	args = append(args, quiet...)
	for _, f := range slices.Concat(errorFields, fields) {
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

// parse parses a line of tshark's output.
func parse(line string, numFields int) (packet, error) {
	f := strings.Split(line, fieldSeparator)
	if want := len(errorFields) + numFields; len(f) != want {
		return packet{}, fmt.Errorf("tshark printed %d fields, want %d: %q", len(f), want, line)
	}
	var k packet
	k.values = f[len(errorFields):]
	k.err = expertError(f[0], strings.Split(f[1], valueSeparator), strings.Split(f[2], valueSeparator))
	return k, nil
}

// expertError returns an error for a bad packet: the name of the malformed protocol and the expert information of
// severity error. It returns nil for a good packet.
func expertError(malformed string, severities, messages []string) error {
	var errs []error
	if malformed != "" {
		errs = append(errs, fmt.Errorf("malformed: %s", strings.ReplaceAll(malformed, valueSeparator, ", ")))
	}
	for i, s := range severities {
		if s == "" {
			continue
		}
		v, err := strconv.ParseUint(s, 0, 32)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("expert information: severity: %w", err))
		case v >= severityError && i < len(messages):
			errs = append(errs, fmt.Errorf("expert information: %s", messages[i]))
		case v >= severityError:
			errs = append(errs, fmt.Errorf("expert information of severity %s", s))
		}
	}
	return errors.Join(errs...)
}
