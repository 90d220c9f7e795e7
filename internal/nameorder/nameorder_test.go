package nameorder

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCompare(t *testing.T) {
	for _, sorted := range [][]string{
		{"5.10.0-30", "6.1.0-9", "6.1.0-56", "6.1.0-56-rt", "6.1.007", "6.12"},
		{"", "0", "1", "9", "10", "99999999999999999999998", "99999999999999999999999", "a", "a0", "a1b",
			"a1c", "a2", "aa"},
	} {
		for i, a := range sorted {
			for j, b := range sorted {
				c := Compare(a, b)
				assert.Equal(t, i < j, c < 0, "%q, %q", a, b)
				assert.Equal(t, i == j, c == 0, "%q, %q", a, b)
			}
		}
	}
	assert.Zero(t, Compare("a007", "a7"))
}

// Compare is antisymmetric and transitive.
func TestOrder(t *testing.T) {
	sign := func(n int) int { return min(1, max(-1, n)) }
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[0-3ab-]{0,6}`)
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		assert.Equal(t, sign(Compare(a, b)), -sign(Compare(b, a)))
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 {
			assert.LessOrEqual(t, Compare(a, c), 0)
		}
	})
}
