package validate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
)

// TestPartialImpairment checks a target that supports some kinds of impairment only. Cases that need others are skipped
// with the reason. Any other error is one of the certifier.
func TestPartialImpairment(t *testing.T) {
	d := validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		h := fakehca.New(0x1234, ci.LinkEthernet, fakehca.Faults{})
		bad := false
		return &validate.Target{HCAs: []ci.HCA{h}, Impair: func(i validate.Impairment) error {
			switch {
			case i.Corrupt > 0:
				return fmt.Errorf("no bit can be flipped here: %w", errors.ErrUnsupported)
			case i.Reorder > 0:
				return &ci.Error{Verb: "Impair", Status: ci.Unsupported}
			case i.Cut:
				return errors.New("the relay is on fire")
			case bad && i.Drop > 0:
				return errors.New("not restored")
			}
			bad = i.Drop > 0
			return nil
		}}, nil
	}}
	one := func(id string, i validate.Impairment) validate.Case {
		return validate.Case{
			ID: "a." + id, Title: id, Requirements: []string{"SAS-2.1-27"}, Feature: validate.FeatureCore,
			Needs: validate.Needs{Impair: true}, Run: func(t *validate.T) { t.Impair(i) },
		}
	}
	cases := []validate.Case{
		one("drop", validate.Impairment{Drop: 0.5}), one("corrupt", validate.Impairment{Drop: 0.1, Corrupt: 0.5}),
		one("reorder", validate.Impairment{Reorder: 0.5}), one("cut", validate.Impairment{Cut: true}),
	}
	p := &validate.Plan{
		Command: []string{"test"}, Driver: d, Setting: setting(),
		Catalog: validate.MustCatalog(validate.Suite{Cases: cases}),
	}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]validate.Status{
		"a.drop": validate.Pass, "a.corrupt": validate.Skip, "a.reorder": validate.Skip, "a.cut": validate.Error,
	}, statuses(r))
	assert.Equal(t, "the target cannot impair its link by drop, corrupt: no bit can be flipped here: "+
		"unsupported operation", find(r, "a.corrupt").Reason)
}
