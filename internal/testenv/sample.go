package testenv

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Turn returns which of n parts of a large matrix this commit runs, from 0: successive commits run different parts. It
// returns whole if all parts are to be run, which the variable CIDDK_WHOLE requests. Without git, the part is 0.
func Turn(n int) (part int, whole bool) {
	if n <= 1 || os.Getenv(WholeVariable) != "" {
		return 0, true
	}
	out, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil || len(out) < 8 {
		return 0, false
	}
	commit, err := strconv.ParseUint(string(out[:8]), 16, 64)
	if err != nil {
		return 0, false
	}
	return int(commit % uint64(n)), false
}

// OneOf skips a long test unless it is this commit's turn: it runs on one of n commits, those of the given part, and
// with CIDDK_WHOLE set.
func OneOf(t testing.TB, part, n int) {
	t.Helper()
	if turn, whole := Turn(n); !whole && turn != part {
		t.Skipf("runs on one of %d commits, and this is not one; %s=1 runs it", n, WholeVariable)
	}
}

// Sample returns the part of list that this commit runs: one of n, or all with CIDDK_WHOLE set. It logs the choice.
func Sample[T any](t testing.TB, list []T, n int) []T {
	t.Helper()
	part, whole := Turn(n)
	if whole {
		return list
	}
	t.Logf("part %d of %d of %d; %s=1 runs all", part+1, n, len(list), WholeVariable)
	return Part(list, part, n)
}

// Part returns the elements of part 0 to n-1 of a list. The parts of a list are disjoint, and together they are the
// list. If the list alternates between two kinds of element, each part has both.
func Part[T any](list []T, part, n int) []T {
	var some []T
	for i, v := range list {
		at := i
		if n%2 == 0 { // otherwise, a part of a list that alternates between two kinds would have one kind only
			at += i / n
		}
		if at%n == part {
			some = append(some, v)
		}
	}
	return some
}
