package main

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
	"ciddk/validate"
	"ciddk/validate/evidence"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/wiresuite"
)

// wireRun runs cases of the wire suite over a driver, with captures of the cases that fail.
func wireRun(t *testing.T, d validate.Driver, link, dir string, cases ...string) *validate.Report {
	t.Helper()
	d.Evidence = evidence.Write
	p := validate.Plan{
		Catalog: validate.MustCatalog(wiresuite.Suite()), Driver: d, Select: validate.Selection{Cases: cases},
		Setting: validate.Setting{
			Profile: "wire", PcapDir: dir, Options: validate.Options{Seed: 1, Link: link, Run: os.Getpid()},
		},
	}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	return r
}

// TestWireEvidence checks that the packets of a case that fails are kept, and that the packet that broke the rule has a
// comment.
func TestWireEvidence(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the certifier's end of the link needs more loopback addresses than this system has")
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

// TestWireNeedsAnEnd checks that cases of a target without an end for the certifier are skipped with the reason.
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
		assert.Contains(t, x.Reason, "needs an end of the link for the certifier")
	}
}

// TestWireEvidenceInfiniBand checks that captures of the direct link have whole InfiniBand packets. tshark must find
// LRH, GRH and transport headers at their offsets, and nothing malformed.
func TestWireEvidenceInfiniBand(t *testing.T) {
	d := drivers()[0]
	d.Evidence = evidence.Write
	dir := t.TempDir()
	cases := []string{"wire.form.grh", "wire.take.grh", "wire.ud.grh", "wire.request.atomic"}
	p := validate.Plan{
		Catalog: validate.MustCatalog(wiresuite.Suite()), Driver: d, Select: validate.Selection{Cases: cases},
		Setting: validate.Setting{
			Profile: "wire", PcapDir: dir, PcapAll: true,
			Options: validate.Options{Seed: 1, Link: "direct", Run: os.Getpid()},
		},
	}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Results, len(cases))
	for _, x := range r.Results {
		require.Equal(t, validate.Pass, x.Status, "%s: %+v", x.Case, x.Failures)
		list := readCapture(t, x.Capture)
		rows := tsharktest.Read(t, x.Capture, "infiniband.lrh.lver", "infiniband.lrh.lnh", "infiniband.lrh.dlid",
			"infiniband.lrh.slid", "infiniband.lrh.pktlen", "infiniband.grh.hoplmt", "infiniband.bth.opcode",
			"infiniband.bth.psn", "frame.interface_name")
		require.Len(t, rows, len(list), x.Case)
		routed := 0
		for i, row := range rows {
			b := list[i].data
			number := func(col int) int {
				n, err := strconv.ParseInt(row[col], 0, 32)
				require.NoError(t, err, "%s: packet %d: %q", x.Case, i+1, row)
				return int(n)
			}
			u16 := func(at int) int { return int(binary.BigEndian.Uint16(b[at:])) }
			require.True(t, list[i].ib)
			lrh := []int{number(0), number(1), number(2), number(3), number(4)}
			assert.Equal(t, []int{0, int(b[1] & 3), u16(2), u16(6), (len(b) - 2) / 4}, lrh, x.Case)
			bth := 8
			if b[1]&3 == 3 {
				routed++
				bth = 48
				assert.Equal(t, int(b[15]), number(5), x.Case)
			} else {
				assert.Empty(t, row[5])
			}
			psn := u16(bth+8)&0xff<<16 | u16(bth+10)
			assert.Equal(t, []int{int(b[bth]), psn}, []int{number(6), number(7)}, x.Case)
			from := map[int]string{1: "hca", 2: "hca", endLID: "certifier"}
			assert.Equal(t, from[u16(6)], row[8], x.Case)
		}
		assert.Equal(t, x.Case != "wire.request.atomic", routed > 0, x.Case)
	}
}

// TestWireLinks checks that over each link exactly the cases are skipped that do not apply to it, or that need an HCA
// with odd values.
func TestWireLinks(t *testing.T) {
	testenv.Long(t)
	infiniband := []string{"wire.form.lrh", "wire.form.vcrc", "wire.form.path", "wire.form.grh", "wire.drop.vcrc",
		"wire.drop.lrh", "wire.drop.vl15", "wire.drop.grh", "wire.take.lrh", "wire.take.grh", "wire.ud.grh"}
	ipv6 := []string{"wire.form.flow-label", "wire.form.flow-label-path"}
	const secondGID, secondPKey = "wire.drop.destination", "wire.drop.pkey-removed"
	infiniband = append(infiniband, secondGID, secondPKey, "wire.smp.lane")
	ip := append(
		[]string{"wire.form.udp", "wire.form.source-port", "wire.form.ip", "wire.form.checksum", "wire.form.class",
			"wire.drop.ip", "wire.take.source-port", "wire.take.class", "wire.ud.header", "wire.smp.lane",
			secondGID},
		ipv6...)
	const unclaimed = "wire.place.unclaimed" // of an adapter that does not claim ATOMIC WRITE or FLUSH
	for _, tt := range []struct {
		link string
		v6   bool
		skip []string
	}{{"direct", false, ip}, {"network", false, append(ipv6, infiniband...)}, {"network", true, infiniband}} {
		d := drivers()[0]
		o := validate.Options{Seed: 1, Link: tt.link, Run: os.Getpid()}
		if tt.v6 {
			o.Values = map[string]string{"ip": "6"}
		}
		p := validate.Plan{
			Catalog: validate.MustCatalog(wiresuite.Suite()), Driver: d,
			Setting: validate.Setting{Profile: "wire", Options: o},
		}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		var skipped []string
		for _, x := range r.Results {
			if x.Status == validate.Skip {
				skipped = append(skipped, x.Case)
				continue
			}
			assert.Equal(t, validate.Pass, x.Status, "%s over %s: %+v", x.Case, tt.link, x.Failures)
		}
		assert.ElementsMatch(t, append([]string{unclaimed}, tt.skip...), skipped, tt.link)
	}
}
