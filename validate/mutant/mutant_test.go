package mutant_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/kit"
	"ciddk/validate/mutant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// catalog has a case that opens an unknown GUID, a case of another rule that needs an open CA, one that fails on any
// driver, and one that touches on a second requirement.
func catalog() *validate.Catalog {
	one := func(id string, reqs []string, run func(*validate.T)) validate.Case {
		return validate.Case{ID: id, Title: id, Requirements: reqs, Checks: reqs[1:], Feature: validate.FeatureCore,
			Run: run}
	}
	return validate.MustCatalog(validate.Suite{Cases: []validate.Case{
		one("a.guid", []string{"SAS-2.1-27"}, func(t *validate.T) {
			ca, err := t.HCA().OpenCA(t.HCA().Info().GUID+1, func(ci.Event) {}, nil)
			if err == nil {
				t.Cleanup(func() { _ = ca.Destroy() })
			}
			kit.Want(t, err, "OpenCA", ci.NotFound)
		}),
		one("a.open", []string{"SAS-2.1-26"}, func(t *validate.T) { kit.Open(t) }),
		one("a.always", []string{"SAS-2.1-22"}, func(t *validate.T) { t.Failf("x", "y", "z") }),
		one("a.touch", []string{"SAS-2.1-07", "SAS-2.1-06"}, func(t *validate.T) {
			if ca := kit.Open(t); ca.Attr.MaxPDs == 0 {
				t.Charge("SAS-2.1-06", func() { t.Failf("CAAttr.MaxPDs", "PDs", "none") })
			}
		}),
		{ID: "a.srq", Title: "a.srq", Requirements: []string{"SAS-2.1-30"}, Feature: validate.FeatureCore,
			Needs: validate.Needs{Caps: ci.CapSRQ}, Run: func(t *validate.T) { kit.Open(t) }},
	}})
}

func driver() validate.Driver {
	return validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		return &validate.Target{HCAs: []ci.HCA{fakehca.New(9, ci.LinkEthernet, fakehca.Faults{})}}, nil
	}}
}

type noPDs struct{ ciwrap.CA }

func (n noPDs) Query() (*ci.CAAttr, error) {
	a, err := n.CA.Query()
	a.MaxPDs = 0
	return a, err
}

type shut struct{ ciwrap.HCA }

func (shut) OpenCA(ci.GUID, func(ci.Event), any) (ci.CA, error) { return nil, ci.NotFound }

func right(h ci.HCA) ci.HCA { return h }

func closed(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return shut{ciwrap.HCA{HCA: h}} }})
}

func self(t *testing.T, all bool, ms ...mutant.Mutant) *mutant.Result {
	t.Helper()
	c := catalog()
	set, err := mutant.NewSet(c, ms)
	require.NoError(t, err)
	r, err := mutant.Self(t.Context(), mutant.Plan{
		Catalog: c, Driver: driver(), Set: set, All: all,
		Setting: validate.Setting{Profile: "minimal", Scale: 0.1, Options: validate.Options{Seed: 1}},
	})
	require.NoError(t, err)
	return r
}

// TestCases compares cases: a mutant is caught by each that charges its requirement, and the first of the others that
// fail is named with what it found.
func TestCases(t *testing.T) {
	c := catalog()
	set, err := mutant.NewSet(c, mutant.Basic()[:1])
	require.NoError(t, err)
	for name, x := range map[string]struct {
		cases, catchers []string
		ran             int
	}{
		"one that catches":      {[]string{"a.guid"}, []string{"a.guid"}, 1},
		"one that does not":     {[]string{"a.open"}, nil, 1},
		"a glob, without a.srq": {[]string{"a.[got]*"}, []string{"a.guid"}, 3},
	} {
		r, err := mutant.Self(t.Context(), mutant.Plan{
			Catalog: c, Driver: driver(), Set: set, Cases: x.cases,
			Setting: validate.Setting{Profile: "minimal", Scale: 0.1, Options: validate.Options{Seed: 1}},
		})
		require.NoError(t, err, name)
		assert.Equal(t, x.catchers, r.Outcomes[0].Catchers, name)
		assert.Equal(t, x.ran, r.Outcomes[0].Ran, name)
	}
}

func TestCaught(t *testing.T) {
	any := mutant.Basic()[0]
	require.Equal(t, "open.any-guid", any.Name)
	r := self(t, false, any)
	require.Len(t, r.Outcomes, 1)
	assert.True(t, r.Outcomes[0].Caught)
	assert.Equal(t, "a.guid", r.Outcomes[0].By)
	assert.Equal(t, "SELF TEST PASSED: all 1 mutants caught", r.Line())
}

