// Package mutant tests the certifier: drivers that are wrong on purpose, one fault each, over a driver that is right. A
// mutant that no case catches is a bug of the certifier.
//
// A mutant is a value: a wrapper (package ci/ciwrap) and the requirement it breaks. Self runs the cases of that
// requirement over it; the mutant counts as caught only if a case that passes on the right driver fails, with a finding
// charged to the broken requirement and made outside the set-up. Other cases may fail as well or not.
//
//	{Name: "cq.zero-size", Area: "cq", Breaks: "CI-CreateCQ-02", Does: "CreateCQ takes a size of 0",
//		Wrap: func(h ci.HCA) ci.HCA { return ciwrap.Wrap(h, ciwrap.Layer{ … }) }}
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

// Mutant is a driver with one fault.
type Mutant struct {
	Name   string // area.fault, lower case and dashes
	Area   string // of the interface
	Breaks string // requirement id
	Does   string // what is wrong, in a sentence
	// Needs are claims without which the fault cannot show. The right driver must have them.
	Needs ci.Caps
	// Hollow are capabilities that the mutant claims with nothing behind them, whether the right driver has them or
	// not. Only the cases that prove one of them are run. The mutant is caught by one of them, or by a verdict that
	// calls a claim not tested.
	Hollow ci.Caps
	// Link is where the fault can show, if not anywhere; it does not count for a driver that has no link of this name.
	Link string
	// Values are settings of the driver with which the fault can show, if not with the run's; those that the driver
	// does not have do not count.
	Values map[string]string
	// Wrap puts the fault in front of an HCA. It is called once for each target and HCA, and shares nothing between
	// them.
	Wrap func(ci.HCA) ci.HCA
	// Target changes a whole target, for faults that are not in one HCA; may be nil. It runs after Wrap.
	Target func(*validate.Target)
}

// Set is mutants by name.
type Set struct{ list []Mutant }

var nameForm = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`)

// NewSet joins lists of mutants; it reports everything that is wrong with them: names, requirements the catalog does
// not know, requirements that no case checks, doubles.
func NewSet(c *validate.Catalog, lists ...[]Mutant) (*Set, error) {
	covered := map[string]bool{}
	for _, v := range c.Coverage() {
		covered[v.ID] = v.Covered()
	}
	s := &Set{}
	var errs []error
	for _, m := range slices.Concat(lists...) {
		known, ok := covered[m.Breaks]
		switch {
		case !nameForm.MatchString(m.Name):
			errs = append(errs, fmt.Errorf("mutant %q: a name is dotted lower case, such as cq.zero-size", m.Name))
		case m.Wrap == nil && m.Target == nil:
			errs = append(errs, fmt.Errorf("mutant %s changes nothing: Wrap and Target are nil", m.Name))
		case m.Does == "" || m.Area == "":
			errs = append(errs, fmt.Errorf("mutant %s: Area or Does is empty", m.Name))
		case !ok:
			errs = append(errs, fmt.Errorf("mutant %s breaks %q, which no suite declares", m.Name, m.Breaks))
		case !known:
			errs = append(errs, fmt.Errorf("mutant %s breaks %s, which no case checks", m.Name, m.Breaks))
		case slices.ContainsFunc(s.list, func(o Mutant) bool { return o.Name == m.Name }):
			errs = append(errs, fmt.Errorf("mutant %s is there twice", m.Name))
		default:
			s.list = append(s.list, m)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// All gives the mutants in order.
func (s *Set) All() []Mutant { return slices.Clone(s.list) }

// Get finds one.
func (s *Set) Get(name string) (Mutant, error) {
	var names []string
	for _, m := range s.list {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mutant{}, fmt.Errorf("no mutant %q; nearest: %v", name, validate.Nearest(name, names))
}

// Driver is d with the fault.
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
