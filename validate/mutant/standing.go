package mutant

import "ciddk/validate"

// Standing is how far a requirement is tested.
type Standing string

const (
	// Tested is the standing of a requirement that a case checks and a mutant breaks. The self test shows that the case
	// fails on the mutant with this requirement.
	Tested Standing = "tested"
	// Touched is the standing of a requirement that a case names, but no case has a check of it, or no mutant breaks
	// it.
	Touched Standing = "touched"
	// Uncovered is the standing of a requirement that no case names.
	Uncovered Standing = "uncovered"
)

// Tests is a requirement with its cases, its mutants and its standing.
type Tests struct {
	validate.Coverage
	Mutants  []string
	Standing Standing
}

// Lacks returns what the requirement lacks to be tested, or "".
func (t Tests) Lacks() string {
	switch {
	case t.Standing == Uncovered:
		return "a case"
	case len(t.Proven) == 0:
		return "a check of its own"
	case len(t.Mutants) == 0:
		return "a mutant"
	}
	return ""
}

// Tests returns every requirement of the catalog with the mutants of the set that break it.
func (s *Set) Tests(c *validate.Catalog) []Tests {
	broken := map[string][]string{}
	for _, m := range s.list {
		broken[m.Breaks] = append(broken[m.Breaks], m.Name)
	}
	var out []Tests
	for _, v := range c.Coverage() {
		t := Tests{Coverage: v, Mutants: broken[v.ID], Standing: Touched}
		switch {
		case !v.Covered():
			t.Standing = Uncovered
		case len(v.Proven) > 0 && len(t.Mutants) > 0:
			t.Standing = Tested
		}
		out = append(out, t)
	}
	return out
}