// TestOwnCase checks that a mutant with a case of its own counts as caught only if that case finds it.
func TestOwnCase(t *testing.T) {
	run := func(*validate.T) {}
	finds := *catalog().Cases()[0]
	finds.ID = "a.finds"
	c := validate.MustCatalog(validate.Suite{Cases: []validate.Case{
		validate.NewCase("a.blind", "blind", validate.FeatureCore, run, "SAS-2.1-27"), finds}})
	m := mutant.Basic()[0]
	require.Equal(t, "SAS-2.1-27", m.Breaks)
	for _, all := range []bool{false, true} {
		for own, isCaught := range map[string]bool{"": true, "a.finds": true, "a.blind": false} {
			m.Case = own
			set, err := mutant.NewSet(c, []mutant.Mutant{m})
			require.NoError(t, err)
			r, err := mutant.Self(t.Context(), mutant.Plan{Catalog: c, Driver: driver(), Set: set, All: all,
				Setting: validate.Setting{Profile: "minimal", Options: validate.Options{Seed: 1}}})
			require.NoError(t, err)
			assert.Equal(t, isCaught, r.Outcomes[0].Caught, "%q, all %v", own, all)
			if isCaught {
				assert.Equal(t, "a.finds", r.Outcomes[0].By)
			}
		}
	}
}

// TestCaughtByRule checks that a case that only touches on the requirement catches the mutant if it charges that
// requirement.
func TestCaughtByRule(t *testing.T) {
	r := self(t, true, mutant.Mutant{
		Name: "a.no-pds", Breaks: "SAS-2.1-06", Does: "x",
		Wrap: func(h ci.HCA) ci.HCA {
			return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return noPDs{ciwrap.CA{CA: c}} }})
		},
	})
	assert.True(t, r.Outcomes[0].Caught, "%+v", r.Outcomes[0])
	assert.Equal(t, "a.touch", r.Outcomes[0].By)
}

func TestEscapes(t *testing.T) {
	for name, x := range map[string]struct {
		m   mutant.Mutant
		why string
	}{
		"no fault": {mutant.Mutant{Breaks: "SAS-2.1-27", Wrap: right}, "1 cases of SAS-2.1-27 passed"},
		// The case also fails on the correct driver, so its failure is no evidence.
		"broken case": {
			mutant.Mutant{Breaks: "SAS-2.1-22", Wrap: right},
			"no case of SAS-2.1-22 passes on the driver without the fault",
		},
		// The set-up of the case fails, so the rule is not tested.
		"set-up fails": {
			mutant.Mutant{Breaks: "SAS-2.1-26", Wrap: closed},
			"cases failed, but none blamed SAS-2.1-26: a.open",
		},
	} {
		x.m.Name, x.m.Does = "a.b", "x"
		r := self(t, false, x.m)
		require.Len(t, r.Escaped(), 1, name)
		assert.Equal(t, x.why, r.Outcomes[0].Why, name)
		assert.Equal(t, "SELF TEST FAILED: 1 of 1 mutants escaped: a.b", r.Line())
	}
}

// TestNotApplicable runs mutants whose fault the driver cannot have, or whose cases need what it lacks. They count as
// escaped only if the plan demands all of them.
func TestNotApplicable(t *testing.T) {
	unclaimed := mutant.Mutant{Name: "a.claim", Does: "x", Breaks: "SAS-2.1-27", Wrap: right,
		Needs: ci.CapSRQ}
	caseless := mutant.Mutant{Name: "a.case", Does: "x", Breaks: "SAS-2.1-30", Wrap: right}
	s, err := mutant.NewSet(catalog(), []mutant.Mutant{unclaimed, caseless, mutant.Basic()[0]})
	require.NoError(t, err)
	p := mutant.Plan{Catalog: catalog(), Driver: driver(), Set: s, Setting: validate.Setting{Profile: "minimal"}}
	r, err := mutant.Self(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, r.Skipped(), 2)
	assert.Equal(t, "the driver does not claim SRQ", r.Skipped()[0].Why)
	assert.Equal(t, "the cases of SAS-2.1-30 are not run, such as a.srq: not claimed: SRQ",
		r.Skipped()[1].Why)
	assert.Empty(t, r.Escaped())
	assert.Equal(t, "SELF TEST PASSED: all 1 mutants caught; not applicable to this driver: 2", r.Line())

	p.Names = []string{"a.claim"}
	r, err = mutant.Self(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, "NOTHING TESTED; not applicable to this driver: 1", r.Line())

	p.Names, p.Whole = []string{"a.claim", "a.case"}, true
	r, err = mutant.Self(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, "SELF TEST FAILED: 2 of 2 mutants escaped: a.claim, a.case", r.Line())
}

