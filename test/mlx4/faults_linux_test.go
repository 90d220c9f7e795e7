package mlx4

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// requireLoopback runs a ping-pong between two programs of a guest, with events and checked data.
func requireLoopback(t *testing.T, ctx context.Context, g *guest.Guest) {
	t.Helper()
	args := []string{"ibv_rc_pingpong", "-d", device, "-c", "-e", "-s", "5000", "-n", "100"}
	s, err := g.Start(ctx, args...)
	require.NoError(t, err)
	require.NoError(t, g.WaitListen(ctx, pingPongPort))
	require.NoError(t, checkPingPong(run(t, ctx, g, append(args, "127.0.0.1")...), 100))
	r, err := s.Wait()
	require.NoError(t, err)
	require.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
	require.NoError(t, checkPingPong(r.Stdout, 100))
}

// TestFaults injects faults under the stock driver: it follows the cable, reports a command that fails, and resets the
// card after a catastrophic error. Afterwards the card works.
func TestFaults(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	m := newModel(t, model.Config{}, directLinks(t)[0])
	g := boot(t, ctx, guestConfig(serve(t, m)))
	load(t, ctx, g, "mlx4_ib")
	awaitActive(t, ctx, g, 1)

	require.NoError(t, m.SetLink(1, false))
	awaitState(t, ctx, g, 1, "DOWN")
	require.NoError(t, m.SetLink(1, true))
	awaitActive(t, ctx, g, 1)
	requireLoopback(t, ctx, g)
	requireQuiet(t, ctx, g)

	m.FailCommand(prm.CmdSW2HWMPT, prm.BadResource, 1)
	r, err := g.Run(ctx, "ibv_rc_pingpong", "-d", device)
	require.NoError(t, err)
	require.NotZero(t, r.Code)
	require.Contains(t, r.Stderr, "register MR")
	log, err := g.Dmesg(ctx)
	require.NoError(t, err)
	failed := complaints(log)
	require.Len(t, failed, 2)
	require.Contains(t, failed[0], "command 0xd failed: fw status = 0x5")
	require.Contains(t, failed[1], "SW2HW_MPT failed")
	requireLoopback(t, ctx, g)

	m.FailDevice()
	require.Eventually(t, func() bool {
		log, err = g.Dmesg(ctx)
		return err == nil && strings.Count(log, "NOP command IRQ test passed") == 2
	}, patience, poll, "the driver starts the card again")
	assert.Contains(t, log, "Internal error detected")
	assert.Contains(t, log, "device was reset successfully")
	awaitActive(t, ctx, g, 1)
	requireLoopback(t, ctx, g)
	require.NoError(t, g.Unload(ctx, "mlx4_ib", "mlx4_core"))
	require.NoError(t, g.Close())
}
