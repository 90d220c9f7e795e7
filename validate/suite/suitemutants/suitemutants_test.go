package suitemutants_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
)

// update makes TestTested remove the lines of pending.txt whose requirements are tested now.
var update = flag.Bool("update", false, "remove lines from pending.txt whose requirements are tested")

const pendingFile = "pending.txt"

// TestTested checks that every requirement that a case names has a check of its own and a mutant that breaks it. The
// self test of ddk-validate shows that the check fails on the mutant. The exceptions are listed in pending.txt, which
// only becomes shorter.
func TestTested(t *testing.T) {
	catalog, err := validate.NewCatalog(suite.All()...)
	require.NoError(t, err)
	set, err := mutant.NewSet(catalog, suitemutants.All()...)
	require.NoError(t, err)
	b, err := os.ReadFile(pendingFile)
	require.NoError(t, err)
	pending := map[string]bool{}
	var keep []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			keep = append(keep, line)
			continue
		}
		assert.False(t, pending[line], "%s: %s is listed twice", pendingFile, line)
		pending[line] = true
	}
	for _, r := range set.Tests(catalog) {
		switch r.Standing {
		case mutant.Uncovered:
			assert.NotEmpty(t, r.Why, "%s has no case and no reason for that", r.ID)
			assert.NotContains(t, r.Why, "no case yet", "%s has no case", r.ID)
		case mutant.Touched:
			assert.True(t, pending[r.ID], "%s (%s) lacks %s", r.ID, r.Text, r.Lacks())
			if pending[r.ID] {
				keep = append(keep, r.ID)
			}
		}
		if r.Standing != mutant.Touched && !*update {
			assert.False(t, pending[r.ID], "%s: remove %s, which is %s", pendingFile, r.ID, r.Standing)
		}
		delete(pending, r.ID)
	}
	assert.Empty(t, pending, "%s: unknown requirements", pendingFile)
	if *update && !t.Failed() {
		require.NoError(t, os.WriteFile(pendingFile, []byte(strings.Join(keep, "\n")+"\n"), 0o666))
	}
}

// TestStanding checks each standing with a set that lacks a mutant, and with one that has it.
func TestStanding(t *testing.T) {
	run := func(*validate.T) {}
	c := validate.MustCatalog(validate.Suite{Cases: []validate.Case{
		validate.NewCase("a.b", "x", validate.FeatureCore, run, "SAS-2.1-27", "SAS-2.1-26", "SAS-2.1-22").
			Checking("SAS-2.1-26"),
	}})
	ms := []mutant.Mutant{}
	for _, id := range []string{"SAS-2.1-26", "SAS-2.1-27"} {
		i := slices.IndexFunc(mutant.Basic(), func(m mutant.Mutant) bool { return m.Breaks == "SAS-2.1-27" })
		m := mutant.Basic()[i]
		m.Name, m.Breaks = m.Name+strings.ToLower(id[7:]), id
		ms = append(ms, m)
	}
	for with, want := range map[int]map[string]string{
		1: {"SAS-2.1-26": "", "SAS-2.1-27": "a mutant", "SAS-2.1-22": "a check of its own", "SAS-2.1-21": "a case"},
		2: {"SAS-2.1-26": "", "SAS-2.1-27": "", "SAS-2.1-22": "a check of its own", "SAS-2.1-21": "a case"},
	} {
		set, err := mutant.NewSet(c, ms[:with])
		require.NoError(t, err)
		for _, r := range set.Tests(c) {
			if lacks, ok := want[r.ID]; ok {
				assert.Equal(t, lacks, r.Lacks(), r.ID)
				assert.Equal(t, lacks == "", r.Standing == mutant.Tested, r.ID)
			}
		}
	}
}
