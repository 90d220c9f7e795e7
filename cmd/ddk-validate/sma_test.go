package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cisuite"
	"ciddk/validate/suite/smasuite"
	"ciddk/validate/suite/smasuite/smamutants"
)

// TestAgents certifies the split of subnet management (SAS-2.1-13 to -20): a driver without agents of its own, drivers
// whose hardware has them, one of which passes consumed SMPs up, and a driver with neither, which is reported.
func TestAgents(t *testing.T) {
	c, err := validate.NewCatalog(cisuite.Suite(), smasuite.Suite())
	require.NoError(t, err)
	mutants, err := mutant.NewSet(c, append(mutant.All(), smamutants.All())...)
	require.NoError(t, err)
	for _, x := range []struct {
		agents, mutant string
		failed         []string
	}{
		{agents: "kit"}, {agents: "hardware"}, {agents: "passing"},
		{agents: "kit", mutant: "mad.no-agent", failed: []string{"claims.profile", "mad.agent"}},
		{agents: "hardware", mutant: "sma.agent-undeclared", failed: []string{"sma.link.alone"}},
		{agents: "passing", mutant: "sma.agent-passes", failed: []string{"sma.link.alone", "sma.link.once"}},
	} {
		d := drivers()[0]
		if x.mutant != "" {
			m, err := mutants.Get(x.mutant)
			require.NoError(t, err)
			d = m.Driver(d)
		}
		p := validate.Plan{
			Catalog: c, Driver: d, Command: []string{"test"},
			Select: validate.Selection{Cases: []string{"claims.profile", "mad.agent", "sma.link.alone",
				"sma.link.once", "sma.link.directed", "sma.set.invalid", "sma.key.get"}},
			Setting: validate.Setting{Profile: "sma", Options: validate.Options{Seed: 1, Link: "direct",
				Values: map[string]string{"agents": x.agents}}},
		}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		var failed []string
		numPassed := 0
		for i := range r.Results {
			switch r.Results[i].Status {
			case validate.Fail:
				failed = append(failed, r.Results[i].Case)
			case validate.Pass:
				numPassed++
			}
		}
		assert.ElementsMatch(t, x.failed, failed, "%+v", x)
		if x.mutant == "" {
			assert.Equal(t, 7, numPassed, "%+v", x)
		}
	}
}
