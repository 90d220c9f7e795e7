// Command licenses writes docs/licenses.md: the modules that the kit is built, tested or generated with, and their
// licenses.
//
//	go generate ./tools/licenses     writes the page
//	go test ./tools/licenses         fails when the committed page is stale, or a license is unknown
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"ciddk/internal/modroot"
)

//go:generate go run .

// page is the file that the command writes, below the root of the module.
const page = "docs/licenses.md"

func main() {
	if err := write(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context) error {
	root, err := modroot.Find()
	if err != nil {
		return err
	}
	list, err := modules(ctx, root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(page)), []byte(table(list)), 0o644)
}
