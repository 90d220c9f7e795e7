package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
	"ciddk/validate/suite/wiresuite"
)

// update makes TestIDs write the listing, unless an id is lost.
var update = flag.Bool("update", false, "write testdata/ids.txt from the suites and the mutants")

var idsFile = filepath.Join("testdata", "ids.txt")

// TestIDs compares the ids of the program with the committed listing: requirements with their levels, cases with the
// requirements that they prove, cases that left the catalog with their successors, and mutants with the requirement
// that they break. Waivers, reports and vendors' scripts contain ids of requirements and cases, so none is removed or
// used for something else: a case that leaves is a line of validate/suite/moved.txt. After a change, run
//
//	go test ./cmd/ddk-validate -run TestIDs -update
//
// It fails if an id is missing.
func TestIDs(t *testing.T) {
	now := listIDs(t)
	if *update {
		assert.Empty(t, lost(readIDs(t), now), "ids never change, and these are missing")
		if !t.Failed() {
			require.NoError(t, os.WriteFile(idsFile, []byte(strings.Join(now, "\n")+"\n"), 0o666))
		}
		return
	}
	was := readIDs(t)
	assert.Empty(t, missing(was, now), "lines of the listing that do not match the program")
	assert.Empty(t, missing(now, was), "lines missing in the listing; after an addition, run this test with -update")
	assert.Zero(t, len(now)-len(was), "lines twice in one of both")
}

// missing returns the lines of a that are not in b.
func missing(a, b []string) []string {
	has := map[string]bool{}
	for _, line := range b {
		has[line] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return has[line] })
}

func TestLostIDs(t *testing.T) {
	was := []string{"requirement A MUST", "case a A", "mutant m A"}
	assert.Empty(t, lost(was, []string{"mutant m B", "case a B A", "requirement A SHOULD", "case b A"}))
	assert.Empty(t, lost(was, []string{"requirement A MUST", "moved a A b"}), "a case may leave, and so may a mutant")
	assert.Equal(t, []string{"requirement A", "case a"}, lost(was, []string{"requirement B MUST", "case m A"}))
	assert.Equal(t, []string{"moved a"}, lost([]string{"moved a A b"}, []string{"case a A"}), "it does not come back")
}

// listIDs returns one line for each requirement, case, case that left and mutant, ordered by kind and id.
func listIDs(t *testing.T) []string {
	t.Helper()
	catalog, err := validate.NewCatalog(suite.All()...)
	require.NoError(t, err)
	set, err := mutant.NewSet(catalog, suitemutants.All()...)
	require.NoError(t, err)
	var requirements, cases, moved, broken []string
	for _, r := range catalog.Requirements() {
		requirements = append(requirements, fmt.Sprintf("requirement %s %s", r.ID, r.Level))
	}
	for _, c := range catalog.Cases() {
		cases = append(cases, fmt.Sprintf("case %s %s", c.ID, strings.Join(c.Requirements, " ")))
	}
	for _, m := range catalog.MovedCases("*") {
		moved = append(moved, fmt.Sprintf("moved %s %s %s", m.ID, m.Requirement, strings.Join(m.To, " ")))
	}
	for _, m := range set.All() {
		broken = append(broken, fmt.Sprintf("mutant %s %s", m.Name, m.Breaks))
	}
	peer := wiresuite.PeerSuite()
	for _, r := range peer.Requirements {
		if _, isListed := catalog.Requirement(r.ID); !isListed {
			requirements = append(requirements, fmt.Sprintf("requirement %s %s", r.ID, r.Level))
		}
	}
	for _, c := range peer.Cases {
		if _, isListed := catalog.Case(c.ID); !isListed {
			cases = append(cases, fmt.Sprintf("case %s %s", c.ID, strings.Join(c.Requirements, " ")))
		}
	}
	slices.Sort(cases)
	slices.Sort(broken)
	return slices.Concat(requirements, cases, moved, broken)
}

// readIDs returns the lines of the committed listing.
func readIDs(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(idsFile)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// lost returns the kinds and ids of was that are not in now. Mutants may leave: only the self test uses their names.
func lost(was, now []string) []string {
	id := func(line string) string { return strings.Join(strings.SplitN(line, " ", 3)[:2], " ") }
	has := map[string]bool{}
	for _, line := range now {
		has[id(line)] = true
	}
	var out []string
	for _, line := range was {
		x := id(line)
		kind, name, _ := strings.Cut(x, " ")
		if !has[x] && kind != "mutant" && (kind != "case" || !has["moved "+name]) {
			out = append(out, x)
		}
	}
	return out
}
