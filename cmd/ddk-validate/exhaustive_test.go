package main

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

// cappedPD is a PD of a driver that has fewer QPs than it claims.
type cappedPD struct {
	ciwrap.PD
	made *atomic.Int64
}

// claimedQPs is the limit that the driver claims, and realQPs how many QPs it ever creates.
const claimedQPs, realQPs = 6000, 5000

func (p cappedPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if p.made.Add(1) > realQPs {
		return nil, ci.InsufficientResources
	}
	return p.PD.CreateQP(c)
}

// cappedCA claims claimedQPs.
type cappedCA struct{ ciwrap.CA }

func (c cappedCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.MaxQPs = claimedQPs
	}
	return a, err
}

// TestExhaustive checks that a limit that only the profile exhaustive reaches is not tested in the profile full, and
// that it is tested, in a longer time, in the profile exhaustive.
func TestExhaustive(t *testing.T) {
	d := drivers()[0]
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		target, err := open(ctx, o)
		if err == nil {
			made := new(atomic.Int64)
			target.HCAs[0] = ciwrap.Wrap(target.HCAs[0], ciwrap.Layer{
				CA: func(c ci.CA) ci.CA { return cappedCA{ciwrap.CA{CA: c}} },
				PD: func(p ci.PD, _ ci.PDType) ci.PD { return cappedPD{ciwrap.PD{PD: p}, made} },
			})
		}
		return target, err
	}
	for profile, want := range map[string]validate.Status{"full": validate.Pass, "exhaustive": validate.Fail} {
		s := validate.Setting{Profile: profile, Scale: 6, Options: validate.Options{Seed: 1, Link: "network"}}
		p := validate.Plan{Catalog: cisuite.Catalog(), Driver: d, Setting: s,
			Select: validate.Selection{Cases: []string{"limits.qp"}}}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		require.Len(t, r.Results, 1)
		assert.Equal(t, want, r.Results[0].Status, "profile %s: %+v", profile, r.Results[0].Failures)
		c, ok := cisuite.Catalog().Case("limits.qp")
		require.True(t, ok)
		assert.Equal(t, profile == "exhaustive", s.CaseTimeout(c) > 6*validate.DefaultTimeout, profile)
	}
}
