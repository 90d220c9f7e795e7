package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ciddk/internal/nameorder"
	"ciddk/validate"
	"ciddk/validate/suite"
)

// coveragePage lists every requirement with the cases that check it and those that touch it. A requirement without a
// case is listed as uncovered, with the reason.
func coveragePage() (string, error) {
	catalog, err := validate.NewCatalog(suite.All()...)
	if err != nil {
		return "", err
	}
	var body strings.Builder
	section, covered, uncovered := "", 0, 0
	all := catalog.Coverage()
	slices.SortStableFunc(all, func(a, b validate.Coverage) int {
		return cmp.Or(slices.Index(books, book(a))-slices.Index(books, book(b)),
			nameorder.Compare(a.Group(), b.Group()))
	})
	for _, c := range all {
		if g := c.Group(); g != section {
			section = g
			fmt.Fprintf(&body,
				"\n## %s\n\n| requirement | level | | checked by | touched by |\n|---|---|---|---|---|\n", g)
		}
		checked := code(c.Proven)
		if c.Covered() {
			covered++
		} else {
			uncovered++
			checked = "**uncovered**: " + cell(strings.TrimSuffix(c.Why, "."))
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s | %s |\n", c.ID, c.Level, cell(c.Text), checked, code(c.Touched))
	}
	counts := strings.NewReplacer("{covered}", strconv.Itoa(covered), "{uncovered}", strconv.Itoa(uncovered),
		"{cases}", strconv.Itoa(len(catalog.Cases())))
	return counts.Replace(headFrom("coverage", "the suites under validate")) + body.String(), nil
}

// books are the books of the requirements, in the order of the page.
var books = []string{"SAS", "IBTA", "RoCEv2", "CI"}

func book(c validate.Coverage) string {
	b, _, _ := strings.Cut(c.Group(), " ")
	return b
}

func code(l []string) string {
	if len(l) == 0 {
		return ""
	}
	return "`" + strings.Join(l, "` `") + "`"
}
