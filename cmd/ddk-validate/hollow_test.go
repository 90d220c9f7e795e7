package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cisuite"
)

// TestHollowClaims checks that a driver that claims what it does not have is not certified in any profile with the
// feature claims, although it never returns Unsupported.
func TestHollowClaims(t *testing.T) {
	testenv.Long(t)
	if testenv.Race {
		// A READ that is answered twice writes to memory that its consumer is using again.
		t.Skip("cases run in this process, and the driver has a data race on purpose")
	}
	for _, x := range []struct {
		claims  ci.Caps
		unknown bool // the target names no vendor command
		line    string
	}{
		{
			ci.CapRD | ci.CapRawIPv6 | ci.CapRawEther | ci.CapRawMulticast | ci.CapLSO | ci.CapIPChecksum |
				ci.CapModifyWRDepth | ci.CapUser | ci.CapVendorCall | ci.CapSLForIP, true,
			"claimed and not tested: RD RawIPv6 RawEther RawMulticast VendorCall",
		},
		{ci.CapVendorCall, false, "NOT CERTIFIED: 2 failed, "}, // claims.works.vendor-call, stale.ca.vendor-call
		{ci.CapVendorCall, true, "NOT TESTED: claimed and not tested: VendorCall, "},
		{0, false, "CERTIFIED: "},
	} {
		d := drivers()[0]
		if open := d.Open; x.unknown {
			d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
				target, err := open(ctx, o)
				if err == nil {
					target.VendorCall = nil
				}
				return target, err
			}
		}
		if x.claims != 0 {
			d = mutant.Mutant{Name: "claims.x", Wrap: mutant.HollowClaims(x.claims)}.Driver(d)
		}
		p := validate.Plan{
			Catalog: cisuite.Catalog(), Driver: d, Command: []string{"test"},
			Setting: validate.Setting{Profile: "minimal", Options: validate.Options{Seed: 1, Link: "network"}},
		}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		assert.Equal(t, x.claims == 0, r.Verdict.Certified)
		assert.Contains(t, r.Verdict.Line, x.line)
	}
}
