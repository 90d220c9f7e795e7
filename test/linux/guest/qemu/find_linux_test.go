package qemu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
