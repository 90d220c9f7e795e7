//go:build usb && cgo

package usb

import (
	"context"
	"errors"
	"testing"

	"github.com/google/gousb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/usb/crspace"
	"ciddk/bus/usb/u2c"
)

// TestList checks libusb on this machine, with or without an adapter.
func TestList(t *testing.T) {
	l, err := List()
	require.NoError(t, err)
	for _, i := range l {
		assert.Positive(t, i.Bus)
		assert.Positive(t, i.Address)
	}
	_, err = Open(t.Context(), Info{Bus: 255, Address: 255})
	require.ErrorIs(t, err, ErrNotFound)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(canceled, Info{Bus: 1, Address: 1})
	require.ErrorIs(t, err, context.Canceled)
}

func TestIsAdapter(t *testing.T) {
	assert.True(t, isAdapter(&gousb.DeviceDesc{Vendor: 0x0abf, Product: 0x3370}))
	assert.False(t, isAdapter(&gousb.DeviceDesc{Vendor: 0x0abf, Product: 0x3371}))
	assert.False(t, isAdapter(&gousb.DeviceDesc{Vendor: 0x0403, Product: 0x3370}))
}

func TestTranslate(t *testing.T) {
	for _, tt := range []struct{ from, want error }{
		{gousb.ErrorNoDevice, u2c.ErrUnplugged}, {gousb.TransferNoDevice, u2c.ErrUnplugged},
		{gousb.ErrorAccess, ErrAccess}, {gousb.ErrorBusy, ErrBusy}, {gousb.ErrorTimeout, u2c.ErrTimeout},
	} {
		err := translate(tt.from)
		require.ErrorIs(t, err, tt.want)
		require.ErrorIs(t, err, tt.from)
	}
	other := errors.New("other")
	assert.Equal(t, other, translate(other))
	require.NoError(t, translate(nil))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, inTime(canceled, gousb.TransferCancelled), context.Canceled)
	require.ErrorIs(t, inTime(t.Context(), gousb.TransferNoDevice), u2c.ErrUnplugged)
}

// TestAdapter reads the ID of the card behind the adapter of this machine. It writes nothing.
func TestAdapter(t *testing.T) {
	l, err := List()
	require.NoError(t, err)
	if len(l) == 0 {
		t.Skip("no MTUSB-1 (0abf:3370) on the USB")
	}
	p, err := Open(t.Context(), l[0])
	require.NoError(t, err)
	a, err := u2c.Open(t.Context(), p, u2c.Config{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, a.Close()) }()
	addrs, err := a.Scan(t.Context())
	require.NoError(t, err)
	_, id, err := crspace.Find(t.Context(), a, crspace.Config{})
	if errors.Is(err, u2c.ErrNoTarget) {
		t.Skipf("no card at the adapter; addresses that answer: %#x", addrs)
	}
	require.NoError(t, err)
	t.Logf("%v, device %#x, revision %d", id, id.Device, id.Revision)
	assert.NotZero(t, id.Device)
}
