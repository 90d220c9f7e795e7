package ual_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/ual"
)

// roleEnv makes the test's program a client process: its role and the daemon's socket.
const roleEnv = "UAL_TEST_ROLE"

// roles are the programs of client processes. Each prints its result. The argument is the daemon's socket.
var roles = map[string]func(path string) error{
	"forks":    forks,
	"stranger": stranger,
	"writes":   writesThroughQueue,
	"unmaps":   unmapsQueues,
	"clones":   clones,
	"few":      fewDescriptors,
	"closes":   closesDescriptors,
	"daemon":   daemonWithFewDescriptors,
	"queues":   daemonOfQueues,
}

// runRole runs a client process and does not return, if this is one.
func runRole() {
	role, path, ok := strings.Cut(os.Getenv(roleEnv), "|")
	if !ok {
		return
	}
	fmt.Println(roles[role](path))
	os.Exit(0)
}

// role returns a command that runs the test's program in a role.
func role(name, path string) *exec.Cmd {
	c := exec.Command("/proc/self/exe") // the path of the program may not be accessible to another user
	c.Env = append(os.Environ(), roleEnv+"="+name+"|"+path)
	c.Stderr = os.Stderr
	return c
}

// listen serves a socket that every user can connect to.
func (r *rig) listen() string {
	dir, err := os.MkdirTemp("", "ual") // t.TempDir can be too long for a socket
	require.NoError(r.t, err)
	require.NoError(r.t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "socket")
	l, err := native.Listen(path)
	require.NoError(r.t, err)
	require.NoError(r.t, os.Chmod(path, 0o666))
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(l) }()
	r.t.Cleanup(func() {
		l.Close()
		require.NoError(r.t, <-served)
		require.NoError(r.t, os.RemoveAll(dir))
	})
	return path
}

// forks connects, starts a process that keeps the socket, and waits to be killed.
func forks(path string) error {
	c, err := net.Dial("unixpacket", path)
	if err != nil {
		return err
	}
	socket, err := c.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	conn, err := native.NewConn(c.(*net.UnixConn))
	if err != nil {
		return err
	}
	client, err := ual.New(conn, ual.Config{Name: "forks"})
	if err != nil {
		return err
	}
	hcas, err := client.HCAs()
	if err != nil {
		return err
	}
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil)
	if err != nil {
		return err
	}
	if _, err := ca.AllocatePD(ci.PDNormal); err != nil {
		return err
	}
	child := exec.Command("sleep", "60")
	child.ExtraFiles = []*os.File{socket}
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println(child.Process.Pid)
	select {}
}

// TestForkedClient kills a client whose child has a copy of the socket. The session ends with the client.
func TestForkedClient(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	c := role("forks", r.listen())
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	require.Len(t, r.core.Sessions(), 1)
	require.Equal(t, 1, live(r)["PD"])
	require.NoError(t, c.Process.Kill())
	_ = c.Wait() // killed
	require.Eventually(t, func() bool { return len(r.core.Sessions()) == 0 && len(live(r)) == 0 }, testenv.Patience,
		time.Millisecond)
	assert.NoError(t, syscall.Kill(child, 0), "the child with the socket still runs")
}

// stranger is a client of another user. It prints the statuses of what it tries.
func stranger(path string) error {
	c, err := ual.Dial(ual.Config{Path: path, Name: "stranger"})
	if err != nil {
		return err
	}
	defer c.Close()
	hcas, err := c.HCAs()
	if err != nil {
		return err
	}
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil)
	if err != nil {
		return err
	}
	pd, err := ca.AllocatePD(ci.PDNormal)
	if err != nil {
		return err
	}
	_, own := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64))})
	m, err := ual.NewMemory(64)
	if err != nil {
		return err
	}
	_, shared := pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	text, err := c.Status()
	if err != nil {
		return err
	}
	return fmt.Errorf("uid %d; own memory: %v; shared: %v; modify: %v; status of others: %v", os.Getuid(),
		ci.StatusOf(own).String(), ci.StatusOf(shared).String(),
		ci.StatusOf(ca.Modify(1, ci.PortFieldShutdown, ci.PortModify{})).String(),
		strings.Contains(string(text), "honest"))
}

// TestOtherUser has a client of another user, whose rights are limited to its own objects and to memory by descriptor.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("starting a process of another user takes root")
	}
	r := newRig(t, kproxy.Config{})
	path := r.listen()
	honest, err := ual.Dial(ual.Config{Path: path, Name: "honest"})
	require.NoError(t, err)
	defer honest.Close()
	c := role("stranger", path)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.Output()
	require.NoError(t, err)
	assert.Equal(t, "uid 65534; own memory: invalid permission; shared: success; modify: invalid permission; "+
		"status of others: false\n",
		string(out))
	require.Eventually(t, func() bool { return len(r.core.Sessions()) == 1 && len(live(r)) == 0 }, testenv.Patience,
		time.Millisecond)
}

// TestUnmapsMemory takes away memory that is registered and in use: a mapped file is cut. The work requests that need
// it fail, and another client is not affected.
func TestUnmapsMemory(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	hostile, honest := newPair(t, r.open(r.dial(), nil), ci.CQCreate{}),
		newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	page := os.Getpagesize()
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(int64(64*page)))
	b, err := unix.Mmap(int(f.Fd()), 0, 64*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(b)) }()
	mr, err := hostile.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite | ci.RemoteWrite})
	require.NoError(t, err)
	region := mr.Region()
	write := []ci.SendWR{{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: []ci.SGE{region.SGE(0, uint32(32*page))},
		Remote: region.Remote(uint64(32 * page))}}
	_, err = hostile.a.PostSend(write)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0)) // unlike that of unmapped memory, the address is not used for anything else
	_, err = hostile.a.PostSend(write)
	require.NoError(t, err)
	var last ci.WCStatus
	for _, wc := range hostile.wait(2) {
		last = wc.Status
	}
	assert.NotEqual(t, ci.WCSuccess, last)
	exchange(t, honest)
}

// exchange sends a message from one QP of a pair to the other.
func exchange(t *testing.T, p *pair) {
	from, to := []byte("a message"), make([]byte, 9)
	source, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(from)})
	require.NoError(t, err)
	target, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(to), Access: ci.LocalWrite})
	require.NoError(t, err)
	_, err = p.b.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{target.Region().SGE(0, 9)}}})
	require.NoError(t, err)
	_, err = p.a.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{source.Region().SGE(0, 9)}}})
	require.NoError(t, err)
	for _, wc := range p.wait(2) {
		assert.Equal(t, ci.WCSuccess, wc.Status)
	}
	assert.Equal(t, from, to)
}

// TestShrinksMemory tries to shrink shared memory that is registered. The seals prevent it.
func TestShrinksMemory(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	m, err := ual.NewMemory(1 << 16)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	_, err = p.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	require.NoError(t, err)
	f, _ := m.File()
	require.ErrorIs(t, f.Truncate(0), unix.EPERM)
	require.ErrorIs(t, f.Truncate(1<<20), unix.EPERM)
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	require.ErrorIs(t, err, unix.EPERM, "no seal can be added that would prevent the daemon's writes")
	exchange(t, p)
}
