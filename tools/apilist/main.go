package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"ciddk/internal/modroot"
)

func main() {
	count := flag.Bool("count", false, "print the number of exported identifiers of each package, and write nothing")
	flag.Parse()
	if err := run(*count); err != nil {
		fmt.Fprintln(os.Stderr, "apilist:", err)
		os.Exit(1)
	}
}

func run(count bool) error {
	root, err := modroot.Find()
	if err != nil {
		return err
	}
	lists, err := listings(root)
	if err != nil {
		return err
	}
	if count {
		total := 0
		for _, l := range lists {
			fmt.Printf("%6d %s\n", len(l.lines), l.path)
			total += len(l.lines)
		}
		fmt.Printf("%6d all %d packages\n", total, len(lists))
		return nil
	}
	return write(filepath.Join(root, folder), lists)
}

// write replaces the listings in dir.
func write(dir string, lists []listing) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, l := range lists {
		if err := os.WriteFile(filepath.Join(dir, l.file()), l.text(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
