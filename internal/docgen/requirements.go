package main

import (
	"fmt"
	"strings"

	"ciddk/validate/req"
)

// requirementsPage lists the statements of the 2002 specification as the certifier holds them, by section.
func requirementsPage() (string, error) {
	book, err := req.NewBook(req.SAS())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Requirements\n\n" + strings.Replace(generatedNote, "package ci", "validate/req", 1) +
		`Every statement of the 2002 specification that can be held against something, numbered by section. **Scope** says who must hold it: the driver
alone, the access layer above it, the process boundary, a subnet, or a reader of documents. Which cases check a requirement, and how the
last run went, is printed by ` + "`ddk-validate list` and `ddk-validate explain ID`" + `. Rules finer than these (` +
		"`CI-…`, `IBTA-…`" + `) stand beside their cases.
`)
	section := ""
	n := 0
	for _, r := range book.All() {
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&b, "\n## %s\n\n| id | level | scope | requirement | source |\n|---|---|---|---|---|\n", r.Group())
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
