package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

// TestPage checks that the committed page is up to date, and the rules that it states.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the packages of three systems; run without -short")
	}
	root, err := modroot.Find()
	require.NoError(t, err)
	list, err := modules(t.Context(), root)
	require.NoError(t, err)
	committed, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	require.NoError(t, err)
	assert.Equal(t, string(committed), table(list), "stale: go generate ./tools/licenses")

	// A shipped module may have any of these. MPL-2.0 has obligations for distributors, so it is permitted in tests
	// only.
	free := []string{"MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Apache-2.0", "OFL-1.1", "CC-BY-4.0",
		"(FTL OR GPL-2.0-or-later)"}
	for _, m := range list {
		if m.use >= tagged {
			for id := range strings.SplitSeq(m.license, " AND ") {
				assert.Contains(t, free, id, m.path)
			}
		}
	}
	i := slices.IndexFunc(list, func(m module) bool { return m.path == "pgregory.net/rapid" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, "MPL-2.0", list[i].license)
	assert.Equal(t, tests, list[i].use, "only test files import it")
	for _, m := range list {
		if m.use != tool {
			assert.NotEmpty(t, m.by, m.path)
		}
	}
}

func TestClassify(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and " +
		"associated documentation\n" +
		"files. The above copyright notice  and this permission notice shall be included"
	const bsd = "Redistribution and use in source and binary forms, with or without. * Redistributions in binary " +
		"form must reproduce the above. "
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"MIT":   {mit, []string{"MIT"}},
		"BSD 2": {bsd, []string{"BSD-2-Clause"}},
		"BSD 3": {bsd + "Neither the name may be used to endorse or promote products derived from this software " +
			"without specific prior written permission", []string{"BSD-3-Clause"}},
		"two": {mit + "\nLicensed under the Apache License, Version 2.0 (the \"License\")",
			[]string{"MIT", "Apache-2.0"}},
		"half of MIT":  {mit[:100], nil},
		"proprietary":  {"All rights reserved.", nil},
		"empty":        {"", nil},
		"other number": {"Mozilla Public License Version 1.1 1. Definitions", nil},
	} {
		assert.Equal(t, tt.want, classify(tt.text), name)
	}
}

func TestLicense(t *testing.T) {
	dir := t.TempDir()
	_, err := license(dir)
	assert.ErrorContains(t, err, "no license file")
	file := filepath.Join(dir, "Licence.txt")
	require.NoError(t, os.WriteFile(file, []byte("Ask the author."), 0o644))
	_, err = license(dir)
	assert.ErrorContains(t, err, "Licence.txt: unknown license")
	require.NoError(t, os.WriteFile(file, []byte("SIL OPEN FONT LICENSE Version 1.1"), 0o644))
	id, err := license(dir)
	require.NoError(t, err)
	assert.Equal(t, "OFL-1.1", id)
	_, err = license(filepath.Join(dir, "none"))
	assert.Error(t, err)
}
