package cli

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShareFlag parses --share-memory, with and without the environment variable of an outer ddkrun.
func TestShareFlag(t *testing.T) {
	for _, x := range []struct {
		env  string
		args []string
		want string
	}{
		{"", nil, shareAuto},
		{"", []string{"--share-memory"}, shareAlways},
		{"", []string{"--share-memory", "never"}, shareAlways}, // never is the program
		{"", []string{"--share-memory=never"}, shareNever},
		{"", []string{"--share-memory=auto"}, shareAuto},
		{"", []string{"-share-memory=always"}, shareAlways},
		{"never", nil, shareNever},
		{"never", []string{"--share-memory=auto"}, shareAuto},
	} {
		t.Setenv(envShare, x.env)
		s, err := newShareFlag()
		require.NoError(t, err)
		f := flag.NewFlagSet("", flag.ContinueOnError)
		f.Var(s, "share-memory", "")
		require.NoError(t, f.Parse(x.args), "%+v", x)
		assert.Equal(t, x.want, s.choice, "%+v", x)
	}
	for _, bad := range []string{"1", "false", "Auto"} {
		t.Setenv(envShare, bad)
		_, err := newShareFlag()
		require.ErrorContains(t, err, "want one of auto, always, never")
		f := flag.NewFlagSet("", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		f.Var(&shareFlag{}, "share-memory", "")
		require.ErrorContains(t, f.Parse([]string{"--share-memory=" + bad}), "want one of auto, always, never")
	}
}
