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
	// Change limits the exclusion of a function to one edit, "old -> new", which changes no behavior.
	Change string `yaml:"change"`
	// Operator limits the exclusion of a function to the edits of one operator.
	Operator string `yaml:"operator"`
	// Code limits the exclusion of a function to the lines that contain it.
	Code   string `yaml:"code"`
	Reason string `yaml:"reason"`
}

func (e *exclusion) matches(m *mutant) bool {
	if e.Package != "" {
		return isBelow(path.Dir(m.File), e.Package)
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
		switch {
		case (e.Function == "") == (e.Package == ""):
			return nil, fmt.Errorf("exclusions: entry %d: want a function or a package", i+1)
		case e.Change != "" && (e.Package != "" || strings.HasPrefix(e.Function, "*")):
			return nil, fmt.Errorf("exclusions: entry %d: a change needs one function", i+1)
		case e.Code != "" && (e.Package != "" || strings.HasPrefix(e.Function, "*")):
			return nil, fmt.Errorf("exclusions: entry %d: code needs one function", i+1)
		case e.Operator != "" && (e.Package != "" || strings.HasPrefix(e.Function, "*")):
			return nil, fmt.Errorf("exclusions: entry %d: operator is for one function: name it, without * or package",
				i+1)
		case len(strings.Fields(e.Reason)) < 3:
			return nil, fmt.Errorf("exclusions: entry %d: no reason", i+1)
		}
	}
	return list, nil
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
			errs = append(errs, fmt.Errorf("exclusions: no mutant matches %s%s %s%s %s", e.Function, e.Package, e.Change,
				e.Operator, e.Code))
		}
	}
	return errors.Join(errs...)
}
