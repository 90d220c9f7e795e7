package main

import (
	"fmt"
	"strings"

	"ciddk/validate/req"
)

// requirementsPage lists the statements of the 2002 specification by section, as package validate/req defines them.
func requirementsPage() (string, error) {
	book, err := req.NewBook(req.SAS())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(headFrom("requirements", "validate/req"))
	section := ""
	n := 0
	for _, r := range book.All() {
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&b, "\n## %s\n\n| id | level | scope | requirement | source |\n|---|---|---|---|---|\n",
				r.Group())
		}
		text := cell(r.Text)
		if r.Uncovered != "" {
			text += " *No case: " + cell(strings.TrimSuffix(r.Uncovered, ".")) + ".*"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.ID, r.Level, r.Scope, text, cell(r.Source))
		n++
	}
	fmt.Fprintf(&b, "\n%d requirements.\n", n)
	return b.String(), nil
}
