package main

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/suite"
)

// persistent returns a driver whose adapters keep their state when a target is closed and opened again, as firmware
// does.
func persistent(t *testing.T, d validate.Driver) validate.Driver {
	var kept *validate.Target
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		o.Impair = true
		if kept == nil {
			var err error
			if kept, err = open(ctx, o); err != nil {
				return nil, err
			}
		}
		again := *kept
		again.Close = nil
		return &again, nil
	}
	t.Cleanup(func() {
		if kept != nil {
			assert.NoError(t, kept.Close(context.Background()))
		}
	})
	return d
}

// TestPersistent runs the cases that change an adapter's state, and one of traffic after them, on adapters that keep
// their state.
func TestPersistent(t *testing.T) {
	testenv.Long(t)
	for _, link := range []string{"network", "direct"} {
		t.Run(link, func(t *testing.T) {
			p := validate.Plan{Catalog: validate.MustCatalog(suite.All()...), Driver: persistent(t, drivers()[0]),
				Select: validate.Selection{Cases: []string{"ca.modify.*", "callbacks.*", "claims.works.*", "events.*",
					"mad.*", "pma.*", "sma.*", "special.*", "wire.traffic.*"}},
				Setting: validate.Setting{Profile: "full",
					Options: validate.Options{Seed: 1, Run: os.Getpid(), Link: link}}}
			r, err := p.Run(t.Context())
			require.NoError(t, err)
			assert.Equal(t, validate.OutcomePassed, r.Verdict.Outcome, "%s %v", r.Verdict.Line, r.Failed())
		})
	}
}
