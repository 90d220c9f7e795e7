package mlx4

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
)

// verbsPrograms are what the guests with a model run besides the programs of every guest.
var verbsPrograms = []string{"busybox", "ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw", "ib_send_lat",
	"ib_write_lat", "ib_read_lat", "ib_atomic_lat"}

// netPrograms are what the guests with a model run if this machine has it.
var netPrograms = []string{"ethtool"}

// newModel returns a model with InfiniBand ports, and logs its commands if the test fails.
func newModel(t *testing.T, c model.Config, links ...rvt.Port) *model.Model {
	t.Helper()
	for _, l := range links {
		c.Ports = append(c.Ports, model.PortConfig{Link: l})
	}
	log := new(commandLog)
	c.Trace = log.add
	m, err := model.New(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, m.Close())
		if t.Failed() {
			t.Logf("commands:\n%s", log)
		}
	})
	return m
}

// guestConfig returns the configuration of a guest with devices and the driver of the card.
func guestConfig(sockets ...string) guest.Config {
	return guest.Config{VFIOUser: sockets, NoRXE: true, MemoryMB: 384, Providers: []string{"mlx4"},
		Modules: []string{"ib_uverbs", "ib_umad", "rdma_ucm"}, Loadable: []string{"mlx4_core", "mlx4_ib",
			"mlx4_en", "ib_ipoib", "8021q"},
		Programs: slices.Concat(verbsPrograms, installed(subnetPrograms), installed(netPrograms))}
}

// installed returns the programs that this machine has.
func installed(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool {
		_, err := exec.LookPath(p)
		return err != nil
	})
}

// load loads the driver, with the messages that it has for its developers, and further modules of it.
func load(t *testing.T, ctx context.Context, g *guest.Guest, modules ...string) {
	t.Helper()
	require.NoError(t, g.Load(ctx, "mlx4_core", "debug_level=1"))
	for _, m := range modules {
		require.NoError(t, g.Load(ctx, m))
	}
}

// badLines are what the kernel writes when the driver is not content with the card, or fails itself.
var badLines = regexp.MustCompile(`(?i)command 0x[0-9a-f]+ (failed|timed out)|\bOops\b|BUG:|WARNING:|Call Trace|` +
	`mlx4.*(fail|error|unable|timeout)`)

// complaints returns the lines of a kernel's log that report that the driver failed. Messages for developers (level 7)
// name errors that might come.
func complaints(log string) []string {
	var list []string
	for line := range strings.Lines(mlx4Lines(log)) {
		if !strings.HasPrefix(line, "<7>") && badLines.MatchString(line) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// probeFaults returns what is wrong in a kernel's log after the driver has found a card count times.
func probeFaults(log string, count int) []string {
	list := complaints(log)
	if n := strings.Count(log, "NOP command IRQ test passed"); n != count {
		list = append(list, fmt.Sprintf("%d interrupts of NOP for %d probes", n, count))
	}
	return list
}

// requireQuiet requires that the kernel has not complained about the card.
func requireQuiet(t *testing.T, ctx context.Context, g *guest.Guest) string {
	t.Helper()
	log, err := g.Dmesg(ctx)
	require.NoError(t, err)
	assert.Empty(t, complaints(log), "kernel log:\n%s", mlx4Lines(log))
	return mlx4Lines(log)
}

// mlx4Lines returns the lines of a log from the driver's first one on.
func mlx4Lines(log string) string {
	if i := strings.Index(log, "mlx4_core"); i >= 0 {
		return log[i:]
	}
	return log
}

// portFile returns the path of a port's attribute in sysfs.
func portFile(port int, name string) string {
	return fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/%s", device, port, name)
}

// awaitActive waits until a port of the guest is active.
func awaitActive(t *testing.T, ctx context.Context, g *guest.Guest, port int) {
	t.Helper()
	awaitState(t, ctx, g, port, "ACTIVE")
}

// awaitState waits until a port of the guest has a state.
func awaitState(t *testing.T, ctx context.Context, g *guest.Guest, port int, want string) {
	t.Helper()
	file := portFile(port, "state")
	require.Eventually(t, func() bool {
		r, err := g.Run(ctx, "agent", "cat", file)
		return err == nil && strings.Contains(r.Stdout, want)
	}, patience, poll, "port %d: %s", port, want)
}

// TestProbe loads the stock driver on a model, and unloads and loads it again.
func TestProbe(t *testing.T) {
	ctx := needGuests(t, "mlx4")
	link := direct.NewLink()
	port, err := direct.New(link, direct.Config{})
	require.NoError(t, err)
	m := newModel(t, model.Config{}, port)
	g := boot(t, ctx, guestConfig(serve(t, m)))
	for round := range 2 {
		load(t, ctx, g, "mlx4_ib")
		log, err := g.Dmesg(ctx)
		require.NoError(t, err)
		require.Empty(t, probeFaults(log, round+1), "kernel log:\n%s", mlx4Lines(log))
		awaitActive(t, ctx, g, 1)
		info := run(t, ctx, g, "ibv_devinfo", "-v")
		require.Contains(t, info, "PORT_ACTIVE")
		require.NoError(t, g.Unload(ctx, "mlx4_ib", "mlx4_core"))
		requireQuiet(t, ctx, g)
	}
	require.NoError(t, g.Close())
}
