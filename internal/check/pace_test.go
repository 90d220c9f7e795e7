package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/testenv"
)

func TestPace(t *testing.T) {
	const m = time.Minute
	type ended struct {
		expect, took time.Duration
		sparse       int
	}
	for _, tt := range []struct {
		name  string
		steps []ended
		left  time.Duration // after them
		want  int
	}{
		{"before the first step", nil, 37 * m, 1},
		{"on time", []ended{{10 * m, 11 * m, 1}}, 27 * m, 1},
		{"a short step says little", []ended{{5 * time.Second, m, 1}}, 37 * m, 1},
		{"60% slower", []ended{{10 * m, 16 * m, 1}}, 27 * m, 2},
		{"half as fast", []ended{{10 * m, 20 * m, 1}}, 24 * m, 4},
		{"on time with half of the samples", []ended{{10 * m, 16 * m, 1}, {10 * m, 12 * m, 2}}, 17 * m, 2},
		{"fast again", []ended{{10 * m, 16 * m, 1}, {10 * m, 6 * m, 2}}, 17 * m, 1},
		{"too late for anything", []ended{{10 * m, 55 * m, 1}}, 5 * m, 4},
		{"nothing left", []ended{{10 * m, 20 * m, 1}}, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pace{left: tt.left}
			for _, e := range tt.steps {
				p.left += e.expect
			}
			for _, e := range tt.steps {
				p.ended(e.expect, e.took, e.sparse)
			}
			assert.Equal(t, tt.left, p.left)
			assert.Equal(t, tt.want, p.sparse())
		})
	}
	p := pace{left: 40 * m}
	p.ended(10*m, 12*m, 1)
	assert.Equal(t, 1, p.sparse(), "12 + 1.2 * 30 minutes")
	p.skipped(20 * m)
	assert.Equal(t, 10*m, p.left)
}

// TestSparseRun checks that a run that is late tells the steps that are left, and the tests that they run.
func TestSparseRun(t *testing.T) {
	t.Setenv(testenv.SparseVariable, "")
	for _, tt := range []struct {
		name             string
		full, whole      bool
		sparse           int
		variable, prints string
	}{
		{"full", true, false, 4, "4", "samples are a quarter of their size"},
		{"whole", true, true, 1, "", ""},
		{"quick", false, false, 1, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(testenv.SparseVariable, "")
			out := new(bytes.Buffer)
			r := &runner{out: out, results: results{}, full: tt.full, whole: tt.whole}
			r.pace.ended(time.Minute, time.Hour, 1) // the first step
			var sparse int
			var variable string
			exit := r.all(t.Context(), []step{{name: "a", expect: time.Minute, limit: time.Minute,
				run: func(_ context.Context, r *runner) error {
					sparse, variable = r.sparse, os.Getenv(testenv.SparseVariable)
					return nil
				}}})
			assert.Zero(t, exit)
			assert.Equal(t, tt.sparse, sparse)
			assert.Equal(t, tt.variable, variable)
			if tt.prints != "" {
				assert.Contains(t, out.String(), tt.prints)
			} else {
				assert.NotContains(t, out.String(), "samples are")
			}
		})
	}
}
