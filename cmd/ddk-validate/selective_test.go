package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
)

// selectiveFile has the result of "ddk-validate self --all --results" with a --case for each of selectiveCases. One of
// its columns has the areas without a case of the mutant's requirement in which cases failed, each with their number.
var selectiveFile = filepath.Join("testdata", "selective.tsv")

// selectiveStep is the distance of the mutants of the file that TestSelective runs.
const selectiveStep = 40

// selectiveCases are the cases of other requirements that run over each mutant: quick ones of each area.
var selectiveCases = []string{"al.adapters", "apm.path", "args.*", "atomic.cas", "atomic.wc", "av.query",
	"ca.modify.unknown", "callbacks.verbs", "cm.end.dreq", "cq.poll.order", "cq.notify.once", "events.comm",
	"fault.flush.before", "fault.send.too-long", "mad.port-info", "mcast.groups", "mr.shared.busy", "mr.fmr.refused",
	"mr.fast.alloc", "mr.destroy.completed", "mw.full", "nil.create", "opcode.ud.send", "opcode.rc.send", "open.twice",
	"order.pd.rdd", "order.cq.recv", "pd.busy", "post.list.full", "post.signal.error", "qp.state.rc.query",
	"qp.state.ud.largest", "query.ports", "rc.send.gather", "rc.wc.recv", "rdma.read.scatter", "rdma.write.immediate",
	"sma.table.led", "special.type", "srq.full", "stale.qp.destroy", "uc.send.order", "ud.qkey.mismatch",
	"wire.form.ip", "wire.take.class"}

// selective returns the areas of the file by mutant, and the names of its mutants in order.
func selective(t *testing.T) (elsewhere map[string]string, names []string) {
	b, err := os.ReadFile(selectiveFile)
	require.NoError(t, err)
	elsewhere = map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 6, line)
		elsewhere[f[0]], names = f[4], append(names, f[0])
	}
	return elsewhere, names
}

// TestSelectiveFile checks that the mutants of the file exist, break the requirement that it names and were caught.
func TestSelectiveFile(t *testing.T) {
	c := validate.MustCatalog(suite.All()...)
	set, err := mutant.NewSet(c, suitemutants.All()...)
	require.NoError(t, err)
	b, err := os.ReadFile(selectiveFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		f := strings.Split(line, "\t")
		m, err := set.Get(f[0])
		require.NoError(t, err)
		assert.Equal(t, m.Breaks, f[1], f[0])
		assert.NotContains(t, line, "ESCAPED")
	}
}

// TestSelective compares a fixed core of the mutants with the file: over each, cases fail in no area that the file does
// not name.
func TestSelective(t *testing.T) {
	testenv.Long(t)
	elsewhere, names := selective(t)
	c := validate.MustCatalog(suite.All()...)
	set, err := mutant.NewSet(c, suitemutants.All()...)
	require.NoError(t, err)
	var core []string
	for i := 0; i < len(names); i += selectiveStep {
		if m, err := set.Get(names[i]); assert.NoError(t, err) && m.Hollow == 0 {
			core = append(core, names[i])
		}
	}
	r, err := mutant.Self(t.Context(), mutant.Plan{Catalog: c, Driver: drivers()[0], Set: set, Names: core,
		All: true, Cases: selectiveCases, Setting: validate.Setting{Profile: "full",
			Options: validate.Options{Seed: 1, Run: os.Getpid(), Link: "direct"}}})
	require.NoError(t, err)
	require.Len(t, r.Outcomes, len(core))
	for _, o := range r.Outcomes {
		known := map[string]bool{}
		for area := range strings.FieldsSeq(elsewhere[o.Mutant.Name]) {
			name, _, _ := strings.Cut(area, ":")
			known[name] = true
		}
		assert.Positive(t, o.Ran, o.Mutant.Name)
		for area, n := range o.Elsewhere {
			assert.True(t, known[area], "%s: %d cases of %s fail as well: %s", o.Mutant.Name, n, area, o.Stray)
		}
	}
}
