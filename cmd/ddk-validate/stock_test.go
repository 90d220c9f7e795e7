package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/evidence"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/wiresuite"
)

// rpingPeer starts the kit's rping on the kit's adapter, and returns the settings that reach it.
func rpingPeer(t *testing.T) map[string]string {
	t.Helper()
	testenv.Linux(t, nil)
	program := filepath.Join(t.TempDir(), "rping")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "ciddk/examples/rping")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	pid := os.Getpid()
	at := fmt.Sprintf("127.%d.%d.", 1+pid>>8%250, pid%250)
	server := exec.Command(program, "-s", "-P", "-a", at+"251", "-S", "3000")
	pipe, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		assert.NoError(t, server.Process.Signal(os.Interrupt))
		assert.NoError(t, server.Wait())
	})
	line, err := bufio.NewReader(pipe).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "listening on")
	return map[string]string{"peer": at + "251", "local": at + "252", "other": at + "253", "program": "rping",
		"size": "3000"}
}

// peerRun judges a peer.
func peerRun(t *testing.T, d validate.Driver, scale float64, values map[string]string, cases ...string,
) *validate.Report {
	t.Helper()
	d.Evidence = evidence.Write
	p := validate.Plan{Catalog: validate.MustCatalog(wiresuite.PeerSuite()), Driver: d,
		Select: validate.Selection{Cases: cases}, Setting: validate.Setting{Profile: "wire", Scale: scale,
			PcapDir: t.TempDir(), Options: validate.Options{Seed: 1, Values: values}}}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	return r
}

// TestPeer judges the kit's own adapter as a peer, and then peers with one fault each, which must be found, with a
// capture.
func TestPeer(t *testing.T) {
	testenv.Long(t)
	values := rpingPeer(t)
	r := peerRun(t, stockDriver(), 1, values)
	for _, x := range r.Results {
		assert.Contains(t, []validate.Status{validate.Pass, validate.Skip}, x.Status, "%s: %+v", x.Case, x.Failures)
	}
	assert.GreaterOrEqual(t, r.Verdict.Counts[validate.Pass], 40)
	catalog := validate.MustCatalog(wiresuite.PeerSuite())
	set, err := mutant.NewSet(catalog, wiresuite.PeerMutants())
	require.NoError(t, err)
	for _, m := range set.All() {
		t.Run(m.Name, func(t *testing.T) {
			m.Link = ""
			var cases []string
			for _, v := range catalog.Coverage() {
				if v.ID == m.Breaks {
					cases = v.Proven
				}
			}
			if m.Case != "" {
				cases = []string{m.Case}
			}
			r := peerRun(t, m.Driver(stockDriver()), 0.2, values, cases...)
			caught := false
			for _, x := range r.Results {
				caught = caught || x.Blames(m.Breaks)
				if x.Blames(m.Breaks) {
					assert.NotEmpty(t, readCapture(t, x.Capture))
				}
			}
			assert.True(t, caught, "%s: %+v", m.Does, r.Results)
		})
	}
}

// TestPeerWithoutProgram checks that a peer on which nothing runs is not judged.
func TestPeerWithoutProgram(t *testing.T) {
	testenv.Linux(t, nil)
	values := map[string]string{"peer": "127.254.254.1", "local": "127.254.254.2", "program": "rping"}
	r := peerRun(t, stockDriver(), 0.02, values, "wire.nak.gap")
	assert.Equal(t, validate.OutcomeInconclusive, r.Verdict.Outcome, "%+v", r.Results)
}

func TestPeerSettings(t *testing.T) {
	for text, values := range map[string]map[string]string{
		`program ""`: {"peer": "10.0.0.1"}, `peer ""`: {"program": "rping"},
		"unable to parse IP":  {"peer": "nonsense", "program": "rping"},
		"size 0: want 1 to":   {"peer": "10.0.0.1", "program": "rping", "size": "0"},
		"mtu 1500: want 256":  {"peer": "10.0.0.1", "program": "rping", "mtu": "1500"},
		"value out of range":  {"peer": "10.0.0.1", "program": "rping", "port": "70000"},
		"different IP vers":   {"peer": "10.0.0.1", "program": "rping", "local": "fd00::1"},
		`peer "224.0.0.1": w`: {"peer": "224.0.0.1", "program": "rping"},
	} {
		_, err := stockOf(validate.Options{Values: values})
		assert.ErrorContains(t, err, text)
	}
}

// FuzzPingpong checks that what a peer sends in place of an end of a connection does no harm.
func FuzzPingpong(f *testing.F) {
	f.Add([]byte("0000:000011:abcdef:" + strings.Repeat("0", 32) + "\x00"))
	f.Add(bytes.Repeat([]byte(":"), pingpongLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := parsePingpong(b); err == nil {
			assert.LessOrEqual(t, e.QPN|e.PSN, uint32(0xffffff))
		}
	})
}
