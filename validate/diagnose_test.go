package validate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
)

// TestCounters checks that a failure is reported with what the driver has counted since the start of the case, and that
// a panic of the driver's function is no failure of its own.
func TestCounters(t *testing.T) {
	lost, burns := uint64(7), false
	d := validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		return &validate.Target{HCAs: []ci.HCA{fakehca.New(0x1234, ci.LinkEthernet, fakehca.Faults{})},
			Counters: func() []map[string]uint64 {
				if burns {
					panic("on fire")
				}
				return []map[string]uint64{{"lost": lost, "late": 3}}
			}}, nil
	}}
	one := func(id string, run func(*validate.T)) validate.Case {
		return validate.Case{ID: "a." + id, Title: id, Requirements: []string{"SAS-2.1-27"},
			Feature: validate.FeatureCore, Run: run}
	}
	p := &validate.Plan{Command: []string{"test"}, Driver: d, Setting: setting(),
		Catalog: validate.MustCatalog(validate.Suite{Cases: []validate.Case{
			one("counted", func(t *validate.T) { lost += 5; t.Failf("x", "a", "b") }),
			one("still", func(t *validate.T) { t.Failf("x", "a", "b") }),
			one("panic", func(t *validate.T) { burns = true; t.Failf("x", "a", "b") }),
			one("fine", func(*validate.T) { lost++ }),
		}})}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"HCA 1: counted: lost 5"}, find(r, "a.counted").State)
	assert.Empty(t, find(r, "a.still").State)
	assert.Equal(t, []string{"panic: on fire"}, find(r, "a.panic").State)
	assert.Equal(t, validate.Pass, find(r, "a.fine").Status)
}
