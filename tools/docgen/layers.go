package main

import (
	"fmt"
	"strings"

	"ciddk/tools/layers"
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
