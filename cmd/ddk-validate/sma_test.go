package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cisuite"
	"ciddk/validate/suite/smasuite"
	"ciddk/validate/suite/smasuite/smamutants"
)

// TestAgents certifies the split of subnet management (SAS-2.1-13 to -20): a driver without agents of its own, drivers
// whose hardware has them, one of which passes consumed SMPs up, and a driver with neither, which is reported.
func TestAgents(t *testing.T) {
	testenv.Long(t)
	c, err := validate.NewCatalog(cisuite.Suite(), smasuite.Suite())
	require.NoError(t, err)
	mutants, err := mutant.NewSet(c, append(mutant.All(), smamutants.All())...)
	require.NoError(t, err)
	// Without the kit's agent nothing can be said of it, and requests take long or need the cable.
	absent := []string{"sma.component.disable", "sma.component.down", "sma.key.most", "sma.trap.early"}
	for _, cs := range c.Cases() {
		if strings.HasPrefix(cs.ID, "sma.kit.") || strings.HasPrefix(cs.ID, "sma.manager.") ||
			strings.HasPrefix(cs.ID, "sma.driver.") {
			absent = append(absent, cs.ID)
		}
	}
	require.Greater(t, len(absent), 1)
	for _, x := range []struct {
		agents, mutant  string
		failed, skipped []string
	}{
		{agents: "kit"},
		{agents: "hardware", skipped: absent},
		{agents: "passing", skipped: absent},
		{agents: "kit", mutant: "mad.no-agent", failed: []string{"claims.profile", "mad.agent"}},
		{agents: "hardware", mutant: "sma.agent-undeclared", failed: []string{"sma.link.alone"}},
		{agents: "passing", mutant: "sma.agent-passes", failed: []string{"sma.link.alone", "sma.link.once"}},
	} {
		d, cases := drivers()[0], []string{"claims.profile", "mad.agent", "sma.*"}
		if x.mutant != "" {
			cases = []string{"claims.profile", "mad.agent", "sma.link.alone", "sma.link.once"}
			m, err := mutants.Get(x.mutant)
			require.NoError(t, err)
			d = m.Driver(d)
		}
		p := validate.Plan{
			Catalog: c, Driver: d, Command: []string{"test"},
			Select: validate.Selection{Cases: cases},
			Setting: validate.Setting{Profile: "sma", Options: validate.Options{Seed: 1, Link: "direct",
				Values: map[string]string{"agents": x.agents}}},
		}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		var failed, skipped []string
		for i := range r.Results {
			switch r.Results[i].Status {
			case validate.Pass:
			case validate.Skip:
				skipped = append(skipped, r.Results[i].Case)
			default:
				failed = append(failed, r.Results[i].Case)
			}
		}
		assert.ElementsMatch(t, x.failed, failed, "%+v", x)
		if x.mutant == "" {
			assert.ElementsMatch(t, x.skipped, skipped, "%+v", x)
		}
	}
}
