package validate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/fakehca"
)

// TestExclusive checks that a run over an exclusive driver has one worker by default, and that more workers are an
// error.
func TestExclusive(t *testing.T) {
	t.Setenv(cardVar, filepath.Join(t.TempDir(), "card"))
	p := plan("card")
	require.True(t, p.Driver.Exclusive)
	r := run(t, p)
	assert.Equal(t, 1, r.Timing.Workers)
	assert.True(t, r.Verdict.Certified, r.Verdict.Line)

	p.Workers = 1
	assert.Equal(t, validate.ExitCertified, run(t, p).Exit())
	p.Workers = 2
	_, err := p.Run(t.Context())
	require.Error(t, err)
	assert.Equal(t, "driver fake is exclusive and cannot have 2 workers (use 1, or leave the number out): "+
		"only one process can have its device open", err.Error())
	var de *validate.DriverError
	assert.NotErrorAs(t, err, &de, "the plan is wrong, not the driver")
	p.Driver.Exclusive, p.Workers = false, 0
	assert.Equal(t, 2, p.Driver.DefaultWorkers())
}

// opensTimes returns a driver whose Open fails after n calls, with the error that words returns.
func opensTimes(n int, words func(call int) string) validate.Driver {
	d := driverWith(fakehca.Faults{})
	open, calls := d.Open, 0
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		if calls++; calls > n {
			return nil, errors.New(words(calls))
		}
		return open(ctx, o)
	}
	return d
}

// TestUnopenedStops checks that the third equal error of Open ends the run, and that the other cases have a short
// reason.
func TestUnopenedStops(t *testing.T) {
	p := plan("")
	p.Spawn = nil
	p.Driver = opensTimes(1, func(int) string { return "card is busy" })
	r := run(t, p)
	assert.Equal(t, validate.ExitHarness, r.Exit())
	assert.Equal(t, "the driver could not be opened", r.Run.Stopped)
	assert.Equal(t, "The driver could not be opened for 3 cases, with the same error, so the run was stopped:\n"+
		"driver fake: open: card is busy", r.Run.Unopened)
	assert.Equal(t, validate.Pass, find(r, "a.query").Status)
	for _, id := range []string{"a.pd", "a.cq", "b.exchange"} {
		assert.Equal(t, "driver fake: open: card is busy", find(r, id).Reason)
	}
	for _, id := range []string{"b.should", "c.srq"} {
		require.NotNil(t, find(r, id), id)
		assert.Equal(t, validate.Error, find(r, id).Status)
		assert.True(t, find(r, id).Unopened)
		assert.Equal(t, "not run: the driver could not be opened (see a.pd)", find(r, id).Reason)
	}
	assert.Equal(t, validate.Skip, find(r, "c.apm").Status, "outside the profile")
	assert.Len(t, r.Results, 7)

	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	back, err := validate.ReadReport(&b)
	require.NoError(t, err)
	assert.Equal(t, r.Run.Unopened, back.Run.Unopened)
}

// TestUnopenedInOtherWords checks that different errors are all reported, since each may help.
func TestUnopenedInOtherWords(t *testing.T) {
	p := plan("")
	p.Spawn = nil
	p.Driver = opensTimes(1, func(n int) string { return fmt.Sprintf("register %d is stuck", n) })
	r := run(t, p)
	assert.Empty(t, r.Run.Stopped)
	assert.Equal(t, validate.ExitHarness, r.Exit())
	assert.Equal(t, "driver fake: open: register 6 is stuck", find(r, "c.srq").Reason)
}

func TestCheckValues(t *testing.T) {
	some := map[string]string{"port": "UDP port", "ip": "version"}
	misspelled := `driver fake has no setting "prot"; valid settings are ip, port`
	for _, x := range []struct {
		settings, values map[string]string
		want             string
	}{
		{nil, map[string]string{"any": "1"}, ""},
		{some, map[string]string{"port": "1", "ip": "6"}, ""},
		{some, nil, ""},
		{some, map[string]string{"port": "1", "prot": "1"}, misspelled},
		{map[string]string{}, map[string]string{"port": "1"}, `driver fake has no settings, and "port" was given`},
	} {
		p := plan("")
		p.Spawn, p.Driver.Settings = nil, x.settings
		p.Setting.Values, p.Select.Cases = x.values, []string{"a.query"}
		_, err := p.Run(t.Context())
		if x.want == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, x.want)
		}
	}
}
