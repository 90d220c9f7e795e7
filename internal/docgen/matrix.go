package main

import (
	"fmt"
	"strings"

	"ciddk/internal/verbsmatrix"
)

// situationTitles are the titles of the columns of the matrix.
var situationTitles = map[string]string{"one": "one daemon", "one,load": "one, under load", "two": "two daemons",
	"two,load": "two, under load", "two,loss": "two, 1% impaired",
	"linux": "Soft-RoCE", "linux,loss": "Soft-RoCE, 1% impaired"}

// matrixTable returns the table of the programs that test/verbs runs in several situations.
func matrixTable(root string) (string, error) {
	m, err := verbsmatrix.Read(root)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| program |")
	for _, s := range verbsmatrix.Situations {
		title := situationTitles[s.String()]
		if title == "" {
			return "", fmt.Errorf("the situation %s has no title", s)
		}
		fmt.Fprintf(&out, " %s |", title)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(verbsmatrix.Situations)) + "\n")
	for _, p := range m.Programs {
		fmt.Fprintf(&out, "| `%s` |", programOf(p))
		for _, s := range verbsmatrix.Situations {
			cell := p.Left(s)
			if cell == "" {
				cell = "yes"
			}
			fmt.Fprintf(&out, " %s |", cell)
		}
		out.WriteString("\n")
	}
	out.WriteString("\n")
	for _, name := range m.Names {
		fmt.Fprintf(&out, "* %s: %s.\n", name, m.Reasons[name])
	}
	return out.String(), nil
}

// programOf returns what a row of the matrix shows: the client's command line, or the one of both sides.
func programOf(p *verbsmatrix.Program) string {
	if p.Client == "" {
		return p.Server
	}
	return strings.TrimSpace(strings.ReplaceAll(p.Client, "{a}", "HOST"))
}
