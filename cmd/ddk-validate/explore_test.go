package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/explore"
	"ciddk/validate/suite"
	"ciddk/validate/suite/modelsuite/modelmutants"
)

// TestModelRules checks that every rule that the model and the explorer cite is a requirement.
func TestModelRules(t *testing.T) {
	c, err := validate.NewCatalog(suite.All()...)
	require.NoError(t, err)
	id := regexp.MustCompile(`"((?:CI|IBTA|SAS|WIRE)-[A-Za-z0-9.]+-\d\d)"`)
	n := 0
	for _, dir := range []string{"../../internal/model", "../../validate/explore"} {
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

// TestPairs measures how many pairs of features the bounded part of a certificate visits.
func TestPairs(t *testing.T) {
	for _, link := range []string{"direct", "network"} {
		c := exploring(link, nil)
		c.Rows, c.Traces, c.Pairs = 400, 400, &explore.Pairs{}
		_, f, err := explore.Explore(t.Context(), c)
		require.NoError(t, err)
		if f != nil {
			t.Fatal(f.Story())
		}
		visited, permitted := c.Pairs.Count()
		t.Logf("%s: %d of %d rows judged to their end, %d of %d pairs visited", link, c.Pairs.Visited, c.Pairs.Rows,
			visited, permitted)
		assert.Greater(t, visited*100, permitted*95)
	}
}

// TestExploreFinds checks that a fault is found, that its story is short, and that its program fails on the wrong
// driver and passes on the right one.
func TestExploreFinds(t *testing.T) {
	testenv.Long(t)
	var f *explore.Finding
	for seed := range uint64(2) {
		c := exploring("direct", ciwrap.Layer{CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ {
			return &modelmutants.ShortQueue{CQ: ciwrap.CQ{CQ: q}}
		}}.Wrap)
		c.Seed, c.Traces, c.ShrinkTime = seed, 2000, 2*time.Minute
		var err error
		_, f, err = explore.Explore(t.Context(), c)
		require.NoError(t, err)
		require.NotNil(t, f)
		t.Log(f.Story())
		assert.EqualValues(t, "CI-ResizeCQ-01", f.Violation.Rule)
		assert.Less(t, len(f.Trace), 18)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"trace_test.go": f.Program(), "driver_test.go": driverFile} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	at, err := filepath.Abs("mine") // a folder that exists for the compiler only
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(at, "trace_test.go"):  filepath.Join(dir, "trace_test.go"),
		filepath.Join(at, "driver_test.go"): filepath.Join(dir, "driver_test.go"),
	}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	built := filepath.Join(dir, "mine.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", file, "-o", built,
		"./mine").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for wrong, want := range map[string]string{"1": "Rule CI-ResizeCQ-01 is broken", "": "PASS"} {
		c := exec.CommandContext(t.Context(), built)
		c.Env = append(os.Environ(), "WRONG="+wrong)
		out, err := c.CombinedOutput()
		assert.Equal(t, wrong == "", err == nil, "%s", out)
		assert.Contains(t, string(out), want)
	}
}

// driverFile is what the reader of a program supplies: the driver.
const driverFile = `package mine_test

import (
	"context"
	"errors"
	"os"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/validate"
	"ciddk/validate/suite/modelsuite/modelmutants"
)

var driver = validate.Driver{Name: "mine", Open: func(context.Context, validate.Options) (*validate.Target, error) {
	l := direct.NewLink()
	t := &validate.Target{}
	var made []*reference.HCA
	for range 2 {
		p, err := direct.New(l, direct.Config{})
		if err != nil {
			return nil, err
		}
		h, err := reference.New(reference.Config{Ports: []rvt.Port{p}})
		if err != nil {
			return nil, err
		}
		made = append(made, h)
		var hca ci.HCA = h
		if os.Getenv("WRONG") != "" {
			hca = ciwrap.Wrap(h, ciwrap.Layer{CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ {
				return &modelmutants.ShortQueue{CQ: ciwrap.CQ{CQ: q}}
			}})
		}
		t.HCAs = append(t.HCAs, hca)
	}
	t.Close = func(context.Context) error { return errors.Join(made[0].Close(), made[1].Close()) }
	return t, nil
}}
`
