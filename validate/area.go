package validate

import (
	"cmp"
	"fmt"
	"slices"

	"ciddk/validate/req"
)

// An Area collects the requirements and cases of one subject. Package-level variables declare both, so that a case is
// registered where it is written and names its requirements as Go values:
//
//	var sends = &validate.Area{Feature: validate.FeatureRC}
//
//	var ciPostSend01 = sends.Must("CI-PostSend-01", "IBTA 11.4.1.1", "ci_post_send (55)",
//		"A full queue rejects the next request with InsufficientResources.")
//
//	var _ = sends.Add("rc.send.full", "post to a full send queue", func(t *validate.T) {
//		…
//	}, ciPostSend01, req.SAS2_1_23)
//
// The variable of a requirement has the requirement's id as its name. Dashes are left out, and an underscore stands for
// a dot and between two numbers. A requirement that one case names is declared in the case.
//
// Cases keep the order of their declarations in a file, as long as each requirement is declared above its cases. An
// Area is complete when the variables of its package have been initialized. Before that it is not safe for concurrent
// use.
type Area struct {
	// Scope is the scope of the area's requirements. The default is req.Driver.
	Scope req.Scope
	// Complete sets what all cases of the suite have in common. Case calls it for each case. It may be nil.
	Complete func(*Case)
	// Feature and Needs are those of the cases that Add declares.
	Feature Feature
	Needs   Needs

	of           *Area // of a view (Of, Needing, With): the area that collects; nil: this one
	like         Case  // of a view (With): what Add begins with
	requirements []*req.Requirement
	cases        []Case
}

// Must declares a requirement of level MUST. Text is one sentence. Section and source are those of req.Requirement.
func (a *Area) Must(id, section, source, text string) *req.Requirement {
	return a.Require(a.scope().Must(id, section, source, text))
}

// Should declares a requirement of level SHOULD.
func (a *Area) Should(id, section, source, text string) *req.Requirement {
	return a.Require(a.scope().Should(id, section, source, text))
}

// Require declares a requirement.
func (a *Area) Require(r req.Requirement) *req.Requirement {
	to := a.collector()
	to.requirements = append(to.requirements, &r)
	return &r
}

// collector returns the area that collects what is declared through a.
func (a *Area) collector() *Area { return cmp.Or(a.of, a) }

// Of returns a view of the area in which Add declares cases of another feature.
func (a *Area) Of(f Feature) *Area {
	v := *a
	v.of, v.Feature = a.collector(), f
	return &v
}

// Needing returns a view of the area in which Add declares cases with other needs.
func (a *Area) Needing(n Needs) *Area {
	v := *a
	v.of, v.Needs = a.collector(), n
	return &v
}

// With returns a view of the area in which Add declares cases with what else c says, such as a time limit.
func (a *Area) With(c Case) *Area {
	v := *a
	v.of, v.like = a.collector(), c
	return &v
}

// Add declares a case with the feature and the needs of the area. Requirements are those of Case.
func (a *Area) Add(id, title string, run func(*T), proves *req.Requirement, touches ...*req.Requirement) Case {
	c := a.like
	c.ID, c.Title, c.Run = id, title, run
	c.Feature, c.Needs = a.Feature, a.Needs
	return a.Case(c, proves, touches...)
}

func (a *Area) scope() req.Scope { return cmp.Or(a.Scope, req.Driver) }

// Case declares a case. The case proves one requirement, to which its failures are charged by default. It touches
// others, to which it may charge failures by Failure.Rule. Case sets Requirements of c and returns the result. It
// panics if a requirement is nil or if Requirements is set already. NewCatalog reports all other mistakes.
func (a *Area) Case(c Case, proves *req.Requirement, touches ...*req.Requirement) Case {
	if len(c.Requirements) > 0 {
		panic(fmt.Sprintf("validate: case %s: Requirements is set; pass requirements to Area.Case", c.ID))
	}
	for i, r := range append([]*req.Requirement{proves}, touches...) {
		if r == nil {
			panic(fmt.Sprintf("validate: case %s: requirement %d is nil", c.ID, i+1))
		}
		c.Requirements = append(c.Requirements, r.ID)
	}
	if a.Complete != nil {
		a.Complete(&c)
	}
	to := a.collector()
	to.cases = append(to.cases, c)
	return c
}

// Matrix declares a case for each row, where the cases of an area have one pattern: f returns the case of a row and its
// requirements, the one that it proves first. Matrix returns the cases.
//
//	var _ = validate.Matrix(stale, verbs, func(v verb) (validate.Case, []*req.Requirement) { … })
func Matrix[R any](a *Area, rows []R, f func(R) (Case, []*req.Requirement)) []Case {
	out := make([]Case, 0, len(rows))
	for _, r := range rows {
		c, rules := f(r)
		if len(rules) == 0 {
			panic(fmt.Sprintf("validate: case %s has no requirement", c.ID))
		}
		out = append(out, a.Case(c, rules[0], rules[1:]...))
	}
	return out
}

// Suite returns the area's requirements and cases in the order of their declarations.
func (a *Area) Suite() Suite {
	from := a.collector()
	s := Suite{Cases: slices.Clone(from.cases)}
	for _, r := range from.requirements {
		s.Requirements = append(s.Requirements, *r)
	}
	return s
}

// NewSuite joins areas to a suite, in order.
func NewSuite(name string, areas ...*Area) Suite {
	suites := make([]Suite, 0, len(areas))
	for _, a := range areas {
		suites = append(suites, a.Suite())
	}
	return Merge(name, suites...)
}
