package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"ciddk/internal/modroot"
)

func main() {
	folder := flag.String("folder", "rvt", "folder of the package, relative to the module's root")
	all := flag.Bool("all", false, "print every arrow, not only those that point up")
	flag.Parse()
	if err := run(*folder, *all); err != nil {
		fmt.Fprintln(os.Stderr, "arrows:", err)
		os.Exit(1)
	}
}

func run(folder string, all bool) error {
	g, o, err := measure(folder)
	if err != nil {
		return err
	}
	if all {
		for a := range g {
			fmt.Println(g.describe(a))
		}
	} else {
		for _, a := range g.up(o) {
			fmt.Println(g.describe(a))
		}
	}
	fmt.Println(g.summary(o))
	return nil
}

// measure returns the arrows of the packages in a folder, and their declared order.
func measure(folder string) (graph, *order, error) {
	root, err := modroot.Find()
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(root, "tools", "arrows", "orders", filepath.Base(folder)+".txt")
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	o, err := parseOrder(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	pkgs, err := load(root, folder)
	if err != nil {
		return nil, nil, err
	}
	var files []string
	for _, p := range pkgs {
		files = append(files, p.files...)
	}
	if err := o.check(files); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return arrowsOf(pkgs), o, nil
}
