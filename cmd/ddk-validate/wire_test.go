package main

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/evidence"
	"ciddk/validate/mutant"
	wiresuite "ciddk/validate/suite/wire"
)

// wireRun runs cases of the wire over a driver, with captures of those that fail.
func wireRun(t *testing.T, d validate.Driver, link, dir string, cases ...string) *validate.Report {
	t.Helper()
	d.Evidence = evidence.Write
	p := validate.Plan{Catalog: validate.MustCatalog(wiresuite.Suite()), Driver: d, Select: validate.Selection{Cases: cases},
		Setting: validate.Setting{Profile: "wire", PcapDir: dir, Options: validate.Options{Seed: 1, Link: link, Run: 79}}}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	return r
}

// The packets of a case that fails are kept, and the one that broke the rule says so.
func TestWireEvidence(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the certifier's end of the link needs loopback addresses that Linux alone has")
	}
	set, err := mutant.NewSet(validate.MustCatalog(wiresuite.Suite()), wiresuite.Mutants())
	require.NoError(t, err)
	for name, id := range map[string]string{"wire.nak-psn": "wire.nak.gap", "wire.reserved-8": "wire.form.reserved"} {
		m, err := set.Get(name)
		require.NoError(t, err)
		dir := t.TempDir()
		r := wireRun(t, m.Driver(drivers()[0]), "udp", dir, id)
		require.Len(t, r.Results, 1)
		x := r.Results[0]
		assert.True(t, x.Blames(m.Breaks), "%+v", x.Failures)
		require.Equal(t, filepath.Join(dir, id+".pcapng"), x.Capture)
		packets := readCapture(t, x.Capture)
		assert.Greater(t, len(packets), 2)
		var remarks []string
		for _, p := range packets {
			remarks = append(remarks, p.comments...)
		}
		require.NotEmpty(t, remarks)
		assert.True(t, strings.HasPrefix(remarks[0], m.Breaks+": "), "%q", remarks)
	}
}

// A target that has no end for the certifier gets its cases skipped, with the reason, and no certificate.
func TestWireNeedsAnEnd(t *testing.T) {
	d := drivers()[0]
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		t, err := open(ctx, o)
		if err == nil {
			t.Wire = nil
		}
		return t, err
	}
	r := wireRun(t, d, "direct", t.TempDir(), "wire.ack.*")
	require.NotEmpty(t, r.Results)
	for _, x := range r.Results {
		assert.Equal(t, validate.Skip, x.Status, x.Case)
		assert.Contains(t, x.Reason, "needs a link at which the certifier can send and receive packets itself")
	}
}
