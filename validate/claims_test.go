package validate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate/req"
)

// claimCatalog has a case that proves SRQ, two that prove UD, and a mark for RD.
func claimCatalog(t *testing.T) *Catalog {
	t.Helper()
	one := func(id string, bit ci.Caps) Case {
		return Case{
			ID: id, Title: id, Requirements: []string{"SAS-2.1-27"}, Feature: FeatureClaims, Proves: bit,
			Run: func(*T) {},
		}
	}
	c, err := NewCatalog(Suite{
		Cases:     []Case{one("a.srq", ci.CapSRQ), one("a.ud", ci.CapUD), one("b.ud", ci.CapUD)},
		NotTested: []NotTested{{ci.CapRD, "nobody has it"}},
	})
	require.NoError(t, err)
	return c
}

// verdictOn returns the report on a driver that claims caps, with these results of the cases that prove claims. Another
// case has passed.
func verdictOn(t *testing.T, profile string, caps ci.Caps, results ...Result) *Report {
	t.Helper()
	results = append(results, Result{Case: "other", Status: Pass})
	r := &Report{
		Results: results, Run: RunInfo{Driver: "d", Profile: profile, Selected: 4, All: 4},
		Claims: claimsOf(claimCatalog(t), caps, results),
	}
	r.Untested = r.untested()
	r.setVerdict()
	return r
}

func TestUntestedClaimWithholdsTheCertificate(t *testing.T) {
	pass := func(id string) Result { return Result{Case: id, Status: Pass} }
	skipped := Result{Case: "a.srq", Status: Skip, Reason: "no hands"}
	failed := Result{Case: "b.ud", Status: Fail, Level: req.Must}
	for name, x := range map[string]struct {
		caps      ci.Caps
		results   []Result
		certified bool
		line      string
	}{
		"no claims":          {0, nil, true, "CERTIFIED: "},
		"tested":             {ci.CapSRQ, []Result{pass("a.srq")}, true, "CERTIFIED: "},
		"marked":             {ci.CapRD, nil, false, "NOT TESTED: claimed and not tested: RD, "},
		"neither":            {ci.CapLSO, nil, false, "NOT TESTED: claimed and not tested: LSO, "},
		"not a bit of ci":    {1 << 60, nil, false, "NOT TESTED: claimed and not tested: bit 60, "},
		"skipped":            {ci.CapSRQ, []Result{skipped}, false, "NOT TESTED: claimed and not tested: SRQ, "},
		"one of two skipped": {ci.CapUD, []Result{pass("a.ud"), {Case: "b.ud", Status: Skip}}, true, "CERTIFIED: "},
		"failed":             {ci.CapUD, []Result{pass("a.ud"), failed}, false, "NOT CERTIFIED: 1 failed, "},
		"two":                {ci.CapRD | ci.CapSRQ, nil, false, "NOT TESTED: claimed and not tested: RD SRQ, "},
	} {
		r := verdictOn(t, "full", x.caps, x.results...)
		assert.Equal(t, x.certified, r.Verdict.Certified, name)
		assert.Contains(t, r.Verdict.Line, x.line, name)
		if !x.certified {
			assert.Contains(t, []int{ExitFailed, ExitUntested}, r.Exit(), name)
		}
	}
}

// TestClaimsThatAreNotTested checks a profile without the feature claims, and a selection. Neither requires that claims
// are tested.
func TestClaimsThatAreNotTested(t *testing.T) {
	assert.True(t, verdictOn(t, "wire", ci.CapRD).Verdict.Certified)
	r := verdictOn(t, "full", ci.CapRD)
	r.Run.Selected = 2
	r.Untested = r.untested()
	r.setVerdict()
	assert.True(t, r.Verdict.Certified)
	assert.Contains(t, r.Verdict.Line, "SELECTION PASSED")
}

func TestClaimReasons(t *testing.T) {
	c := claimCatalog(t)
	results := []Result{{Case: "a.srq", Status: Skip, Reason: "no hands"}, {Case: "a.ud", Status: Pass}}
	got := claimsOf(c, ci.CapSRQ|ci.CapUD|ci.CapRD|ci.CapLSO, results)
	assert.Equal(t, []Claim{
		{Name: "UD", State: ClaimTested, Cases: []string{"a.ud"}},
		{Name: "RD", State: ClaimNotTested, Why: "nobody has it"},
		{Name: "SRQ", State: ClaimNotTested, Why: "a.srq: no hands"},
		{Name: "LSO", State: ClaimNotTested, Why: "no case of the catalog tests it"},
	}, got)
}

func TestMarksAreChecked(t *testing.T) {
	marks := map[string]NotTested{
		"names no capability or no reason": {Caps: ci.CapRD},
		"a case proves it":                 {ci.CapSRQ, "x"},
	}
	for want, n := range marks {
		c := okCase()
		c.Proves = ci.CapSRQ
		_, err := NewCatalog(Suite{Cases: []Case{c}, NotTested: []NotTested{n}})
		assert.ErrorContains(t, err, want)
	}
}

// TestClaimNames converts names of claims back to bits, including bits that package ci does not define.
func TestClaimNames(t *testing.T) {
	for _, caps := range []ci.Caps{0, AllCaps, 1 << 63, 1<<50 | ci.CapSRQ} {
		id := &Identity{Claims: CapList(caps)}
		assert.Equal(t, caps, id.caps())
	}
}
