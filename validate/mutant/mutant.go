// Package mutant tests the certifier with drivers that have deliberate faults. A mutant is a correct driver with one
// fault. A mutant that no case catches is a bug of the certifier.
//
// A mutant is a value: a wrapper (package ci/ciwrap) and the requirement that it breaks. Self runs the cases of that
// requirement over it. The mutant is caught if a case that passes on the correct driver fails, with a failure that is
// charged to the broken requirement and not marked Setup. Failures of other cases do not matter.
//
//	Of("cq.zero-size", "CI-CreateCQ-02", "CreateCQ accepts a size of 0", tap.Layer(ciwrap.Layer{ … })).Needing(…)
package mutant

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
)

// A Mutant is a driver with one fault.
type Mutant struct {
	Name   string // area.fault, in lower case letters, digits and dashes
	Breaks string // id of the requirement
	// Case is the id of the case that has to catch the mutant, or "" if any case of the requirement may. It shows that
	// the case finds something that the other cases of the requirement do not look for.
	Case string
	Does string // what is wrong, in a sentence
	// Needs are claims without which the fault has no effect. The correct driver must have them.
	Needs ci.Caps
	// Hollow are capabilities that the mutant claims but does not implement, whether the correct driver has them or
	// not. Only the cases that prove one of them are run. The mutant is caught by one of them, or by a verdict that a
	// claim is not tested.
	Hollow ci.Caps
	// Compound marks a mutant of Compounds, which every case that fails catches.
	Compound bool
	// Link is the only link on which the fault has an effect, or "". It is ignored if the driver has no link of this
	// name.
	Link string
	// Values are settings of the driver that the fault needs. They replace those of the run. Settings that the driver
	// does not have are ignored.
	Values map[string]string
	// Wrap returns an HCA with the fault. It is called once for each HCA of each target, and must share nothing between
	// them. It may be nil.
	Wrap func(ci.HCA) ci.HCA
	// Target changes a whole target, for a fault that is not in one HCA. It runs after Wrap. It may be nil.
	Target func(*validate.Target)
}

// Of returns a mutant: its name, the id of the requirement that it breaks, what is wrong, and the wrapper with the
// fault.
func Of(name, breaks, does string, wrap func(ci.HCA) ci.HCA) Mutant {
	return Mutant{Name: name, Breaks: breaks, Does: does, Wrap: wrap}
}

// By returns m with the case that has to catch it.
func (m Mutant) By(id string) Mutant { m.Case = id; return m }

// Needing returns m with claims without which the fault has no effect.
func (m Mutant) Needing(c ci.Caps) Mutant { m.Needs = c; return m }

// Claiming returns m with capabilities that it claims but does not implement.
func (m Mutant) Claiming(c ci.Caps) Mutant { m.Hollow = c; return m }

// On returns m with the only link on which the fault has an effect.
func (m Mutant) On(link string) Mutant { m.Link = link; return m }

// Set returns m with settings of the driver that the fault needs.
func (m Mutant) Set(values map[string]string) Mutant { m.Values = values; return m }

// Changing returns m with a change of a whole target.
func (m Mutant) Changing(f func(*validate.Target)) Mutant { m.Target = f; return m }

// Set is a list of mutants with different names.
type Set struct{ list []Mutant }

var nameForm = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`)

// NewSet joins lists of mutants. The error joins all mistakes: invalid or duplicate names, unknown requirements,
// requirements that no case checks, and a Case that does not check the requirement.
func NewSet(c *validate.Catalog, lists ...[]Mutant) (*Set, error) {
	covered, checks := map[string]bool{}, map[[2]string]bool{}
	for _, v := range c.Coverage() {
		covered[v.ID] = len(v.Proven) > 0
		for _, id := range v.Proven {
			checks[[2]string{id, v.ID}] = true
		}
	}
	s := &Set{}
	var errs []error
	for _, m := range slices.Concat(lists...) {
		known, ok := covered[m.Breaks]
		switch {
		case !nameForm.MatchString(m.Name):
			errs = append(errs,
				fmt.Errorf("mutant %q: the name is not in dotted lower case, such as cq.zero-size", m.Name))
		case m.Wrap == nil && m.Target == nil:
			errs = append(errs, fmt.Errorf("mutant %s changes nothing: Wrap and Target are nil", m.Name))
		case m.Does == "":
			errs = append(errs, fmt.Errorf("mutant %s: Does is empty", m.Name))
		case !ok:
			errs = append(errs, fmt.Errorf("mutant %s breaks %q, which no suite declares", m.Name, m.Breaks))
		case !known:
			errs = append(errs, fmt.Errorf("mutant %s breaks %s, which no case checks", m.Name, m.Breaks))
		case m.Case != "" && !checks[[2]string{m.Case, m.Breaks}]:
			errs = append(errs, fmt.Errorf("mutant %s: case %q does not check %s", m.Name, m.Case, m.Breaks))
		case slices.ContainsFunc(s.list, func(o Mutant) bool { return o.Name == m.Name }):
			errs = append(errs, fmt.Errorf("duplicate mutant %s", m.Name))
		default:
			s.list = append(s.list, m)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// All returns the mutants in order.
func (s *Set) All() []Mutant { return slices.Clone(s.list) }

// Get returns the mutant with the name, which may be a compound mutant.
func (s *Set) Get(name string) (Mutant, error) {
	if m, ok := compoundOf(name); ok {
		return m, nil
	}
	var names []string
	for _, m := range s.list {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mutant{}, fmt.Errorf("no mutant %q; nearest: %v", name, validate.Nearest(name, names))
}

// Driver returns d with the fault.
func (m Mutant) Driver(d validate.Driver) validate.Driver {
	open := d.Open
	d.Description = "mutant " + m.Name + ": " + m.Does
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		t, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		if m.Wrap != nil {
			for i, h := range t.HCAs {
				t.HCAs[i] = m.Wrap(h)
			}
		}
		if m.Target != nil {
			m.Target(t)
		}
		return t, nil
	}
	return d
}
