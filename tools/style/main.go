// Command style checks rules of CONTRIBUTING.md that the linter has no check for: doc comments, and the number of
// targets in an assignment.
//
//	go run ./tools/style                 checks all packages; a test runs this
//	go run ./tools/style ./ci ./wire     the named folders
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"ciddk/internal/modroot"
)

func main() {
	flag.Parse()
	n, err := run(os.Stdout, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	}
	if n > 0 {
		os.Exit(1)
	}
}

// run prints the findings and returns their number.
func run(w io.Writer, folders []string) (n int, err error) {
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
	for _, f := range findings {
		if len(folders) > 0 && !slices.Contains(folders, path.Dir(f.file)) {
			continue
		}
		fmt.Fprintln(w, f)
		n++
	}
	return n, nil
}
