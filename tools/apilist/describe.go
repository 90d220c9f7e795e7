package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// describe returns the lines of a package, sorted. Packages of the module are named by their path below it.
func describe(pkg *types.Package, module string) []string {
	d := describer{pkg: pkg, qualify: func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return strings.TrimPrefix(p.Path(), module+"/")
	}}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			d.object(o)
		}
	}
	slices.Sort(d.lines)
	return slices.Compact(d.lines)
}

type describer struct {
	pkg     *types.Package
	qualify types.Qualifier
	lines   []string
}

func (d *describer) addf(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *describer) typeString(t types.Type) string { return types.TypeString(t, d.qualify) }

func (d *describer) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		d.addf("const %s %s = %s", o.Name(), d.typeString(o.Type()), o.Val().ExactString())
	case *types.Var:
		d.addf("var %s %s", o.Name(), d.typeString(o.Type()))
	case *types.Func:
		d.addf("func %s%s", o.Name(), d.signature(o))
	case *types.TypeName:
		d.typeName(o)
	}
}

// signature returns the parameters and results of a function or method.
func (d *describer) signature(f *types.Func) string {
	return strings.TrimPrefix(d.typeString(f.Type()), "func")
}

func (d *describer) typeName(o *types.TypeName) {
	if o.IsAlias() {
		t := o.Type()
		if a, ok := t.(*types.Alias); ok {
			t = a.Rhs()
		}
		d.addf("type %s = %s", o.Name(), d.typeString(t))
		return
	}
	switch u := o.Type().Underlying().(type) {
	case *types.Struct:
		d.addf("type %s struct", d.typeString(o.Type()))
		d.fields(o.Name(), u, map[types.Type]bool{})
	case *types.Interface:
		d.addf("type %s interface", d.typeString(o.Type()))
		d.interfaceMethods(o.Name(), u)
		return
	default:
		d.addf("type %s %s", d.typeString(o.Type()), d.typeString(u))
	}
	d.methods(o)
}

// fields lists the exported fields of a structure, and those of unexported structures that it embeds.
func (d *describer) fields(owner string, s *types.Struct, seen map[types.Type]bool) {
	hidden := false
	for f := range s.Fields() {
		switch {
		case f.Exported() && f.Embedded():
			d.addf("type %s struct, embeds %s", owner, d.typeString(f.Type()))
		case f.Exported():
			d.addf("type %s struct, %s %s", owner, f.Name(), d.typeString(f.Type()))
		default:
			hidden = true
			if inner, ok := embeddedStruct(f); ok && !seen[f.Type()] {
				seen[f.Type()] = true
				d.fields(owner, inner, seen)
			}
		}
	}
	if hidden {
		d.addf("type %s struct, has unexported fields", owner)
	}
}

func embeddedStruct(f *types.Var) (*types.Struct, bool) {
	if !f.Embedded() {
		return nil, false
	}
	t := f.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	return s, ok
}

func (d *describer) interfaceMethods(owner string, i *types.Interface) {
	hidden := false
	for m := range i.Methods() {
		if m.Exported() {
			d.addf("type %s interface, %s%s", owner, m.Name(), d.signature(m))
		} else {
			hidden = true
		}
	}
	if hidden {
		d.addf("type %s interface, has unexported methods", owner)
	}
	for e := range i.EmbeddedTypes() {
		if !types.IsInterface(e) || isUnion(e) {
			d.addf("type %s interface, of %s", owner, d.typeString(e))
		}
	}
}

func isUnion(t types.Type) bool { _, is := t.(*types.Union); return is }

// methods lists the exported methods of a type and of the pointer to it, promoted ones included.
func (d *describer) methods(o *types.TypeName) {
	byValue := types.NewMethodSet(o.Type())
	set := types.NewMethodSet(types.NewPointer(o.Type()))
	for m := range set.Methods() {
		f, ok := m.Obj().(*types.Func)
		if !ok || !f.Exported() {
			continue
		}
		receiver := "*" + o.Name()
		if byValue.Lookup(f.Pkg(), f.Name()) != nil {
			receiver = o.Name()
		}
		d.addf("method (%s) %s%s", receiver, f.Name(), d.signature(f))
	}
}
