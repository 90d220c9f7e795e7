package mlx4

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/testenv"
	"ciddk/rvt"
	"ciddk/wire"
)

// What is in this file proves that the checks of the tests can fail.

// TestComplaints checks that the lines that the kernel writes about a faulty card are found, and others are not.
func TestComplaints(t *testing.T) {
	bad := []string{
		"<3>[    9.1] mlx4_core 0000:00:05.0: command 0x23 failed: fw status = 0x2",
		"<4>[    9.1] mlx4_core 0000:00:05.0: command 0x31 timed out (go bit not cleared)",
		"<3>[    9.1] mlx4_core 0000:00:05.0: NOP command failed to generate MSI-X interrupt IRQ 28)",
		"<3>[    9.1] mlx4_core 0000:00:05.0: Internal error detected:",
		"<3>[    9.1] mlx4_core 0000:00:05.0: device is going to be reset due to a timeout",
		"<4>[    9.1] mlx4_core: probe of 0000:00:05.0 failed with error -5",
		"<3>[    9.1] <mlx4_ib> mlx4_ib_create_qp: Failed to create GSI QP for RoCEv2 (-22)",
		"<4>[    9.1] mlx4_en 0000:00:05.0: Unable to allocate a ring",
		"<1>[    9.1] BUG: kernel NULL pointer dereference, address: 0000000000000000",
		"<4>[    9.1] Oops: 0000 [#1] PREEMPT SMP",
		"<4>[    9.1] WARNING: CPU: 0 PID: 1 at drivers/infiniband/core/cq.c:1 ib_free_cq",
		"<4>[    9.1] Call Trace:",
	}
	good := []string{
		"<5>[    0.0] calibrate_delay_direct() failed to get a good estimate for loops_per_jiffy.",
		"<6>[    9.0] mlx4_core: Mellanox ConnectX core driver v4.0-0",
		"<7>[    9.0] mlx4_core 0000:00:05.0: Catastrophic error buffer at 0x1f020, size 0x10, BAR 0",
		"<7>[    9.0] mlx4_core 0000:00:05.0: NOP command IRQ test passed",
		"<6>[    9.0] mlx4_core 0000:00:05.0: 63.008 Gb/s available PCIe bandwidth",
		"<6>[    9.0] <mlx4_ib> mlx4_ib_add: mlx4_ib: Mellanox ConnectX InfiniBand driver v4.0-0",
	}
	for _, line := range bad {
		assert.Equal(t, []string{line}, complaints(strings.Join(good, "\n")+"\n"+line+"\n"))
	}
	log := strings.Join(good, "\n")
	assert.Empty(t, probeFaults(log, 1))
	assert.NotEmpty(t, probeFaults(log, 2), "one interrupt for two probes")
	assert.NotEmpty(t, probeFaults(good[0], 1), "no interrupt")
}

// TestLostInterrupt loads the driver on a model that raises none of the interrupts of its commands. The check of the
// driver's probe has to fail.
func TestLostInterrupt(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	m := newModel(t, model.Config{}, directLinks(t)[0])
	const all = 1 << 20
	m.LoseInterrupts(0, all)
	g := boot(t, ctx, guestConfig(serve(t, m)))
	loaded := make(chan error, 1)
	go func() { loaded <- g.Load(ctx, "mlx4_core", "debug_level=1") }()
	var log string
	// The driver waits a minute for the interrupt.
	require.Eventually(t, func() bool {
		var err error
		log, err = g.Dmesg(ctx)
		return err == nil && strings.Contains(log, "NOP command failed to generate")
	}, time.Minute+patience, poll)
	faults := strings.Join(probeFaults(log, 1), "\n")
	require.Contains(t, faults, "command 0x31 timed out")
	require.Contains(t, faults, "0 interrupts of NOP for 1 probes")
	require.NoError(t, g.Close())
	require.Error(t, <-loaded, "the guest ended while the driver waited")
}

// corruptPort replaces the first byte of all messages that it sends, once on is set.
type corruptPort struct {
	port
	on atomic.Bool
}

type port = rvt.Port

// Unwrap returns the inner port, for ci.As.
func (c *corruptPort) Unwrap() any { return c.port }

// Send sends the packets with wrong payload. The payload of a send queue is the guest's, so it is copied.
func (c *corruptPort) Send(pkts []rvt.Packet) {
	for i := range pkts {
		if p := &pkts[i]; c.on.Load() && p.Op == wire.OpSend && p.Start && p.Len > 0 {
			b := slices.Concat(p.Payload...)
			b[0] = 0xa5
			p.Payload = [][]byte{b}
		}
	}
	c.port.Send(pkts)
}

// requireWrongData runs a ping-pong program while the client's port changes its data. The check of the server's output
// has to fail.
func (p *pair) requireWrongData(t *testing.T, ctx context.Context, client *corruptPort) {
	t.Helper()
	client.on.Store(true)
	defer client.on.Store(false)
	server, _ := p.exchange(t, ctx, "rc", 5000, 100)
	require.Error(t, checkPingPong(server, 100))
	require.Contains(t, server, "100 iters in", "every iteration ran")
}
