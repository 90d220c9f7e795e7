// Command setmodule changes the module path of the tree: in go.mod, imports, commands, generated files and
// documentation.
//
//	go run ./internal/setmodule example.com/you/kit
//
// Commit first, so that git diff shows the changes. Afterwards all checks pass as before. Read the section "In your own
// module" of docs/users.md, which describes how programs import the kit, and adapt it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"

	"ciddk/internal/layers"
	"ciddk/internal/modroot"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./internal/setmodule PATH")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "setmodule:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	root, err := modroot.Find()
	if err != nil {
		return err
	}
	old, err := layers.Module(root)
	if err != nil {
		return err
	}
	n, err := setModule(root, old, path)
	if err != nil {
		return err
	}
	fmt.Printf("module %s is now %s: %d files changed\n", old, path, n)
	return nil
}

var valid = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9~][A-Za-z0-9._~-]*)*$`)

// checkPath rejects what cannot be a module path.
func checkPath(path string) error {
	if !valid.MatchString(path) {
		return fmt.Errorf("%q is not a module path: use letters, digits and . _ ~ - between slashes, such as "+
			"example.com/you/kit", path)
	}
	if path == "std" || path == "cmd" {
		return errors.New("the paths std and cmd belong to Go")
	}
	return nil
}
