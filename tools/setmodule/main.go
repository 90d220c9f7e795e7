// Command setmodule changes the module path of the tree: in go.mod, imports, commands, generated files and
// documentation.
//
//	go run ./tools/setmodule example.com/you/kit
//
// Commit first, so that git diff shows the changes. Then go generate ./tools/docgen updates how the documentation
// fetches the module, and all checks pass as before.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"

	"ciddk/internal/modroot"
	"ciddk/tools/layers"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./tools/setmodule PATH")
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
	fmt.Printf("module %s is now %s: %d files changed\nnext: go generate ./tools/docgen\n", old, path, n)
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
