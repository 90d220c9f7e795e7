package explore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// judgeTime is the time of an exploration of a case that has seen enough traces, unless the case sets another.
const judgeTime = 5 * time.Second

// Judge explores adapters in a case, with the seed of the run. A finding fails the case and is charged to the broken
// rule if it is one of rules, for which the case has a check. If the time is not enough for c.Least traces, the case is
// inconclusive.
func Judge(t *validate.T, c Config, hcas []ci.HCA, rules ...string) {
	ctx, stop := context.WithTimeout(t.Context(), t.Remaining())
	defer stop()
	c.Time, c.Seed = cmp.Or(c.Time, judgeTime), t.Seed()
	c.Limit, c.ShrinkTime = time.Second, 2*time.Second
	c.Open = func(context.Context) (*validate.Target, error) {
		return &validate.Target{HCAs: hcas, Impair: t.Impairing()}, nil
	}
	n, f, err := Explore(ctx, c)
	if err != nil {
		t.Harness("%v", err)
	}
	t.Logf("%d traces", n)
	switch {
	case f == nil && n < c.Least:
		t.Inconclusive("the time was enough for %d traces of %d", n, c.Least)
	case f == nil:
		return
	}
	for line := range strings.Lines(f.Story()) {
		t.Logf("%s", strings.TrimRight(line, "\n"))
	}
	v := f.Violation
	x := validate.Failure{Where: v.Where + " (rule " + string(v.Rule) + ")", Expected: v.Expected, Got: v.Got}
	if slices.Contains(rules, string(v.Rule)) {
		x.Rule = string(v.Rule)
	}
	if v.Doubt {
		x.Doubt = validate.DoubtTime
	}
	t.Fail(x)
}
