package validate

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
	"ciddk/validate/req"
)

func okCase() Case {
	return Case{ID: "a.b", Title: "t", Requirements: []string{"SAS-0-01"}, Feature: FeatureCore, Run: func(*T) {}}
}

func TestCatalogRejects(t *testing.T) {
	rq := req.Requirement{ID: "CI-X-01", Text: "x", Level: req.Must, Section: "SAS 0", Scope: req.Driver}
	with := func(change func(*Case)) Suite {
		c := okCase()
		change(&c)
		return Suite{Cases: []Case{c}}
	}
	for want, s := range map[string]Suite{
		"duplicate case a.b":        {Cases: []Case{okCase(), okCase()}},
		"proves no requirement":     {Cases: []Case{{ID: "a.b", Title: "t", Feature: FeatureCore, Run: func(*T) {}}}},
		"dotted lower case":         with(func(c *Case) { c.ID = "A" }),
		"no title":                  with(func(c *Case) { c.Title = "" }),
		"Run is nil":                with(func(c *Case) { c.Run = nil }),
		"unknown feature":           with(func(c *Case) { c.Feature = "x" }),
		"did you mean SAS-0-01":     with(func(c *Case) { c.Requirements = []string{"SAS-0-1"} }),
		"names requirement":         with(func(c *Case) { c.Requirements = []string{"SAS-0-01", "SAS-0-01"} }),
		"CI-X-01 is declared twice": {Requirements: []req.Requirement{rq, rq}},
	} {
		_, err := NewCatalog(s)
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
		}
	}
	assert.Panics(t, func() { MustCatalog(Suite{Cases: []Case{{}}}) })
}

func TestCoverage(t *testing.T) {
	one := okCase()
	one.Requirements = []string{"SAS-0-01", "SAS-2.4-01"}
	c := MustCatalog(Suite{Cases: []Case{one}})
	by := map[string]Coverage{}
	for _, v := range c.Coverage() {
		by[v.ID] = v
		assert.Equal(t, v.Covered(), v.Why == "", v.ID)
	}
	assert.Len(t, by, 92)
	assert.Equal(t, []string{"a.b"}, by["SAS-0-01"].Proven)
	assert.Equal(t, []string{"a.b"}, by["SAS-2.4-01"].Touched, "a covered requirement has no reason left")
	assert.Equal(t, "no case yet; needs user mode", by["SAS-2.4-02"].Why)
	assert.Equal(t, "no case yet", by["SAS-2.1-27"].Why)
}

// TestCapNames compares the names with the constants. They are written out, because reports must not change when a
// constant is renamed.
func TestCapNames(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../ci/attr.go", nil, 0)
	require.NoError(t, err)
	var names []string
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Cap") {
			names = append(names, strings.TrimPrefix(v.Names[0].Name, "Cap"))
		}
		return true
	})
	assert.Equal(t, names, capNames[:])
	assert.Equal(t, "UC, QKeyCounter, bit 60", CapNames(ci.CapUC|ci.CapQKeyCounter|1<<60))
}

func TestProfiles(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Profiles() {
		assert.False(t, seen[p.Name])
		seen[p.Name] = true
		for _, f := range p.Features {
			assert.Contains(t, features, f, p.Name)
		}
		for _, f := range minimal {
			if p.Name == "wire" || p.Name == "user" { // these do not include the others: they test one area only
				break
			}
			assert.True(t, p.Has(f), "%s lacks %s", p.Name, f)
		}
	}
	full, _ := FindProfile("full")
	assert.Equal(t, Features(), full.Features)
	_, ok := FindProfile("nosuch")
	assert.False(t, ok)
}

func TestNeeds(t *testing.T) {
	id := &Identity{HCAs: 1, attr: &ci.CAAttr{Caps: ci.CapUD | ci.CapAV, Ports: []ci.PortAttr{{Link: ci.LinkEthernet}}}}
	links := []ci.Link{ci.LinkInfiniBand, ci.LinkEthernet}
	noServices := "not claimed: SpecialQP, and the target has no services in place of them"
	noWire := "needs an end of the link for the certifier, and the target has none (Target.Wire)"
	for want, n := range map[string]Needs{
		"":                                       {Caps: ci.CapUD, Links: links},
		"not claimed: SRQ":                       {Caps: ci.CapSRQ | ci.CapUD},
		"none claimed of: MW1, MW2":              {AnyCaps: ci.CapMW1 | ci.CapMW2},
		"claimed: UD":                            {Lacks: ci.CapUD},
		"2 ports":                                {Ports: 2, Attr: func(*ci.CAAttr) string { return "2 ports" }},
		"1 adapters, 2 needed":                   {HCAs: 2},
		"the target cannot impair its link":      {Impair: true},
		"the target does not count its objects":  {Live: true},
		noWire:                                   {Wire: true},
		noServices:                               {Services: true},
		"needs another link layer than Ethernet": {Links: []ci.Link{ci.LinkInfiniBand}},
		"atomicity 0 claimed, 1 needed":          {Atomics: ci.AtomicLocal},
		"too small":                              {Attr: func(*ci.CAAttr) string { return "too small" }},
	} {
		got := n.unmet(id)
		if n.Ports == 2 {
			want = "1 ports, 2 needed"
		}
		assert.Equal(t, want, got)
	}
}

func TestNearest(t *testing.T) {
	ids := []string{"cq.poll.empty", "cq.poll.batch", "rc.send.sizes", "SAS-2.1-27"}
	assert.Equal(t, "cq.poll.empty", Nearest("cq.pol.empty", ids)[0])
	assert.Equal(t, []string{"cq.poll.empty", "cq.poll.batch"}, Nearest("cq.poll.*", ids))
	assert.Equal(t, "SAS-2.1-27", Nearest("sas-2.1-28", ids)[0])
	assert.Empty(t, Nearest("zzzzzzzzzzzzzzzzz", ids))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if distance(a, a) != 0 || distance(a, b) != distance(b, a) || distance(a, b) > max(len(a), len(b)) {
			t.Fatalf("distance(%q, %q) = %d", a, b, distance(a, b))
		}
	})
}

func TestDrivers(t *testing.T) {
	d := Driver{Name: "a", Open: func(context.Context, Options) (*Target, error) { return nil, nil }}
	b := d
	b.Name = "b"
	ds, err := NewDrivers(d, b)
	require.NoError(t, err)
	first, err := ds.Get("")
	require.NoError(t, err)
	assert.Equal(t, "a", first.Name)
	_, err = ds.Get("c")
	assert.EqualError(t, err, `no driver "c"; did you mean a, b?`)
	_, err = NewDrivers(d, d)
	assert.EqualError(t, err, "duplicate driver a")
	for _, bad := range []Driver{{Name: "A b", Open: d.Open}, {Name: "a"}} {
		_, err := NewDrivers(bad)
		assert.Error(t, err, fmt.Sprint(bad.Name))
	}
	none, err := NewDrivers()
	require.NoError(t, err)
	_, err = none.Get("")
	assert.Error(t, err)
	_, err = d.open(t.Context(), Options{})
	assert.EqualError(t, err, "driver a: Open returned no HCA")
	_, err = d.LinkOr("udp")
	assert.Error(t, err)
}
