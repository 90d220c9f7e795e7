package qemu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMirrorOf(t *testing.T) {
	m, err := mirrorOf(`Debian Debian-Security main http://example.org/debian-security/
Example Debian main http://example.org/other/
Debian Debian contrib http://example.org/contrib/
Debian Debian main http://example.org/debian/
Debian Debian main http://example.net/debian/
`)
	require.NoError(t, err)
	assert.Equal(t, "http://example.org/debian/", m)
	for _, list := range []string{"", "\n", "Ubuntu Ubuntu main http://example.org/ubuntu/\n",
		"Debian Debian-Security main http://example.org/debian-security/\n"} {
		_, err = mirrorOf(list)
		require.ErrorContains(t, err, "no Debian archive", "%q", list)
	}
}

// TestCheck checks that programs without the device are rejected.
func TestCheck(t *testing.T) {
	p := &Program{path: filepath.Join(t.TempDir(), "none")}
	require.ErrorIs(t, p.check(t.Context()), os.ErrNotExist)
	p = &Program{path: "false"}
	require.ErrorContains(t, p.check(t.Context()), "has no device vfio-user-pci")
	p = &Program{path: "echo"}
	require.ErrorContains(t, p.check(t.Context()), "unknown device", "a program that reports success")
	p = &Program{path: "echo", args: []string{"QEMU emulator version 1\nsocket="}}
	require.NoError(t, p.check(t.Context()))
	assert.Contains(t, p.Version, "QEMU emulator version 1")
}
