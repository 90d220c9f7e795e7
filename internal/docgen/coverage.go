package main

import (
	"fmt"
	"strings"

	"ciddk/validate"
	suiteal "ciddk/validate/suite/al"
	suiteci "ciddk/validate/suite/ci"
	suitecm "ciddk/validate/suite/cm"
	suitewire "ciddk/validate/suite/wire"
)

// coveragePage lists every requirement with the cases that judge it, and those that touch on it. One without is shown as uncovered,
// with the reason.
func coveragePage() (string, error) {
	catalog, err := validate.NewCatalog(suiteci.Suite(), suiteal.Suite(), suitecm.Suite(), suitewire.Suite())
	if err != nil {
		return "", err
	}
	var body strings.Builder
	section, covered, uncovered := "", 0, 0
	for _, c := range catalog.Coverage() {
		if g := c.Group(); g != section {
			section = g
			fmt.Fprintf(&body, "\n## %s\n\n| requirement | level | | judged by | touched by |\n|---|---|---|---|---|\n", g)
		}
		judged := code(c.Judged)
		if c.Covered() {
			covered++
		} else {
			uncovered++
			judged = "**uncovered**: " + cell(strings.TrimSuffix(c.Why, "."))
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s | %s |\n", c.ID, c.Level, cell(c.Text), judged, code(c.Touched))
	}
	return fmt.Sprintf("# Coverage\n\n%sEvery requirement, and the cases of `ddk-validate` for it: %d covered, %d uncovered, %d cases.\n%s",
		strings.Replace(generatedNote, "package ci", "the suites under validate", 1), covered, uncovered, len(catalog.Cases()), body.String()), nil
}

func code(l []string) string {
	if len(l) == 0 {
		return ""
	}
	return "`" + strings.Join(l, "` `") + "`"
}
