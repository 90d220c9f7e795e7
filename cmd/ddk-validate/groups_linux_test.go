package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

// Datagrams to IPv6 groups are heard on the link udp where the process has a network for them; where it has none, the cases that wait for
// one say why they do not, and nothing fails.
func TestGroups6(t *testing.T) {
	testenv.Addresses(t, 0, "::1")
	_, err := space6()
	heard := []string{"mcast.receivers", "mcast.detach", "mcast.busy", "mcast.twice", "mcast.groups", "mcast.qkey"}
	p := validate.Plan{Catalog: cisuite.Catalog(), Driver: drivers()[0], Select: validate.Selection{Cases: heard},
		Setting: validate.Setting{Profile: "full", Options: validate.Options{Seed: 1, Link: "udp", Run: 82, Values: map[string]string{"ip": "6"}}}}
	r, runErr := p.Run(t.Context())
	require.NoError(t, runErr)
	require.Len(t, r.Results, len(heard))
	for _, x := range r.Results {
		if err == nil {
			assert.Equal(t, validate.Pass, x.Status, "%s: %s %+v", x.Case, x.Reason, x.Failures)
			continue
		}
		assert.Equal(t, validate.Skip, x.Status, "%s: %+v", x.Case, x.Failures)
		assert.Contains(t, x.Reason, "CAP_SYS_ADMIN", x.Case)
	}
}
