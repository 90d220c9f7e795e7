package debian

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMirrorOf finds Debian's archive among the sources of a machine.
func TestMirrorOf(t *testing.T) {
	m, err := debianArchive.mirrorOf(`Debian Debian-Security main http://example.org/debian-security/
Example Debian main http://example.org/other/
Debian Debian contrib http://example.org/contrib/
Debian Debian main http://example.org/debian/
Debian Debian main http://example.net/debian/
`)
	require.NoError(t, err)
	assert.Equal(t, "http://example.org/debian/", m)
	for _, list := range []string{"", "\n", "Ubuntu Ubuntu main http://example.org/ubuntu/\n",
		"Debian Debian-Security main http://example.org/debian-security/\n"} {
		_, err = debianArchive.mirrorOf(list)
		require.ErrorContains(t, err, "no Debian archive", "%q", list)
	}
	other := Archive{Origin: "Ubuntu", Address: "http://example.net/ubuntu/"}
	for list, want := range map[string]string{"": other.Address,
		"Ubuntu Ubuntu main http://example.org/ubuntu/\n": "http://example.org/ubuntu/"} {
		m, err := other.mirrorOf(list)
		require.NoError(t, err)
		assert.Equal(t, want, m)
	}
}
