package ual_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
)

// descriptors returns the descriptors of this process from 3 on.
func descriptors() (list []int, err error) {
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 2 {
			list = append(list, n)
		}
	}
	return list, err
}

// limitDescriptors lets this process have no further descriptor, until restore is called.
func limitDescriptors() (restore func() error, err error) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		return nil, err
	}
	// The gaps below the limit are filled.
	var fill []int
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			return nil, err
		}
		fill = append(fill, fd)
		if list, err := descriptors(); err != nil || len(fill) > 64 && fd == list[len(list)-1] {
			break
		}
	}
	now := was
	now.Cur = uint64(fill[len(fill)-1] + 1)
	restore = func() error {
		for _, fd := range fill {
			unix.Close(fd)
		}
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	}
	return restore, unix.Setrlimit(unix.RLIMIT_NOFILE, &now)
}

// dialBypass connects to a daemon, with the user library of the adapter.
func dialBypass(path string) (ci.HCA, error) {
	c, err := ual.Dial(ual.Config{Path: path, Libraries: []*ci.UserLibrary{userlib.New()}})
	if err != nil {
		return nil, err
	}
	hcas, err := c.HCAs()
	if err != nil {
		return nil, err
	}
	return hcas[0], nil
}

// someObjects creates one object of several kinds.
func someObjects(h ci.HCA) (ci.CA, error) {
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	if err != nil {
		return nil, err
	}
	pd, err := ca.AllocatePD(ci.PDNormal)
	if err != nil {
		return nil, err
	}
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 8, OnCompletion: func(any) {}})
	if err != nil {
		return nil, err
	}
	if _, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}); err != nil {
		return nil, err
	}
	m, err := ual.NewMemory(4096)
	if err != nil {
		return nil, err
	}
	_, err = pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	return ca, err
}

// clones creates objects, forks without executing a program, and waits to be killed.
func clones(path string) error {
	h, err := dialBypass(path)
	if err != nil {
		return err
	}
	if _, err := someObjects(h); err != nil {
		return err
	}
	pid := cloneSleeper()
	if pid <= 0 {
		return errors.New("clone failed")
	}
	fmt.Println(pid)
	select {}
}

// cloneSleeper forks a process, which has one thread of the Go runtime and only sleeps.
//
//go:norace
//go:nosplit
func cloneSleeper() uintptr {
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return 0
	}
	for pid == 0 {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // until the process is killed
	}
	return pid
}

// TestClonedClient kills a client that has forked without exec. The child has the socket, the doorbell and all shared
// memory. The session ends with the client.
func TestClonedClient(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	c := role("clones", r.listen())
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	require.Equal(t, 1, live(r)["QP"])
	require.NoError(t, c.Process.Kill())
	_, err = c.Process.Wait()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(r.core.Sessions()) == 0 && len(live(r)) == 0 }, testenv.Patience,
		time.Millisecond)
	assert.NoError(t, syscall.Kill(child, 0), "the child still runs")
}

// fewDescriptors opens an adapter in a process that may have no further descriptor, and again without the limit.
func fewDescriptors(path string) error {
	h, err := dialBypass(path)
	if err != nil {
		return err
	}
	restore, err := limitDescriptors()
	if err != nil {
		return err
	}
	_, limited := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	if err := restore(); err != nil {
		return err
	}
	if !errors.Is(limited, ci.InsufficientResources) {
		return fmt.Errorf("without descriptors: %w", limited)
	}
	_, err = someObjects(h)
	return err
}

// TestFewDescriptorsOfClient has a client without free descriptors. The verb that needs one fails, nothing of it
// remains, and the connection works afterwards.
func TestFewDescriptorsOfClient(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	out, err := role("few", r.listen()).Output()
	require.NoError(t, err)
	assert.Equal(t, "<nil>\n", string(out))
	require.Eventually(t, func() bool { return len(r.core.Sessions()) == 0 && len(live(r)) == 0 }, testenv.Patience,
		time.Millisecond)
}

