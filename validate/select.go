package validate

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"ciddk/validate/req"
)

// A Selection chooses cases. Each list that is not empty narrows the choice. Within a list, one match is enough.
// Patterns are globs: * matches any text, ? one character, [ab] one of those.
type Selection struct {
	Cases        []string    // case ids
	Requirements []string    // ids of requirements that a case proves or touches
	Sections     []string    // sections of the proven requirement, or their beginning: "SAS 2.1", "IBTA 11"
	Features     []Feature   //
	Levels       []req.Level // levels of the proven requirement
	Exclude      []string    // case ids not to run
	Shard, Of    int         // part Shard of Of, from 1; 0 of 0 means all
}

// NothingSelected is the error for a selection without a case (exit status 4).
type NothingSelected struct {
	What    string // the pattern or combination that matches nothing
	Nearest []string
	Known   string // the valid choices, if they are few, or where cases that left the catalog went
}

func (n *NothingSelected) Error() string {
	s := "no case matches " + n.What
	if len(n.Nearest) > 0 {
		s += "; did you mean " + strings.Join(n.Nearest, ", ") + "?"
	}
	if n.Known != "" {
		s += "; " + n.Known
	}
	return s
}

// noFeature returns the error for a feature without a case.
func noFeature(p string) *NothingSelected {
	e := &NothingSelected{
		What: fmt.Sprintf("feature %q", p), Known: "the features are " + strings.Join(words(features), ", "),
	}
	if slices.Contains(features, Feature(p)) {
		e.Known = "this program has no case of it"
	}
	return e
}

// Select returns the chosen cases in the catalog's order. A pattern that matches nothing is an error, even if others
// match, because it is most likely a typing mistake.
func (c *Catalog) Select(s Selection) ([]*Case, error) {
	if err := s.checkShard(); err != nil {
		return nil, err
	}
	out := c.Cases()
	var ids []string
	for _, cs := range c.cases {
		ids = append(ids, cs.ID)
	}
	steps := []struct {
		patterns   []string
		candidates []string
		keep       func(*Case, string) bool
		drop, ids  bool                          // matching cases are left out; the patterns are of ids of cases
		none       func(string) *NothingSelected // the error for no match; nil: an error with the nearest candidates
	}{
		{patterns: s.Cases, candidates: ids, ids: true, keep: func(cs *Case, p string) bool { return glob(p, cs.ID) }},
		{patterns: s.Requirements, candidates: c.requirementIDs(), keep: func(cs *Case, p string) bool {
			return slices.ContainsFunc(cs.Requirements, func(id string) bool { return glob(p, id) })
		}},
		{patterns: s.Sections, candidates: c.sections(), keep: func(cs *Case, p string) bool {
			r, _ := c.book.Get(cs.Proven())
			return r.Section == p || strings.HasPrefix(r.Section, p+".") ||
				strings.HasPrefix(r.Section, p+" ") || glob(p, r.Section)
		}},
		{patterns: words(s.Features), candidates: words(features), none: noFeature,
			keep: func(cs *Case, p string) bool { return glob(p, string(cs.Feature)) }},
		{patterns: levels(s.Levels), candidates: levels([]req.Level{req.Must, req.Should, req.May, req.Info}),
			keep: func(cs *Case, p string) bool {
				r, _ := c.book.Get(cs.Proven())
				return r.Level.String() == p
			}},
		{patterns: s.Exclude, candidates: ids, drop: true,
			keep: func(cs *Case, p string) bool { return glob(p, cs.ID) }},
	}
	for _, st := range steps {
		for _, p := range st.patterns {
			if _, err := path.Match(p, ""); err != nil {
				return nil, fmt.Errorf("pattern %q: %w", p, err)
			}
			if !slices.ContainsFunc(c.cases, func(cs *Case) bool { return st.keep(cs, p) }) {
				moved := c.describeMoved(p)
				switch {
				case st.none != nil:
					return nil, st.none(p)
				case st.drop && moved != "":
					continue // it is not run
				case st.ids && moved != "":
					return nil, &NothingSelected{What: fmt.Sprintf("%q", p), Known: moved}
				}
				return nil, &NothingSelected{What: fmt.Sprintf("%q", p), Nearest: Nearest(p, st.candidates)}
			}
		}
		if len(st.patterns) == 0 {
			continue
		}
		out = slices.DeleteFunc(out, func(cs *Case) bool {
			return st.drop == slices.ContainsFunc(st.patterns, func(p string) bool { return st.keep(cs, p) })
		})
	}
	if s.Of > 1 {
		n := 0
		out = slices.DeleteFunc(out, func(*Case) bool { n++; return (n-1)%s.Of != s.Shard-1 })
	}
	if len(out) == 0 {
		return nil, &NothingSelected{What: "all conditions together"}
	}
	return out, nil
}

func (s Selection) checkShard() error {
	if s.Of == 0 && s.Shard == 0 {
		return nil
	}
	if s.Of < 1 || s.Shard < 1 || s.Shard > s.Of {
		return fmt.Errorf("shard %d/%d: use I/N with I from 1 to N", s.Shard, s.Of)
	}
	return nil
}

func (c *Catalog) sections() []string {
	var out []string
	for _, r := range c.book.All() {
		if !slices.Contains(out, r.Section) {
			out = append(out, r.Section)
		}
	}
	return out
}

func words(fs []Feature) []string {
	var out []string
	for _, f := range fs {
		out = append(out, string(f))
	}
	return out
}

func levels(ls []req.Level) []string {
	var out []string
	for _, l := range ls {
		out = append(out, l.String())
	}
	return out
}

func glob(pattern, s string) bool { ok, _ := path.Match(pattern, s); return ok }

// shuffled returns the list in an order that follows from the seed.
func shuffled[E any](list []E, seed uint64) []E {
	out := slices.Clone(list)
	rand.New(rand.NewPCG(seed, 0x73687566)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
