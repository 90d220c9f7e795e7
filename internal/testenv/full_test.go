package testenv

import (
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

func TestLong(t *testing.T) {
	assert.Equal(t, testing.Short(), Try(t, Long).Skipped != "")
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

func TestCore(t *testing.T) {
	t.Setenv(WholeVariable, "")
	for _, n := range []int{1, 2, 3, 4, 7} {
		var list []int
		for i := range 8 * n {
			list = append(list, i)
		}
		core := Core(list, n)
		assert.Len(t, core, 8)
		assert.Zero(t, core[0])
		assert.Subset(t, list, core)
		numOdd := 0
		for _, v := range core {
			numOdd += v % 2
		}
		assert.InDelta(t, 4, numOdd, 2, "one in %d of a list that alternates", n)
		assert.Equal(t, core, Sample(t, list, n))
	}
	assert.Empty(t, Core([]int(nil), 2))
	t.Setenv(WholeVariable, "1")
	assert.Equal(t, []int{1, 2, 3}, Core([]int{1, 2, 3}, 2))
	assert.Equal(t, []int{1, 2, 3}, Sample(t, []int{1, 2, 3}, 2))
}

func TestOnlyWhole(t *testing.T) {
	t.Setenv(WholeVariable, "")
	assert.Contains(t, Try(t, OnlyWhole).Skipped, "is not in the core")
	t.Setenv(WholeVariable, "1")
	assert.Equal(t, Outcome{}, Try(t, OnlyWhole))
}
