package kit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/kit"
)

// stepsOf returns the steps that a loop over the list sets, and the step after it.
func stepsOf[E any](t *testing.T, label string, list []E) (steps []string) {
	t.Helper()
	r := runCase(t, fakehca.Faults{}, ci.LinkEthernet, func(t *validate.T) {
		for range kit.Variants(t, label, list) {
			steps = append(steps, t.CurrentStep())
		}
		steps = append(steps, t.CurrentStep())
	})
	require.Equal(t, validate.Pass, r.Status)
	return steps
}

func TestVariantNames(t *testing.T) {
	assert.Equal(t, []string{"PSN 1000", "PSN -1001", ""}, stepsOf(t, "PSN", []int{1000, -1001}))
	assert.Equal(t, []string{"a", "b%d", ""}, stepsOf(t, "", []string{"a", "b%d"}))
	assert.Equal(t, []string{"no page", "a page too many", ""}, stepsOf(t, "", []struct {
		f    func()
		what string
	}{{nil, "no page"}, {nil, "a page too many"}}))
	assert.Equal(t, []string{"{at:4 bits:63}", ""}, stepsOf(t, "", []struct{ at, bits byte }{{4, 0x3f}}))
	assert.Equal(
		t, []string{"1 of the variants", "2 of the variants", ""}, stepsOf(t, "", []struct{ f func() }{{}, {}}),
	)
	assert.Equal(t, []string{"state RTS", ""}, stepsOf(t, "state", []ci.QPState{ci.QPRTS}))
	assert.Equal(t, []string{"from nil", ""}, stepsOf(t, "from", []any{nil}))
	assert.Equal(t, []string{"bytes 0102", ""}, stepsOf(t, "bytes", [][]byte{{1, 2}}))
	assert.Equal(t, []string{""}, stepsOf(t, "x", []int(nil)))
}

// TestVariantsOfAFailure checks that a failure has the step of its variants, and that one after the loop has none.
func TestVariantsOfAFailure(t *testing.T) {
	nested := func(after bool) func(*validate.T) {
		return func(t *validate.T) {
			for _, a := range kit.Variants(t, "size", []int{1, 2}) {
				for _, b := range kit.Variants(t, "", []string{"read", "write"}) {
					if a == 2 && b == "write" {
						break
					}
				}
				if a == 2 && !after {
					kit.Equal(t, "x", 1, 2)
				}
			}
			t.Failf("y", "1", "2")
		}
	}
	step := func(body func(*validate.T)) string {
		return runCase(t, fakehca.Faults{}, ci.LinkEthernet, body).Failures[0].Step
	}
	assert.Equal(t, "size 2", step(nested(false)))
	assert.Empty(t, step(nested(true)))
	inner := func(t *validate.T) {
		for range kit.Variants(t, "size", []int{1, 2}) {
			for i := range kit.Variants(t, "", []string{"read", "write"}) {
				if i == 1 {
					panic("boo")
				}
			}
		}
	}
	assert.Equal(t, "size 1, write", step(inner), "the step of a panic")
}
