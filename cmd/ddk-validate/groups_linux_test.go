package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

// TestGroups6 checks that datagrams to IPv6 groups arrive on the link udp if the process can create a network namespace
// for them. Otherwise the cases that wait for one are skipped with a reason.
func TestGroups6(t *testing.T) {
	testenv.Addresses(t, 0, "::1")
	_, err := space6()
	cases := []string{"mcast.receivers", "mcast.detach", "mcast.busy", "mcast.twice", "mcast.groups", "mcast.qkey"}
	o := validate.Options{Seed: 1, Link: "udp", Run: os.Getpid(), Values: map[string]string{"ip": "6"}}
	p := validate.Plan{
		Catalog: cisuite.Catalog(), Driver: drivers()[0], Select: validate.Selection{Cases: cases},
		Setting: validate.Setting{Profile: "full", Options: o},
	}
	r, runErr := p.Run(t.Context())
	require.NoError(t, runErr)
	require.Len(t, r.Results, len(cases))
	for _, x := range r.Results {
		if err == nil {
			assert.Equal(t, validate.Pass, x.Status, "%s: %s %+v", x.Case, x.Reason, x.Failures)
			continue
		}
		assert.Equal(t, validate.Skip, x.Status, "%s: %+v", x.Case, x.Failures)
		assert.Contains(t, x.Reason, "CAP_SYS_ADMIN", x.Case)
	}
}
