package testenv

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLinux(t *testing.T) {
	missing := errors.New("no Linux guest: needs root")
	linux := func(err error) Outcome { return Try(t, func(t testing.TB) { Linux(t, err) }) }
	if testing.Short() {
		assert.Equal(t, Outcome{Skipped: "boots a virtual machine; run without -short"}, linux(nil))
		return
	}
	t.Setenv(requireLinux, "")
	t.Setenv("CI", "")
	t.Setenv(FullVariable, "")
	assert.Contains(t, linux(nil).Skipped, "boots a virtual machine; runs in CI")
	t.Setenv(FullVariable, "1")
	assert.Equal(t, Outcome{}, linux(nil))
	assert.Equal(t, Outcome{Skipped: "no Linux guest: needs root"}, linux(missing))
	t.Setenv(requireLinux, "1")
	assert.Equal(t, Outcome{}, linux(nil))
	assert.Equal(t, Outcome{Errors: []string{"no Linux guest: needs root (CIDDK_REQUIRE_LINUX is set)"}},
		linux(missing))
}
