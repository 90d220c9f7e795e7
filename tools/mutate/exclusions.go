package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// exclusion names code whose mutants nobody can observe.
type exclusion struct {
	// Function is a package folder and a name, such as rvt.(*qp).Modify. "*.String" is every function of that name.
	Function string
	// Package is a folder; packages below it are included.
	Package string
	// File is a source file, relative to the module's root.
	File string
	// Change limits the exclusion of a function to one edit, "old -> new", which changes no behavior.
	Change string
	// Operator limits the exclusion of a function to the edits of one operator.
	Operator string
	// Code limits the exclusion of a function to the lines that contain it.
	Code   string
	Reason string
}

// exclusionEntry is an entry of exclusions.yaml: exclusions for one reason.
type exclusionEntry struct {
	Function texts  `yaml:"function"`
	Package  string `yaml:"package"`
	File     string `yaml:"file"`
	Change   texts  `yaml:"change"`
	Operator texts  `yaml:"operator"`
	Code     texts  `yaml:"code"`
	Reason   string `yaml:"reason"`
}

// texts is a text or a list of texts.
type texts []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = texts{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

// orNone returns the texts, or one that is empty.
func (t texts) orNone() texts {
	if len(t) == 0 {
		return texts{""}
	}
	return t
}

// exclusions returns the exclusions of an entry.
func (e *exclusionEntry) exclusions() (list []exclusion) {
	for _, f := range e.Function.orNone() {
		for _, change := range e.Change.orNone() {
			for _, o := range e.Operator.orNone() {
				for _, code := range e.Code.orNone() {
					list = append(list, exclusion{f, e.Package, e.File, change, o, code, e.Reason})
				}
			}
		}
	}
	return list
}

func (e *exclusion) matches(m *mutant) bool {
	switch {
	case e.Package != "":
		return isBelow(path.Dir(m.File), e.Package)
	case e.File != "":
		return m.File == e.File
	}
	if name, ok := strings.CutPrefix(e.Function, "*"); ok {
		return strings.HasSuffix(m.Function, name)
	}
	return m.Function == e.Function && (e.Change == "" || e.Change == m.change()) &&
		(e.Operator == "" || e.Operator == m.Operator) && strings.Contains(m.code, e.Code)
}

// parseExclusions reads exclusions.yaml.
func parseExclusions(b []byte) ([]exclusion, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	var entries []exclusionEntry
	if err := d.Decode(&entries); err != nil {
		return nil, fmt.Errorf("exclusions: %w", err)
	}
	var list []exclusion
	for i := range entries {
		list = append(list, entries[i].exclusions()...)
	}
	for i, e := range list {
		isOneFunction := e.Function != "" && !strings.HasPrefix(e.Function, "*")
		switch {
		case numSet(e.Function, e.Package, e.File) != 1:
			return nil, fmt.Errorf("exclusions: entry %d: want a function, a package or a file", i+1)
		case numSet(e.Change, e.Operator, e.Code) > 0 && !isOneFunction:
			return nil, fmt.Errorf("exclusions: entry %d: change, operator and code are for one function: name it, "+
				"without *, package or file", i+1)
		case len(strings.Fields(e.Reason)) < 3:
			return nil, fmt.Errorf("exclusions: entry %d: no reason", i+1)
		}
	}
	return list, nil
}

// numSet returns how many texts are not empty.
func numSet(list ...string) (n int) {
	for _, s := range list {
		if s != "" {
			n++
		}
	}
	return n
}

// exclusionOf returns the exclusion of a mutant, or nil.
func exclusionOf(list []exclusion, m *mutant) *exclusion {
	for i := range list {
		if list[i].matches(m) {
			return &list[i]
		}
	}
	return nil
}

// checkExclusions returns an error for entries that match no mutant: their code has changed.
func checkExclusions(list []exclusion, all []mutant) error {
	var errs []error
	for i := range list {
		used := false
		for j := range all {
			used = used || list[i].matches(&all[j])
		}
		if e := list[i]; !used {
			errs = append(errs, fmt.Errorf("exclusions: no mutant matches %s%s%s %s%s %s", e.Function, e.Package,
				e.File, e.Change, e.Operator, e.Code))
		}
	}
	return errors.Join(errs...)
}
