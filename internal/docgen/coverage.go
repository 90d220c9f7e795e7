package main

import (
	"fmt"
	"strings"

	"ciddk/validate"
	suiteci "ciddk/validate/suite/ci"
)

// coveragePage lists every requirement with the cases that judge it. One without is shown as uncovered, with the reason if there is one.
func coveragePage() (string, error) {
	catalog, err := validate.NewCatalog(suiteci.Suite())
	if err != nil {
		return "", err
	}
	cases := map[string][]string{}
	for _, c := range catalog.Cases() {
		for _, id := range c.Requirements {
			cases[id] = append(cases[id], "`"+c.ID+"`")
		}
	}
	var body strings.Builder
	section, covered, uncovered := "", 0, 0
	for _, r := range catalog.Requirements() {
		if g := r.Group(); g != section {
			section = g
			fmt.Fprintf(&body, "\n## %s\n\n| requirement | level | | cases |\n|---|---|---|---|\n", g)
		}
		list := strings.Join(cases[r.ID], " ")
		if list == "" {
			uncovered++
			list = "**uncovered**"
			if r.Uncovered != "" {
				list += ": " + cell(strings.TrimSuffix(r.Uncovered, "."))
			}
		} else {
			covered++
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s |\n", r.ID, r.Level, cell(r.Text), list)
	}
	return fmt.Sprintf("# Coverage\n\n%sEvery requirement, and the cases of `ddk-validate` that judge it: %d covered, %d uncovered, %d cases.\n%s",
		strings.Replace(generatedNote, "package ci", "the suites under validate", 1), covered, uncovered, len(catalog.Cases()), body.String()), nil
}
