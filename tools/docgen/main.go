// Command docgen writes the tables of the documentation that follow from code: statuses, completions, events,
// capability bits, verbs and the QP state machine from package ci, the layer table from package layers, the programs
// that test/verbs runs, and the picture of the architecture.
//
//	go generate ./tools/docgen     writes them
//	go test ./tools/docgen         fails when a committed one is stale
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"ciddk/internal/modroot"
)

//go:generate go run .

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func write() error {
	root, err := modroot.Find()
	if err != nil {
		return err
	}
	pages, err := generate(root)
	if err != nil {
		return err
	}
	for name, text := range pages {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
