package mlx4

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/bustest"
	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// TestVFIO drives a device with package vfio on a stock kernel with an IOMMU: the program and VFIO are in the guest,
// the device is a model that QEMU reaches over vfio-user.
func TestVFIO(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t)
	d := bustest.New()
	probe := build(t, ctx, "ciddk/test/mlx4/probe")
	g := boot(t, ctx, guest.Config{VFIOUser: []string{serve(t, d)}, NoRXE: true, CPUs: 1, MemoryMB: 256, IOMMU: true,
		Programs: []string{probe}, Modules: []string{"vfio_iommu_type1", "vfio_pci"}})
	at := strings.TrimSpace(run(t, ctx, g, "probe", "find", "1d1d:0042"))
	resets := d.Resets.Load()
	r, err := g.Run(ctx, "probe", "vfio", at)
	require.NoError(t, err)
	log, err := g.Dmesg(ctx)
	require.NoError(t, err)
	require.Zero(t, r.Code, "%s%s; kernel: %s", r.Stdout, r.Stderr, log)
	assert.Equal(t, "identity ok\nregisters ok\nDMA ok\ninterrupts ok\nreset ok\nDMA after reset ok\n", r.Stdout)
	assert.Greater(t, d.Resets.Load(), resets, "the model was reset")
	require.NoError(t, g.Close())
}
