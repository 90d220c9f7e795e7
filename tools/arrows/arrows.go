package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// arrow is a reference from one file to functions of another.
type arrow struct{ from, to string }

// graph holds the arrows of a package.
type graph map[arrow][]string // the functions referred to, sorted

// arrowsOf returns the arrows between the files of the packages.
func arrowsOf(pkgs []*source) graph {
	g := make(graph)
	declared := make(map[types.Object]string)
	for _, p := range pkgs {
		for id, obj := range p.info.Defs {
			if f, ok := obj.(*types.Func); ok {
				declared[f] = p.file(id.Pos())
			}
		}
	}
	for _, p := range pkgs {
		for id, obj := range p.info.Uses {
			f, ok := obj.(*types.Func)
			if !ok {
				continue
			}
			f = f.Origin() // a method of an instantiated type is declared with its generic type
			a := arrow{p.file(id.Pos()), declared[f]}
			if a.to == "" || a.to == a.from {
				continue
			}
			if name := funcName(f); !slices.Contains(g[a], name) {
				g[a] = append(g[a], name)
			}
		}
	}
	for _, names := range g {
		slices.Sort(names)
	}
	return g
}

// funcName returns the name of a function, with the type of its receiver.
func funcName(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

// up returns the arrows that point up in an order, sorted by their files' positions.
func (g graph) up(o *order) []arrow {
	var list []arrow
	for a := range g {
		if o.index[a.from] < o.index[a.to] {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b arrow) int {
		if d := o.index[a.from] - o.index[b.from]; d != 0 {
			return d
		}
		return o.index[a.to] - o.index[b.to]
	})
	return list
}

// summary describes the arrows in one line.
func (g graph) summary(o *order) string {
	up := len(g.up(o))
	return fmt.Sprintf("%d files, %d arrows, %d point up (%.1f%%, limit %g%%)", len(o.files), len(g), up,
		percent(up, len(g)), o.maxUp)
}

// percent returns part as a percentage of all.
func percent(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}

// describe returns one line for an arrow.
func (g graph) describe(a arrow) string {
	return fmt.Sprintf("%s -> %s: %s", a.from, a.to, strings.Join(g[a], ", "))
}
