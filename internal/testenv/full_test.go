package testenv

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFull(t *testing.T) {
	for _, tt := range []struct {
		ci, full string
		want     bool
	}{{"", "", false}, {"true", "", true}, {"false", "", false}, {"", "1", true}} {
		t.Setenv("CI", tt.ci)
		t.Setenv(FullVariable, tt.full)
		assert.Equal(t, tt.want, Full(), tt)
	}
}

func TestMeasurement(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv(FullVariable, "")
	assert.Contains(t, Try(t, Measurement).Skipped, "measures; run")
	t.Setenv(FullVariable, "1")
	if testing.Short() {
		assert.Contains(t, Try(t, Measurement).Skipped, "-short")
		return
	}
	assert.Equal(t, Outcome{}, Try(t, Measurement))
}

// TestPart checks that the parts of a list are the whole list, and that each part of an alternating list has both
// kinds.
func TestPart(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7} {
		var list []int
		for i := range 8 * n {
			list = append(list, i)
		}
		var all []int
		for part := range n {
			p := Part(list, part, n)
			odd := 0
			for _, v := range p {
				odd += v % 2
			}
			assert.InDelta(t, len(p)/2, odd, 2, "part %d of %d", part, n)
			assert.NotZero(t, odd)
			all = append(all, p...)
		}
		slices.Sort(all)
		assert.Equal(t, list, all, "%d parts", n)
	}
}

func TestTurn(t *testing.T) {
	t.Setenv(WholeVariable, "1")
	_, whole := Turn(4)
	assert.True(t, whole)
	assert.Len(t, Sample(t, []int{1, 2, 3, 4}, 4), 4)
	t.Setenv(WholeVariable, "")
	_, whole = Turn(1)
	assert.True(t, whole)
	part, whole := Turn(4)
	assert.False(t, whole)
	assert.Less(t, part, 4)
	assert.Len(t, Sample(t, []int{1, 2, 3, 4}, 4), 1)
}

func TestOneOf(t *testing.T) {
	skipped := func(part, n int) bool {
		var done, ran bool
		t.Run("one", func(t *testing.T) {
			defer func() { done = true }()
			OneOf(t, part, n)
			ran = true
		})
		assert.True(t, done)
		return !ran
	}
	t.Setenv(WholeVariable, "")
	numRun := 0
	for part := range 3 {
		if !skipped(part, 3) {
			numRun++
		}
	}
	assert.Equal(t, 1, numRun)
	t.Setenv(WholeVariable, "1")
	assert.False(t, skipped(0, 3))
	assert.False(t, skipped(2, 3))
}
