package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/model/explore"
	"ciddk/validate/suite"
	"ciddk/validate/suite/modelsuite/modelmutants"
)

// TestModelRules checks that every rule that the model and the explorer cite is a requirement.
func TestModelRules(t *testing.T) {
	c, err := validate.NewCatalog(suite.All()...)
	require.NoError(t, err)
	id := regexp.MustCompile(`"((?:CI|IBTA|SAS|WIRE)-[A-Za-z0-9.]+-\d\d)"`)
	n := 0
	for _, dir := range []string{"../../validate/model", "../../validate/model/explore"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range id.FindAllStringSubmatch(string(b), -1) {
				_, ok := c.Requirement(m[1])
				assert.True(t, ok, "%s cites %s", filepath.Base(f), m[1])
				n++
			}
		}
	}
	require.Greater(t, n, 50)
}

// exploring returns the configuration of an exploration of the reference HCA, which wrap changes.
func exploring(link string, wrap func(ci.HCA) ci.HCA) explore.Config {
	return explore.Config{Seed: 1, Open: func(ctx context.Context) (*validate.Target, error) {
		target, err := openReference(ctx, validate.Options{Link: link, Seed: 1, Impair: true})
		for i := range target.HCAs {
			if wrap != nil {
				target.HCAs[i] = wrap(target.HCAs[i])
			}
		}
		return target, err
	}}
}

// TestExploreReference explores the reference HCA, which breaks no rule.
func TestExploreReference(t *testing.T) {
	for _, link := range []string{"direct", "network"} {
		c := exploring(link, nil)
		c.Traces = 60
		n, f, err := explore.Explore(t.Context(), c)
		require.NoError(t, err)
		if f != nil {
			t.Fatal(f.Story())
		}
		assert.EqualValues(t, 60, n)
	}
}

// TestExploreFinds checks that a fault is found, and that its story is short.
func TestExploreFinds(t *testing.T) {
	c := exploring("direct", ciwrap.Layer{CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ {
		return &modelmutants.ShortQueue{CQ: ciwrap.CQ{CQ: q}}
	}}.Wrap)
	c.Seed, c.Traces = 3, 2000
	_, f, err := explore.Explore(t.Context(), c)
	require.NoError(t, err)
	require.NotNil(t, f)
	t.Log(f.Story())
	assert.Less(t, len(f.Trace), 17)
	assert.Contains(t, f.Program(), "explore.Resize{")
}
