//go:build !usb || !cgo

package usb

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNotBuilt checks that the default build reports what to do.
func TestNotBuilt(t *testing.T) {
	_, err := List()
	require.ErrorIs(t, err, ErrNotBuilt)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "go build -tags usb")
	_, err = Open(t.Context(), Info{Bus: 1, Address: 5})
	require.ErrorIs(t, err, ErrNotBuilt)
}
