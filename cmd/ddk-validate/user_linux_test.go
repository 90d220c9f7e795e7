package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/suite/usersuite"
)

// TestUserProfile certifies a driver in the profile user that does not claim CapUser, such as one made from a template:
// only the cases about a driver's own half of user mode are skipped.
func TestUserProfile(t *testing.T) {
	d := drivers()[0]
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		target, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		target.UserLibrary = nil
		for i, h := range target.HCAs {
			target.HCAs[i] = ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return plainCA{ciwrap.CA{CA: c}} }})
		}
		return target, nil
	}
	p := validate.Plan{
		Catalog: validate.MustCatalog(usersuite.Suite()), Driver: d, Command: []string{"test"},
		Setting: validate.Setting{Profile: "user", Options: validate.Options{Seed: 1, Link: "network"}},
	}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	assert.True(t, r.Verdict.Certified, r.Verdict.Line)
	for _, x := range r.Results {
		if x.Status == validate.Skip {
			assert.Equal(t, "not claimed: User", x.Reason, x.Case)
			assert.True(t, strings.HasPrefix(x.Case, "user.library.") || x.Case == "user.exit.context", x.Case)
		}
	}
}

// plainCA is a CA without contexts of processes.
type plainCA struct{ ciwrap.CA }

func (c plainCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps &^= ci.CapUser
	}
	return a, err
}

func (plainCA) OpenUser(ci.Process, *ci.UserBuffer) (ci.UserCA, error) {
	return nil, &ci.Error{Verb: "CA.OpenUser", Status: ci.Unsupported}
}
