package main

import (
	"fmt"
	"strings"

	"ciddk/internal/layers"
)

// layerTable is the table of CONTRIBUTING.md.
func layerTable(rows []layers.Row) string {
	var b strings.Builder
	b.WriteString("\n| package | room for | may import | modules |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Folder, r.Purpose, names(r.Own, "anything above"), names(r.Modules, "any"))
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

// depguardRules are the rules of .golangci.yml: one strict list per row. A row with "*" needs none. Files of a row's own sub-folders
// that have rows of their own are left out by name.
func depguardRules(module string, rows []layers.Row) string {
	var b strings.Builder
	for i, r := range rows {
		if len(r.Own) > 0 && r.Own[0] == layers.Any {
			continue
		}
		fmt.Fprintf(&b, "        %s:\n          list-mode: strict\n          files:\n", strings.ReplaceAll(r.Folder, "/", "-"))
		fmt.Fprintf(&b, "            - \"${base-path}/%s/**/*.go\"\n            - \"!$test\"\n", r.Folder)
		for j, s := range rows {
			if j != i && strings.HasPrefix(s.Folder, r.Folder+"/") {
				fmt.Fprintf(&b, "            - \"!${base-path}/%s/**/*.go\"\n", s.Folder)
			}
		}
		fmt.Fprintf(&b, "          allow:\n            - $gostd\n            - %s/%s\n", module, r.Folder)
		for _, o := range r.Own {
			// "$" makes the entry a whole name where a longer row would slip through it.
			fmt.Fprintf(&b, "            - %s/%s%s\n", module, o, whole(o, rows))
		}
		for _, m := range r.Modules {
			fmt.Fprintf(&b, "            - %s\n", m)
		}
	}
	return b.String()
}

func whole(folder string, rows []layers.Row) string {
	for _, r := range rows {
		if strings.HasPrefix(r.Folder, folder+"/") {
			return "$"
		}
	}
	return ""
}
