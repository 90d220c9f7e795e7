package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ciddk/internal/nameorder"
	"ciddk/validate"
	"ciddk/validate/suite"
)

// coveragePage lists every requirement with the cases that judge it, and those that touch on it. One without is shown
// as uncovered, with the reason.
func coveragePage() (string, error) {
	catalog, err := validate.NewCatalog(suite.All()...)
	if err != nil {
		return "", err
	}
	var body strings.Builder
	section, covered, uncovered := "", 0, 0
	all := catalog.Coverage()
	slices.SortStableFunc(all, func(a, b validate.Coverage) int {
		return cmp.Or(slices.Index(books, book(a))-slices.Index(books, book(b)), nameorder.Compare(a.Group(), b.Group()))
	})
	for _, c := range all {
		if g := c.Group(); g != section {
			section = g
			fmt.Fprintf(&body, "\n## %s\n\n| requirement | level | | judged by | touched by |\n|---|---|---|---|---|\n", g)
		}
		judged := code(c.Proven)
		if c.Covered() {
			covered++
		} else {
			uncovered++
			judged = "**uncovered**: " + cell(strings.TrimSuffix(c.Why, "."))
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s | %s |\n", c.ID, c.Level, cell(c.Text), judged, code(c.Touched))
	}
	return fmt.Sprintf("# Coverage\n\n%sEvery requirement, and the cases of `ddk-validate` for it: %d covered, %d "+
		"uncovered, %d cases.\n%s",
		strings.Replace(generatedNote, "package ci", "the suites under validate",
			1), covered, uncovered, len(catalog.Cases()), body.String()), nil
}

// books are what sections are of, in the order of the page.
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
