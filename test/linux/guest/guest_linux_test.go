package guest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest/qemu"
)

// helperEnv makes the test binary boot a guest, print qemu's pid and wait to be killed.
const helperEnv = "CIDDK_GUEST_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		if err := helper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

func needGuests(t *testing.T) context.Context {
	t.Helper()
	testenv.Linux(t, Available())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newNetwork(t *testing.T, ctx context.Context, c NetworkConfig) *Network {
	t.Helper()
	n, err := NewNetwork(ctx, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// TestStock tests the harness with stock Linux only: two guests, an active port, and a ping-pong between them.
func TestStock(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t)
	n := newNetwork(t, ctx, NetworkConfig{})
	var g [2]*Guest
	for i := range g {
		var err error
		g[i], err = n.Boot(ctx, Config{})
		require.NoError(t, err)
	}

	r, err := g[0].Run(ctx, "ibv_devinfo", "-d", Device, "-v")
	require.NoError(t, err)
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, "PORT_ACTIVE")
	require.Contains(t, r.Stdout, "active_mtu:\t\t1024")
	for i := range g {
		require.Equal(t, i+1, g[i].Index())
		require.Positive(t, g[i].GIDIndex(n.Addr4(g[i].Index())), "GID 0 is the link-local address")
		require.Positive(t, g[i].GIDIndex(n.Addr6(g[i].Index())))
		require.Equal(t, -1, g[i].GIDIndex(n.Addr4(Host)))
	}

	var pcap bytes.Buffer
	c, err := g[1].Capture(&pcap)
	require.NoError(t, err)
	args := []string{"ibv_rc_pingpong", "-d", Device, "-n", "10", "-g"}
	server, err := g[0].Start(ctx, append(args, strconv.Itoa(g[0].GIDIndex(n.Addr4(1))))...)
	require.NoError(t, err)
	require.NoError(t, g[0].WaitListen(ctx, 18515))
	r, err = g[1].Run(ctx, append(args, strconv.Itoa(g[1].GIDIndex(n.Addr4(2))), n.Addr4(1).String())...)
	require.NoError(t, err)
	assert.Zero(t, r.Code, r.Stderr)
	assert.Contains(t, r.Stdout, "10 iters in")
	r, err = server.Wait()
	require.NoError(t, err)
	assert.Zero(t, r.Code, r.Stderr)
	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop(), "idempotent")
	// 4096 bytes at path MTU 1024 are 4 packets, and 10 messages go each way.
	assert.GreaterOrEqual(t, bytes.Count(pcap.Bytes(), []byte{4791 >> 8, 4791 & 0xff}), 80)
}

// TestCommands covers how commands end, on both sides.
func TestCommands(t *testing.T) {
	ctx := needGuests(t)
	n := newNetwork(t, ctx, NetworkConfig{MTU: 9000})
	g, err := n.Boot(ctx, Config{Programs: []string{"sh", "sleep"}})
	require.NoError(t, err)

	type machine interface {
		Start(ctx context.Context, args ...string) (*Process, error)
	}
	for name, m := range map[string]machine{"host": n, "guest": g} {
		t.Run(name, func(t *testing.T) {
			run := func(ctx context.Context, args ...string) (Result, error) {
				p, err := m.Start(ctx, args...)
				if err != nil {
					return Result{}, err
				}
				return p.Wait()
			}
			r, err := run(ctx, "sh", "-c", "echo out; echo err >&2; exit 3")
			require.NoError(t, err)
			require.Equal(t, Result{Code: 3, Stdout: "out\n", Stderr: "err\n"}, r)

			r, err = run(ctx, "sh", "-c", "kill -TERM $$")
			require.NoError(t, err)
			require.Equal(t, 128+int(syscall.SIGTERM), r.Code)

			_, err = run(ctx, "no-such-program")
			require.ErrorContains(t, err, "no-such-program")
			_, err = run(ctx)
			require.ErrorContains(t, err, "no command")

			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err = run(short, "sh", "-c", "echo begun; sleep 100; echo never")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotContains(t, err.Error(), `never\n"`)
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}

	r, err := g.Run(ctx, "agent", "cat", "/sys/class/net/eth0/mtu")
	require.NoError(t, err)
	require.Equal(t, "9000\n", r.Stdout)

	// 1 MiB of output arrives whole.
	r, err = g.Run(ctx, "agent", "cat", "/usr/bin/ip", "/usr/bin/ip")
	require.NoError(t, err)
	st, err := os.Stat("/usr/bin/ip")
	if err != nil {
		st, err = os.Stat("/sbin/ip")
	}
	require.NoError(t, err)
	require.Len(t, r.Stdout, 2*int(st.Size()))

	nobody, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, n.WaitListen(nobody, 1), "no process listens on TCP port 1")

	// Commands that run when the guest is closed fail at once.
	left, err := g.Start(ctx, "sleep", "100")
	require.NoError(t, err)
	require.NoError(t, g.Close())
	_, err = left.Wait()
	require.ErrorContains(t, err, "guest 1 has ended")
	require.NoError(t, g.Close(), "idempotent")
	_, err = g.Run(ctx, "sleep", "0")
	require.ErrorContains(t, err, "guest 1 has ended")

	// The same holds for the host.
	left, err = n.Start(ctx, "sleep", "100")
	require.NoError(t, err)
	require.NoError(t, n.Close())
	r, err = left.Wait()
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGKILL), r.Code)
	_, err = n.Start(ctx, "sleep", "0")
	require.ErrorIs(t, err, errClosed)
	_, err = n.Boot(ctx, Config{})
	require.ErrorIs(t, err, errClosed)
}

func TestBootFails(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t)
	n := newNetwork(t, ctx, NetworkConfig{})
	_, err := n.Boot(ctx, Config{Programs: []string{"no-such-program"}})
	require.ErrorContains(t, err, "no-such-program")
	_, err = n.Boot(ctx, Config{Modules: []string{"no_such_module"}})
	require.ErrorContains(t, err, "has no module no_such_module")
	_, err = n.Boot(ctx, Config{MemoryMB: 24})
	require.ErrorContains(t, err, "the guest ended while booting", "a kernel without room for its root")
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = n.Boot(short, Config{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestKilled checks that a killed test leaves no virtual machine.
func TestKilled(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t)
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), helperEnv+"=1")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.True(t, isQEMU(pid), "running before the kill")
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	require.Eventually(t, func() bool { return !isQEMU(pid) }, testenv.Patience, 10*time.Millisecond)
}

func helper() error {
	ctx := context.Background()
	n, err := NewNetwork(ctx, NetworkConfig{})
	if err != nil {
		return err
	}
	g, err := n.Boot(ctx, Config{})
	if err != nil {
		return err
	}
	fmt.Println(g.pid)
	select {}
}

func isQEMU(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(b, []byte(qemu.Emulator))
}