func TestSetRejects(t *testing.T) {
	ok := mutant.Mutant{Name: "a.b", Breaks: "SAS-2.1-27", Does: "x", Wrap: right}
	with := func(f func(*mutant.Mutant)) mutant.Mutant { m := ok; f(&m); return m }
	for want, list := range map[string][]mutant.Mutant{
		"duplicate mutant":     {ok, ok},
		"dotted lower case":    {with(func(m *mutant.Mutant) { m.Name = "A" })},
		"changes nothing":      {with(func(m *mutant.Mutant) { m.Wrap = nil })},
		"Does is empty":        {with(func(m *mutant.Mutant) { m.Does = "" })},
		"which no suite":       {with(func(m *mutant.Mutant) { m.Breaks = "SAS-9-01" })},
		"which no case checks": {with(func(m *mutant.Mutant) { m.Breaks = "SAS-2.4-01" })},
		"does not check SAS-2": {with(func(m *mutant.Mutant) { m.Case = "a.open" })},
	} {
		_, err := mutant.NewSet(catalog(), list)
		assert.ErrorContains(t, err, want)
	}
	set, err := mutant.NewSet(catalog(), []mutant.Mutant{ok})
	require.NoError(t, err)
	_, err = set.Get("a.c")
	assert.ErrorContains(t, err, "nearest: [a.b]")
	_, err = mutant.Self(t.Context(),
		mutant.Plan{Catalog: catalog(), Driver: driver(), Set: set, Names: []string{"z*"}})
	assert.True(t, validate.IsNothing(err))
}

// basic returns a set with the first of the basic mutants.
func basic(t *testing.T) *mutant.Set {
	t.Helper()
	s, err := mutant.NewSet(catalog(), mutant.Basic()[:1])
	require.NoError(t, err)
	return s
}

// TestExclusive checks that an exclusive driver is tested with one mutant at a time, and that more workers are an error
// before a target is opened.
func TestExclusive(t *testing.T) {
	d := driver()
	d.Exclusive = true
	opens := 0
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) { opens++; return open(ctx, o) }
	p := mutant.Plan{
		Catalog: catalog(),
		Driver:  d,
		Set:     basic(t),
		Workers: 2,
		Setting: validate.Setting{Profile: "minimal"},
	}
	_, err := mutant.Self(t.Context(), p)
	assert.ErrorContains(t, err, "driver fake is exclusive")
	assert.Zero(t, opens)
	p.Workers = 0
	_, err = mutant.Self(t.Context(), p)
	require.NoError(t, err)
	assert.Positive(t, opens)
}

// TestUnopened checks that a driver that can no longer be opened ends the self test with its error, and that no mutant
// counts as escaped.
func TestUnopened(t *testing.T) {
	d := driver()
	opens := 0
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		if opens++; opens > 1 {
			return nil, errors.New("card is busy")
		}
		return open(ctx, o)
	}
	_, err := mutant.Self(t.Context(), mutant.Plan{
		Catalog: catalog(),
		Driver:  d,
		Set:     basic(t),
		Setting: validate.Setting{Profile: "minimal"},
		All:     true,
	})
	var de *validate.DriverError
	require.ErrorAs(t, err, &de)
	assert.Contains(t, de.Text, "card is busy")
}

// TestPlace checks that a mutant and its baseline run on the mutant's link and with its settings, if the driver has
// them.
func TestPlace(t *testing.T) {
	var mu sync.Mutex
	opened := map[string]int{}
	d := driver()
	open := d.Open
	d.Links, d.Settings = []string{"one", "two"}, map[string]string{"ip": "version"}
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		mu.Lock()
		defer mu.Unlock()
		opened[o.Link+fmt.Sprint(o.Values)]++
		return open(ctx, o)
	}
	c := catalog()
	m := mutant.Basic()[0]
	m.Link, m.Values = "two", map[string]string{"ip": "6", "other": "x"}
	set, err := mutant.NewSet(c, []mutant.Mutant{m})
	require.NoError(t, err)
	r, err := mutant.Self(t.Context(),
		mutant.Plan{Catalog: c, Driver: d, Set: set, Setting: validate.Setting{Profile: "minimal", Scale: 0.1,
			Options: validate.Options{Seed: 1, Link: "one", Values: map[string]string{"ip": "4"}}}})
	require.NoError(t, err)
	require.Empty(t, r.Escaped())
	require.Len(t, opened, 1)
	require.GreaterOrEqual(t, opened["twomap[ip:6]"], 2, "%v", opened)
}
