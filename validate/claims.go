package validate

import (
	"cmp"
	"fmt"
	"strings"

	"ciddk/ci"
)

// NotTested marks capabilities that no case of the catalog can test, with the reason. A driver that claims one of them
// is not certified.
type NotTested struct {
	Caps ci.Caps
	Why  string
}

// ClaimState is what a run found out about a capability that the driver claims.
type ClaimState string

// The states of a claim. It is tested if a case that proves it has passed and none has failed.
const (
	ClaimTested    ClaimState = "tested"
	ClaimFailed    ClaimState = "failed"
	ClaimNotTested ClaimState = "not tested"
)

// Claim is one capability that the driver claims.
type Claim struct {
	Name  string     `json:"name"`
	State ClaimState `json:"state"`
	Cases []string   `json:"cases,omitempty"` // that tested it
	Why   string     `json:"why,omitempty"`   // not tested
}

// AllCaps are the capabilities of package ci.
const AllCaps = ci.CapFlushPersistent<<1 - 1

// Proves returns the capabilities that at least one case of the catalog tests.
func (c *Catalog) Proves() ci.Caps {
	var out ci.Caps
	for _, cs := range c.cases {
		out |= cs.Proves
	}
	return out
}

// NotTested returns the reason why no case tests a capability, or "" if there is no such mark.
func (c *Catalog) NotTested(bit ci.Caps) string {
	for _, n := range c.untested {
		if n.Caps&bit != 0 {
			return n.Why
		}
	}
	return ""
}

// addUntested adds a suite's marks. A mark is an error if a case proves the capability.
func (c *Catalog) addUntested(marks []NotTested) error {
	for _, n := range marks {
		if n.Caps == 0 || n.Why == "" {
			return fmt.Errorf("a mark NotTested names no capability or no reason: %+v", n)
		}
		if twice := n.Caps & c.Proves(); twice != 0 {
			return fmt.Errorf("%s: marked NotTested, but a case proves it", CapNames(twice))
		}
		c.untested = append(c.untested, n)
	}
	return nil
}

// claimsOf returns the state of each claimed capability after a run with these results.
func claimsOf(c *Catalog, caps ci.Caps, results []Result) []Claim {
	byCase := map[string]*Result{}
	for i := range results {
		byCase[results[i].Case] = &results[i]
	}
	var out []Claim
	for _, bit := range capBits(caps) {
		out = append(out, claimOf(c, bit, byCase))
	}
	return out
}

func claimOf(c *Catalog, bit ci.Caps, results map[string]*Result) Claim {
	x := Claim{Name: CapNames(bit), State: ClaimNotTested}
	var reasons []string
	for _, cs := range c.cases {
		if cs.Proves&bit == 0 {
			continue
		}
		r := results[cs.ID]
		switch {
		case r == nil:
			reasons = append(reasons, cs.ID+" was not run")
			continue
		case r.Status == Skip || r.Status == Inconclusive:
			reasons = append(reasons, cs.ID+": "+r.Reason)
			continue
		case r.Status != Pass:
			x.State = ClaimFailed
		case x.State == ClaimNotTested:
			x.State = ClaimTested
		}
		x.Cases = append(x.Cases, cs.ID)
	}
	if x.State == ClaimNotTested {
		x.Why = cmp.Or(strings.Join(reasons, "; "), c.NotTested(bit), "no case of the catalog tests it")
	}
	return x
}

// capBits returns the set bits of caps, lowest first.
func capBits(caps ci.Caps) []ci.Caps {
	var out []ci.Caps
	for bit := ci.Caps(1); bit != 0; bit <<= 1 {
		if caps&bit != 0 {
			out = append(out, bit)
		}
	}
	return out
}

// untested returns the claims that no case has tested. It returns nil for a selection and for a profile without the
// feature claims.
func (r *Report) untested() []Untested {
	p, _ := FindProfile(r.Run.Profile)
	if r.Run.Selected < r.Run.All || !p.Has(FeatureClaims) {
		return nil
	}
	var out []Untested
	for _, c := range r.Claims {
		if c.State == ClaimNotTested {
			out = append(out, Untested{c.Name, c.Why})
		}
	}
	return out
}
