package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ciddk/internal/nameorder"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
)

// coveragePage lists every requirement with its standing, the cases that check it and those that touch it. A
// requirement without a case is listed as uncovered, with the reason.
func coveragePage() (string, error) {
	catalog, err := validate.NewCatalog(suite.All()...)
	if err != nil {
		return "", err
	}
	set, err := mutant.NewSet(catalog, suitemutants.All()...)
	if err != nil {
		return "", err
	}
	var body strings.Builder
	section, count := "", map[mutant.Standing]int{}
	all := set.Tests(catalog)
	slices.SortStableFunc(all, func(a, b mutant.Tests) int {
		return cmp.Or(slices.Index(books, book(a))-slices.Index(books, book(b)),
			nameorder.Compare(a.Group(), b.Group()))
	})
	for _, c := range all {
		if g := c.Group(); g != section {
			section = g
			fmt.Fprintf(&body,
				"\n## %s\n\n| requirement | level | | standing | checked by | touched by |\n"+
					"|---|---|---|---|---|---|\n", g)
		}
		count[c.Standing]++
		standing := string(c.Standing)
		switch c.Standing {
		case mutant.Tested:
			standing = fmt.Sprintf("tested, mutants: %d", len(c.Mutants))
		case mutant.Touched:
			standing = "**touched**, lacks " + c.Lacks()
		case mutant.Uncovered:
			standing = "**uncovered**: " + cell(strings.TrimSuffix(c.Why, "."))
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s | %s | %s |\n", c.ID, c.Level, cell(c.Text), standing, code(c.Proven),
			code(c.Touched))
	}
	counts := strings.NewReplacer("{tested}", strconv.Itoa(count[mutant.Tested]),
		"{touched}", strconv.Itoa(count[mutant.Touched]), "{uncovered}", strconv.Itoa(count[mutant.Uncovered]),
		"{cases}", strconv.Itoa(len(catalog.Cases())), "{mutants}", strconv.Itoa(len(set.All())))
	return counts.Replace(headFrom("coverage", "the suites under validate")) + body.String(), nil
}

// books are the books of the requirements, in the order of the page.
var books = []string{"SAS", "IBTA", "RoCEv2", "CI"}

func book(c mutant.Tests) string {
	b, _, _ := strings.Cut(c.Group(), " ")
	return b
}

func code(l []string) string {
	if len(l) == 0 {
		return ""
	}
	return "`" + strings.Join(l, "` `") + "`"
}
