package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// exclusion names code whose mutants no certifier can observe.
type exclusion struct {
	// Function is a package folder and a name, such as rvt.(*qp).Modify. "*.String" is every function of that name.
	Function string `yaml:"function"`
	// Package is a folder; packages below it are included.
	Package string `yaml:"package"`
	// File is a source file, relative to the module's root.
	File string `yaml:"file"`
	// Change limits the exclusion of a function to one edit, "old -> new", which changes no behavior.
	Change string `yaml:"change"`
	// Operator limits the exclusion of a function to the edits of one operator.
	Operator string `yaml:"operator"`
	// Code limits the exclusion of a function to the lines that contain it.
	Code   string `yaml:"code"`
	Reason string `yaml:"reason"`
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
	var list []exclusion
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("exclusions: %w", err)
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
