// Command style checks rules of CONTRIBUTING.md that the linter has no check for: the openings of doc comments, the
// number of targets in an assignment, and that a package is called like its folder.
//
//	go run ./internal/style                 checks all packages that are not in pending.txt; a test runs this
//	go run ./internal/style -all            every package, also those of pending.txt
//	go run ./internal/style ./ci ./wire     the named folders
//
// Packages that were written before the rules are in pending.txt. It exempts them from these checks and, through
// docgen, from the linter's checks of style. Remove a line when its packages have been rewritten.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"ciddk/internal/layers"
	"ciddk/internal/modroot"
)

func main() {
	all := flag.Bool("all", false, "check the packages of pending.txt, too")
	flag.Parse()
	n, err := run(os.Stdout, *all, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	}
	if n > 0 {
		os.Exit(1)
	}
}

// run prints the findings and returns their number.
func run(w io.Writer, all bool, folders []string) (n int, err error) {
	root, err := modroot.Find()
	if err != nil {
		return 0, err
	}
	for i, f := range folders {
		folders[i] = path.Clean(filepath.ToSlash(f))
	}
	findings, err := checkTree(root)
	if err != nil {
		return 0, err
	}
	pending := layers.Pending()
	for _, f := range findings {
		folder := path.Dir(f.file)
		if len(folders) > 0 && !slices.Contains(folders, folder) || len(folders) == 0 && !all && pending.Has(folder) {
			continue
		}
		fmt.Fprintln(w, f)
		n++
	}
	return n, nil
}
