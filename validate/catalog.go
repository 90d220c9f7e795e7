package validate

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"ciddk/validate/req"
)

// A Catalog is a set of suites put together. Each id of a case or requirement occurs once.
type Catalog struct {
	cases    []*Case
	byID     map[string]*Case
	book     *req.Book
	untested []NotTested
	moved    map[string]Moved
}

var caseID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+$`)

// NewCatalog checks and joins suites. The requirements of the specification (req.SAS) are part of every catalog. The
// error joins all mistakes: malformed ids, duplicates, and cases without a known requirement, a feature or a body.
func NewCatalog(suites ...Suite) (*Catalog, error) {
	lists := [][]req.Requirement{req.SAS()}
	for _, s := range suites {
		lists = append(lists, s.Requirements)
	}
	book, err := req.NewBook(lists...)
	if err != nil {
		return nil, err
	}
	c := &Catalog{byID: map[string]*Case{}, book: book, moved: map[string]Moved{}}
	var errs []error
	for _, s := range suites {
		for i := range s.Cases {
			cs := s.Cases[i]
			if err := c.add(&cs); err != nil {
				errs = append(errs, fmt.Errorf("suite %s: %w", s.Name, err))
			}
		}
	}
	for _, s := range suites {
		if err := c.addUntested(s.NotTested); err != nil {
			errs = append(errs, fmt.Errorf("suite %s: %w", s.Name, err))
		}
		for _, m := range s.Moved {
			if err := c.addMoved(m); err != nil {
				errs = append(errs, fmt.Errorf("suite %s: %w", s.Name, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// MustCatalog is like NewCatalog but panics on an error. It is for suites that are part of the program.
func MustCatalog(suites ...Suite) *Catalog {
	c, err := NewCatalog(suites...)
	if err != nil {
		panic("validate: " + err.Error())
	}
	return c
}

func (c *Catalog) add(cs *Case) error {
	switch {
	case !caseID.MatchString(cs.ID):
		return fmt.Errorf("case %q: an id is dotted lower case, such as rc.send.sizes", cs.ID)
	case c.byID[cs.ID] != nil:
		return fmt.Errorf("duplicate case %s: %q and %q", cs.ID, c.byID[cs.ID].Title, cs.Title)
	case cs.Title == "":
		return fmt.Errorf("case %s: no title", cs.ID)
	case cs.Run == nil:
		return fmt.Errorf("case %s: Run is nil", cs.ID)
	case len(cs.Requirements) == 0:
		return fmt.Errorf("case %s proves no requirement", cs.ID)
	case !slices.Contains(features, cs.Feature):
		return fmt.Errorf("case %s: unknown feature %q", cs.ID, cs.Feature)
	}
	for i, id := range cs.Requirements {
		if _, ok := c.book.Get(id); !ok {
			return fmt.Errorf("case %s: unknown requirement %s%s", cs.ID, id, didYouMean(id, c.requirementIDs()))
		}
		if slices.Contains(cs.Requirements[:i], id) {
			return fmt.Errorf("case %s names requirement %s twice", cs.ID, id)
		}
	}
	for _, id := range cs.Checks {
		if !slices.Contains(cs.Requirements[1:], id) {
			return fmt.Errorf("case %s checks %s, which is not among the requirements that it touches", cs.ID, id)
		}
	}
	c.cases = append(c.cases, cs)
	c.byID[cs.ID] = cs
	return nil
}

// Cases returns all cases in the order of their suites.
func (c *Catalog) Cases() []*Case { return slices.Clone(c.cases) }

// Case returns the case with the id.
func (c *Catalog) Case(id string) (*Case, bool) { cs, ok := c.byID[id]; return cs, ok }

// Requirement returns the requirement with the id.
func (c *Catalog) Requirement(id string) (req.Requirement, bool) { return c.book.Get(id) }

// Requirements returns all requirements in order of id.
func (c *Catalog) Requirements() []req.Requirement { return c.book.All() }

func (c *Catalog) requirementIDs() []string {
	var out []string
	for _, r := range c.book.All() {
		out = append(out, r.ID)
	}
	return out
}

// IDs returns the ids of all requirements, then those of all cases.
func (c *Catalog) IDs() []string {
	out := c.requirementIDs()
	for _, cs := range c.cases {
		out = append(out, cs.ID)
	}
	return out
}

// Coverage is one requirement with the cases that check it and those that only touch on it.
type Coverage struct {
	req.Requirement
	Proven  []string `json:"judged,omitempty"`  // cases that can charge a failure to it (Case.CanCharge)
	Touched []string `json:"touched,omitempty"` // cases that name it and have no check of it
	// Why is the reason, if no case proves or touches it.
	Why string `json:"why,omitempty"`
}

// Covered reports whether a case proves or touches the requirement.
func (c Coverage) Covered() bool { return len(c.Proven)+len(c.Touched) > 0 }

// Coverage returns every requirement with its cases.
func (c *Catalog) Coverage() []Coverage {
	var out []Coverage
	at := map[string]int{}
	for _, r := range c.book.All() {
		at[r.ID] = len(out)
		out = append(out, Coverage{Requirement: r})
	}
	for _, cs := range c.cases {
		for _, id := range cs.Requirements {
			v := &out[at[id]]
			if cs.CanCharge(id) {
				v.Proven = append(v.Proven, cs.ID)
			} else {
				v.Touched = append(v.Touched, cs.ID)
			}
		}
	}
	for i := range out {
		if out[i].Covered() {
			out[i].Uncovered = ""
		} else if out[i].Why = cmp.Or(out[i].Uncovered, c.movedReason(out[i].ID)); out[i].Why == "" {
			out[i].Why = map[req.Scope]string{
				req.Driver:      "no case yet",
				req.AccessLayer: "no case yet; needs the access layer between",
				req.UserMode:    "no case yet; needs user mode",
				req.Subnet:      "no case yet; needs a subnet",
				req.Document:    "a matter of documentation",
			}[out[i].Scope]
		}
	}
	return out
}
