// Package layers holds the layer table of the kit. The table is layers.txt. The tests of this package check the whole
// tree against it, and docgen copies it into CONTRIBUTING.md.
package layers

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed layers.txt
var table string

// Any in Row.Own stands for every row above, in Row.Modules for every module.
const Any = "*"

// TestModules are what test files of every layer may import beside the standard library.
var TestModules = []string{"github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak",
	"golang.org/x/net/nettest", "github.com/golang/mock",
	"github.com/rogpeppe/go-internal", "github.com/gopacket/gopacket"}

// Row is one layer.
type Row struct {
	Folder  string   // below the module's root, with slashes
	Own     []string // folders it may import, or Any
	Modules []string // module paths it may import, or Any
	Purpose string
}

// Rows returns the table, bottom layer first.
func Rows() ([]Row, error) { return parse(table) }

// parse reads the format that the head of layers.txt describes.
func parse(text string) ([]Row, error) {
	var rows []Row
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, "|", 4)
		if len(f) != 4 {
			return nil, fmt.Errorf("layers.txt:%d: want 4 columns, have %d", i+1, len(f))
		}
		r := Row{Folder: strings.TrimSpace(f[0]), Own: list(f[1]), Modules: list(f[2]),
			Purpose: strings.TrimSpace(f[3])}
		if slices.ContainsFunc(rows, func(x Row) bool { return x.Folder == r.Folder }) {
			return nil, fmt.Errorf("layers.txt:%d: %s has two rows", i+1, r.Folder)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func list(s string) []string {
	var l []string
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e != "" && e != "-" {
			l = append(l, e)
		}
	}
	return l
}

// Find returns the index of the row that folder belongs to, or -1.
func Find(rows []Row, folder string) int {
	best := -1
	for i, r := range rows {
		if within(folder, r.Folder) && (best < 0 || len(r.Folder) > len(rows[best].Folder)) {
			best = i
		}
	}
	return best
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// Check returns an error if a file in folder may not import path. module is the module's own path; test is set for a
// _test.go file.
func Check(rows []Row, module, folder, path string, test bool) error {
	at := Find(rows, folder)
	if at < 0 {
		return fmt.Errorf("%s has no row in tools/layers/layers.txt", folder)
	}
	row := rows[at]
	if own, ok := strings.CutPrefix(path, module+"/"); ok {
		to := Find(rows, own)
		switch {
		case to < 0:
			return fmt.Errorf("%s has no row in tools/layers/layers.txt", own)
		case to == at || slices.Contains(row.Own, rows[to].Folder), to < at && (test || slices.Contains(row.Own, Any)):
			return nil
		}
		return fmt.Errorf("%s may not import %s; it may import %s", row.Folder, own, or(row.Own))
	}
	if std(path) || slices.Contains(row.Modules, Any) || covers(row.Modules, path) || test &&
		covers(TestModules, path) {
		return nil
	}
	return fmt.Errorf("%s may not import %s; outside the standard library it may import %s", row.Folder, path,
		or(row.Modules))
}

// std reports whether a path is of the standard library: its first element has no dot.
func std(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func covers(modules []string, path string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return within(path, m) })
}

func or(l []string) string {
	if len(l) == 0 {
		return "nothing"
	}
	return strings.Join(l, ", ")
}
