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

// TestFunction checks that a stock kernel finds a function that QEMU reaches over vfio-user, and that its registers are
// the model's.
func TestFunction(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t)
	d := bustest.New()
	probe := build(t, ctx, "ciddk/test/mlx4/probe")
	g := boot(t, ctx, guest.Config{VFIOUser: []string{serve(t, d)}, NoRXE: true, CPUs: 1, MemoryMB: 256,
		Programs: []string{probe}})
	at := strings.TrimSpace(run(t, ctx, g, "probe", "find", "1d1d:0042"))
	require.Regexp(t, `^0000:[0-9a-f]{2}:00\.0$`, at, "one function, behind the root port")

	config := run(t, ctx, g, "probe", "config", at)
	assert.Equal(t, "1d1d4200", strings.ReplaceAll(config[:8], " ", ""), "vendor and device, little endian")

	run(t, ctx, g, "probe", "write", at, "0", "0x40", "0x11223344")
	assert.Equal(t, "0x11223344\n", run(t, ctx, g, "probe", "read", at, "0", "0x40"))
	assert.EqualValues(t, 0x11223344, d.ReadBAR(0, bustest.RegScratch, 4), "the model has the value")
	run(t, ctx, g, "probe", "write", at, "2", "0xfffc", "7")
	assert.EqualValues(t, 7, d.ReadBAR(2, 0xfffc, 4))

	r, err := g.Run(ctx, "probe", "read", at, "0", "0x1000")
	require.NoError(t, err)
	require.NotZero(t, r.Code, "beyond the end")
	require.NoError(t, g.Close())
}
