package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// known are phrases that identify a license, with single spaces and in lower case. The text must contain all of has and
// none of not.
var known = []struct {
	id  string // SPDX
	has []string
	not []string
}{
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy of this software " +
		"and associated documentation files",
		"the above copyright notice and this permission notice shall be included"}, nil},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form " +
		"must reproduce",
		"endorse or promote products derived from this software without specific prior written permission"}, nil},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form " +
		"must reproduce"},
		[]string{"endorse or promote products"}},
	{"ISC",
		[]string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without " +
			"fee is hereby granted"}, nil},
	{"Apache-2.0", []string{"apache license version 2.0, january 2004", "grant of copyright license"}, nil},
	{"Apache-2.0", []string{"licensed under the apache license, version 2.0"}, []string{"grant of copyright license"}},
	{"MPL-2.0", []string{"mozilla public license version 2.0", "1. definitions"}, nil},
	{"OFL-1.1", []string{"sil open font license version 1.1"}, nil},
	{"CC-BY-4.0", []string{"creative commons attribution 4.0 international public license"}, nil},
	{"CC-BY-4.0", []string{"the creative commons attribution 4.0 international license as described in " +
		"https://creativecommons.org/licenses/by/4.0/legalcode"}, nil},
	{"(FTL OR GPL-2.0-or-later)",
		[]string{"choice of exactly one of the following two licenses: * the freetype license",
			"the gnu general public license (gpl), version 2 or later"}, nil},
}

// classify returns the SPDX ids of the licenses in a text, or none if it recognizes none.
func classify(text string) (ids []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, k := range known {
		if !slices.Contains(ids, k.id) && containsAll(text, k.has) && !containsAny(text, k.not) {
			ids = append(ids, k.id)
		}
	}
	return ids
}

func containsAll(text string, phrases []string) bool {
	return !slices.ContainsFunc(phrases, func(p string) bool { return !strings.Contains(text, p) })
}

func containsAny(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(text, p) })
}

// license returns the SPDX expression for the license files in a folder.
func license(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() || !isLicense(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		found := classify(string(b))
		if len(found) == 0 {
			return "",
				fmt.Errorf("%s: unknown license (add its phrases to tools/licenses/classify.go, or replace the "+
					"module)",
					filepath.Join(dir, e.Name()))
		}
		for _, id := range found {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%s: no license file (replace the module)", dir)
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND "), nil
}

// isLicense reports whether a file name is one of a license file.
func isLicense(name string) bool {
	name = strings.ToUpper(name)
	for _, p := range []string{"LICENSE", "LICENCE", "COPYING", "UNLICENSE"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
