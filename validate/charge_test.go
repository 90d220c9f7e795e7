package validate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/fakehca"
)

// TestCharge checks which requirement a failure is charged to, and that a case cannot charge one that it only touches.
func TestCharge(t *testing.T) {
	for name, x := range map[string]struct {
		run    func(*validate.T)
		rules  []string
		status validate.Status
	}{
		"outside": {func(t *validate.T) { t.Failf("x", "y", "z") }, []string{"SAS-2.1-26"}, validate.Fail},
		"inside": {func(t *validate.T) {
			t.Charge("SAS-2.1-27", func() { t.Failf("x", "y", "z") })
		}, []string{"SAS-2.1-27"}, validate.Fail},
		"after": {func(t *validate.T) {
			t.Charge("SAS-2.1-27", func() {})
			t.Report(validate.Failure{Got: "1"})
			t.Charge("SAS-2.1-27", func() {
				t.Charge("SAS-2.1-26", func() { t.Report(validate.Failure{Got: "2"}) })
				t.Report(validate.Failure{Got: "3"})
				t.Report(validate.Failure{Got: "4", Rule: "SAS-2.1-26"})
			})
		}, []string{"SAS-2.1-26", "SAS-2.1-26", "SAS-2.1-27", "SAS-2.1-26"}, validate.Fail},
		"cleanup": {func(t *validate.T) {
			t.Cleanup(func() { t.Report(validate.Failure{Got: "1"}) })
			t.Charge("SAS-2.1-27", func() { t.Skip("no reason") })
		}, []string{"SAS-2.1-26"}, validate.Fail},
		"touched": {func(t *validate.T) {
			t.Charge("SAS-2.1-22", func() { t.Failf("x", "y", "z") })
		}, []string{"SAS-2.1-22"}, validate.Error},
	} {
		t.Run(name, func(t *testing.T) {
			c := validate.NewCase("a.b", "x", validate.FeatureCore, x.run, "SAS-2.1-26", "SAS-2.1-22").
				Checking("SAS-2.1-27")
			p := validate.Plan{
				Catalog: validate.MustCatalog(validate.Suite{Cases: []validate.Case{c}}),
				Driver:  driverWith(fakehca.Faults{}), OneAttempt: true,
				Setting: validate.Setting{Profile: "minimal", Scale: 0.1},
			}
			r := run(t, &p)
			require.Len(t, r.Results, 1)
			assert.Equal(t, x.status, r.Results[0].Status)
			var rules []string
			for _, f := range r.Results[0].Failures {
				rules = append(rules, f.Rule)
			}
			assert.Equal(t, x.rules, rules)
		})
	}
}

// TestChecksAreRequirements checks that a case checks only requirements that it names.
func TestChecksAreRequirements(t *testing.T) {
	c := validate.NewCase("a.b", "x", validate.FeatureCore, func(*validate.T) {}, "SAS-2.1-26")
	c.Checks = []string{"SAS-2.1-27"}
	_, err := validate.NewCatalog(validate.Suite{Cases: []validate.Case{c}})
	assert.ErrorContains(t, err, "case a.b checks SAS-2.1-27, which is not among the requirements that it touches")
}
