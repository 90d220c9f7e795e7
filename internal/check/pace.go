package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"ciddk/internal/testenv"
)

// targetTime is how long a full run should take. A run that is late takes smaller samples for the steps that are left,
// so that a slow machine ends in time, too, and checks some of everything.
const targetTime = 50 * time.Minute

// maxSparse bounds how much smaller samples become. A machine for which that is not enough is stopped at the overall
// limit.
const maxSparse = 4

// pace compares the steps that ended with what they were expected to take.
type pace struct {
	took, expected time.Duration
	left           time.Duration // expected of the steps that have not started
}

// atSparse returns what a step is expected to take with samples of 1/sparse of their size. About half of what the steps
// do is sampled.
func atSparse(expect time.Duration, sparse int) time.Duration {
	return expect/2 + expect/2/time.Duration(sparse)
}

// ended notes a step that ran with samples of 1/sparse of their size.
func (p *pace) ended(expect, took time.Duration, sparse int) {
	p.left -= expect
	p.took += took
	p.expected += atSparse(expect, sparse)
}

// skipped notes a step that this machine cannot run.
func (p *pace) skipped(expect time.Duration) { p.left -= expect }

// slowness returns how many times as long as expected the steps took, or 1 if they tell little yet.
func (p *pace) slowness() float64 {
	const tellsLittle = 30 * time.Second
	if p.expected < tellsLittle {
		return 1
	}
	return float64(p.took) / float64(p.expected)
}

// sparse returns the smallest divisor of samples (1, 2 or 4) with which the run ends in time at its present pace, or
// the largest.
func (p *pace) sparse() int {
	for k := 1; k < maxSparse; k *= 2 {
		if p.took+time.Duration(p.slowness()*float64(atSparse(p.left, k))) <= targetTime {
			return k
		}
	}
	return maxSparse
}

// setSparse sets how large the samples of the next step are, for it and for the tests that it runs, and says so.
func (r *runner) setSparse() {
	if !r.full || r.whole {
		return
	}
	r.sparse = r.pace.sparse()
	os.Setenv(testenv.SparseVariable, strconv.Itoa(r.sparse))
	if r.sparse > 1 {
		fmt.Fprintf(r.out, "the steps take %.1f times as long as on 2 quiet cores, so samples are %s of their size\n",
			r.pace.slowness(), map[int]string{2: "half", 4: "a quarter"}[r.sparse])
	}
}

// part returns which part of n*sparse this commit runs, and that number. The parts are at most limit.
func (r *runner) part(n, limit int) (part, parts int, whole bool) {
	parts = max(n, min(n*r.sparse, limit))
	part, whole = testenv.Turn(parts)
	return part, parts, whole
}
