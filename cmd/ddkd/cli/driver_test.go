package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestResolve checks how the driver of an adapter is found and its settings are validated.
func TestResolve(t *testing.T) {
	drivers := []Driver{
		{Name: "one", Keys: map[string]string{"a": "", "b": ""}},
		{Name: "two", Keys: map[string]string{"c": ""}, Check: func(s Settings) error {
			if s["c"] == "" {
				return errors.New("c is required")
			}
			return nil
		}},
	}
	for _, x := range []struct {
		text, driver, err string
		settings          Settings
	}{
		{text: "a=1,b=x=y", driver: "one", settings: Settings{"a": "1", "b": "x=y"}},
		{text: "driver=two,c=3", driver: "two", settings: Settings{"c": "3"}},
		{text: "driver=two,c=", err: "c is required"},
		{text: "driver=two,a=1", err: "the driver two has c"},
		{text: "c=1", err: "the driver one has a, b"},
		{text: "driver=three", err: "this program has one, two"},
	} {
		s, err := parseAdapter(x.text)
		require.NoError(t, err, x.text)
		a, err := resolve(drivers, s)
		if x.err != "" {
			assert.ErrorContains(t, err, x.err, x.text)
			continue
		}
		require.NoError(t, err, x.text)
		assert.Equal(t, x.driver, a.driver.Name, x.text)
		assert.Equal(t, x.settings, a.settings, x.text)
	}
}

// TestNoDriver checks a program that forgot its driver.
func TestNoDriver(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, 1, Run(t.Context(), Config{Name: "x", Stderr: &errs}, []string{"serve"}))
	assert.Contains(t, errs.String(), "set Config.Drivers")
}