// closesDescriptors closes its own descriptors in a random order while it uses the adapter.
func closesDescriptors(path string) error {
	seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	if err != nil {
		return err
	}
	h, err := dialBypass(path)
	if err != nil {
		return err
	}
	ca, err := someObjects(h)
	if err != nil {
		return err
	}
	list, err := descriptors()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	rnd := rand.New(rand.NewPCG(seed, 0))
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, fd := range list {
		unix.Close(fd)
		done := make(chan struct{})
		go func() {
			_, _ = ca.Query() // any result
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond): // the reply cannot be received any more
		}
	}
	return nil
}

// seedEnv is the seed of the role closes.
const seedEnv = "UAL_TEST_SEED"

// TestClosesDescriptors has clients that close their descriptors in random orders. Whatever happens to them, another
// client is not affected, and nothing of them remains.
func TestClosesDescriptors(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	path := r.listen()
	honest := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	exchange(t, honest)
	before := live(r)
	for seed := range 6 {
		c := role("closes", path)
		c.Env, c.Stderr = append(c.Env, fmt.Sprintf("%s=%d", seedEnv, seed)), nil // the runtime may report its end
		out, _ := c.Output()                                                      // any end of the process
		assert.True(t, strings.HasPrefix(string(out), "ready\n"), "seed %d: %s", seed, out)
		require.Eventually(t, func() bool { return len(r.core.Sessions()) == 1 }, testenv.Patience, time.Millisecond)
		assert.Equal(t, before["QP"], live(r)["QP"], "seed %d", seed)
		exchange(t, honest)
	}
}

// daemonWithFewDescriptors is a daemon. The lines of its input limit its descriptors and end the limit.
func daemonWithFewDescriptors(path string) error {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	if err != nil {
		return err
	}
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	if err != nil {
		return err
	}
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	if err := al.Register(h); err != nil {
		return err
	}
	core, err := kproxy.New(kproxy.Config{AL: al})
	if err != nil {
		return err
	}
	l, err := native.Listen(path)
	if err != nil {
		return err
	}
	go func() { _ = server.New(core, clock.Real()).Serve(l) }()
	fmt.Println("ready")
	restore := func() error { return nil }
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "limit" {
			restore, err = limitDescriptors()
		} else {
			err = restore()
		}
		fmt.Println(err)
	}
	return nil
}

// TestFewDescriptorsOfDaemon has a daemon without free descriptors. A request with a descriptor fails, the connection
// and its other requests work, new connections wait, and everything works again afterwards.
func TestFewDescriptorsOfDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	d := role("daemon", path)
	in, err := d.StdinPipe()
	require.NoError(t, err)
	out, err := d.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.Start())
	lines := bufio.NewReader(out)
	await := func(want string) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want+"\n", line)
	}
	command := func(text string) {
		_, err := io.WriteString(in, text+"\n")
		require.NoError(t, err)
		await("<nil>")
	}
	await("ready")
	c, err := ual.Dial(ual.Config{Path: path})
	require.NoError(t, err)
	hcas, err := c.HCAs()
	require.NoError(t, err)
	p := newPair(t, (&rig{t: t}).open(c, nil), ci.CQCreate{})
	m, err := ual.NewMemory(4096)
	require.NoError(t, err)

	command("limit")
	_, err = p.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	require.ErrorIs(t, err, ci.InsufficientResources)
	assert.ErrorContains(t, err, "RLIMIT_NOFILE")
	_, err = p.ca.Query()
	require.NoError(t, err)
	dialed := make(chan error, 1)
	go func() {
		c, err := ual.Dial(ual.Config{Path: path, Timeout: 20 * time.Second})
		if err == nil {
			err = c.Close()
		}
		dialed <- err
	}()
	_, err = p.pd.CreateCQ(ci.CQCreate{Size: 4})
	require.NoError(t, err, "a verb that needs no descriptor")

	command("restore")
	require.NoError(t, <-dialed)
	_, err = p.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	require.NoError(t, err)
	exchange(t, p)
	require.Len(t, hcas, 1)
	require.NoError(t, c.Close())
	require.NoError(t, m.Close())
	require.NoError(t, in.Close())
	await("<nil>")
	require.NoError(t, d.Wait())
}
