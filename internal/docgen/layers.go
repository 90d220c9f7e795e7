package main

import (
	"fmt"
	"slices"
	"strings"

	"ciddk/internal/layers"
)

// layerTable returns the table of CONTRIBUTING.md.
func layerTable(rows []layers.Row) string {
	var b strings.Builder
	b.WriteString("\n| package | room for | may import | modules |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Folder, r.Purpose, names(r.Own, "anything above"),
			names(r.Modules, "any"))
	}
	b.WriteString("\n")
	return b.String()
}

func names(l []string, all string) string {
	if len(l) == 0 {
		return "–"
	}
	if l[0] == layers.Any {
		return all
	}
	return "`" + strings.Join(l, "`, `") + "`"
}

// depguardRules returns the rules of .golangci.yml: one strict list per row. A row with "*" needs none. The files of
// sub-folders that have rows of their own are excluded by name.
func depguardRules(module string, rows []layers.Row) string {
	var b strings.Builder
	for i, r := range rows {
		if len(r.Own) > 0 && r.Own[0] == layers.Any {
			continue
		}
		fmt.Fprintf(&b, "        %s:\n          list-mode: strict\n          files:\n",
			strings.ReplaceAll(r.Folder, "/", "-"))
		fmt.Fprintf(&b, "            - \"${base-path}/%s/**\"\n            - \"!$test\"\n", r.Folder)
		for j, s := range rows {
			if j != i && strings.HasPrefix(s.Folder, r.Folder+"/") {
				fmt.Fprintf(&b, "            - \"!${base-path}/%s/**\"\n", s.Folder)
			}
		}
		b.WriteString("          allow:\n            - $gostd\n")
		for _, f := range allowed(rows, i) {
			fmt.Fprintf(&b, "            - %s/%s\n", module, f)
		}
		for _, m := range r.Modules {
			fmt.Fprintf(&b, "            - %s\n", m)
		}
		if d := denied(rows, i); len(d) > 0 {
			// An entry of allow is a prefix. Rows below such a folder that the importer may not use are denied again.
			b.WriteString("          deny:\n")
			for _, f := range d {
				fmt.Fprintf(&b, "            - pkg: %s/%s\n              desc: another layer\n", module, f)
			}
		}
	}
	return b.String()
}

// allowed returns the row's own folder and those it names, except those that a shorter prefix covers: depguard compares
// an import only with the entry that precedes it in sorted order, so a longer entry would hide the shorter one. Folders
// that a denied entry would exclude are named nevertheless.
func allowed(rows []layers.Row, i int) []string {
	below := func(f string) func(string) bool {
		return func(o string) bool { return strings.HasPrefix(f, o+"/") }
	}
	all := append([]string{rows[i].Folder}, rows[i].Own...)
	no := denied(rows, i)
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool {
		return slices.ContainsFunc(all, below(f)) && !slices.ContainsFunc(no, below(f))
	})
}

// denied returns the rows that the prefixes of row i would permit although the row does not name them.
func denied(rows []layers.Row, i int) []string {
	var l []string
	for _, s := range rows {
		for _, o := range append([]string{rows[i].Folder}, rows[i].Own...) {
			if strings.HasPrefix(s.Folder, o+"/") && !slices.Contains(rows[i].Own, s.Folder) &&
				s.Folder != rows[i].Folder &&
				!slices.Contains(l, s.Folder) {
				l = append(l, s.Folder)
			}
		}
	}
	return l
}

// pendingRule returns the exclusion in .golangci.yml for packages that were written before the rules of style.
func pendingRule(p layers.PendingFolders) string {
	if len(p) == 0 {
		return ""
	}
	return fmt.Sprintf("      - path: '%s'\n        linters: [lll, staticcheck]\n        text: 'line "+
		"is|ST1000|ST1020|ST1021|ST1022'\n", p.Pattern())
}
