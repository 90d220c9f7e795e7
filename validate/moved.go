package validate

import (
	"fmt"
	"slices"
	"strings"
)

// A Moved is a case that left the catalog. Its id is never used again, and stays known: ddk-validate explain, waivers
// and selections answer it with what tests its subject now.
type Moved struct {
	ID          string
	Requirement string   // the one that the case proved
	To          []string // ids of cases, and tests such as accesslayer/cm.TestFlood: a folder and a function
}

// ParseMoved parses a table of moved cases. A line has the id, the requirement and one successor or more. Empty lines
// and lines that begin with # are comments.
func ParseMoved(table string) ([]Moved, error) {
	var out []Moved
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0][0] == '#':
		case len(f) < 3:
			return nil, fmt.Errorf("moved cases: %q: want a case, its requirement and its successors", f[0])
		default:
			out = append(out, Moved{f[0], f[1], f[2:]})
		}
	}
	return out, nil
}

// Test returns the command of a successor that is a test. ok is false if it is a case.
func (Moved) Test(successor string) (command string, ok bool) {
	folder, name, ok := strings.Cut(successor, ".Test")
	return fmt.Sprintf("go test ./%s -run '^Test%s$'", folder, name), ok
}

// String returns a sentence about the case and its successors.
func (m Moved) String() string {
	return fmt.Sprintf("case %s has left the catalog, and its subject is tested by %s", m.ID, strings.Join(m.To, ", "))
}

// Moved returns the case with an id that left the catalog.
func (c *Catalog) Moved(id string) (Moved, bool) { m, ok := c.moved[id]; return m, ok }

// MovedCases returns the cases that left the catalog and match a glob, in order of id.
func (c *Catalog) MovedCases(pattern string) []Moved {
	var out []Moved
	for _, m := range c.moved {
		if glob(pattern, m.ID) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Moved) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// describeMoved returns a sentence about the cases that left the catalog and match a glob, or "".
func (c *Catalog) describeMoved(pattern string) string {
	ms := c.MovedCases(pattern)
	switch {
	case len(ms) == 0:
		return ""
	case len(ms) > 1:
		return fmt.Sprintf("%v; so have %d others that match", ms[0], len(ms)-1)
	}
	return ms[0].String()
}

// addMoved checks and adds cases that left the catalog.
func (c *Catalog) addMoved(m Moved) error {
	switch _, known := c.book.Get(m.Requirement); {
	case !caseID.MatchString(m.ID) || c.byID[m.ID] != nil || c.moved[m.ID].ID != "":
		return fmt.Errorf("moved case %q: not the id of one case that is not in the catalog", m.ID)
	case !known:
		return fmt.Errorf("moved case %s: unknown requirement %s", m.ID, m.Requirement)
	case len(m.To) == 0:
		return fmt.Errorf("moved case %s: no successor", m.ID)
	}
	for _, to := range m.To {
		if _, isTest := m.Test(to); !isTest && c.byID[to] == nil {
			return fmt.Errorf("moved case %s: no case %q", m.ID, to)
		}
	}
	c.moved[m.ID] = m
	return nil
}

// movedReason returns the reason why a requirement has no case, from its cases that left the catalog, or "".
func (c *Catalog) movedReason(requirement string) string {
	var tests []string
	for _, m := range c.MovedCases("*") {
		if m.Requirement != requirement {
			continue
		}
		for _, to := range m.To {
			if !slices.Contains(tests, to) {
				tests = append(tests, to)
			}
		}
	}
	if len(tests) == 0 {
		return ""
	}
	return "a rule of the kit's own code, which no driver can break; tested by " + strings.Join(tests, ", ")
}
