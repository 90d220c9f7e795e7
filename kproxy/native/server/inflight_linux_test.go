package server_test

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// inFlightEnv makes TestDescriptorsInFlight the child process.
const inFlightEnv = "CIDDK_TEST_IN_FLIGHT"

// inFlightUser is the first user id of the tests of descriptors in flight. No other process has it.
const inFlightUser = 1 << 20

// TestDescriptorsInFlight has clients that do not receive their replies. The system passes only so many descriptors for
// the daemon (ETOOMANYREFS). No client of another user notices, and the limit is not reached. It runs in a process
// without privileges, because the system has that limit for those only.
func TestDescriptorsInFlight(t *testing.T) {
	if os.Getenv(inFlightEnv) == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestDescriptorsInFlight$")
		c.Env = append(os.Environ(), inFlightEnv+"=1")
		if os.Getuid() == 0 {
			id := uint32(inFlightUser + os.Getpid()*2)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id},
				AmbientCaps: []uintptr{unix.CAP_SETUID}}
		}
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS")
		return
	}
	const limit = 200
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}))
	r := newRig(t, kproxy.Config{})
	honest := r.client()
	t.Run("client", func(t *testing.T) { heldBack(t, r, honest) })
	t.Run("user", func(t *testing.T) { abandoned(t, r, honest) })
}

// createQueue creates an event queue and destroys it.
func (c *client) createQueue() error {
	var created schema.Created
	err := c.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &created)
	if err == nil {
		err = c.do(schema.CmdDestroy, &schema.Object{Handle: created.Handle}, &schema.DestroyReply{})
	}
	return err
}

// sendCreates sends requests for event queues.
func (c *client) sendCreates(n int) {
	for range n {
		c.send(schema.CmdCreateEventQueue, native.Append(nil, &schema.CreateEventQueue{}))
	}
}

// heldBack has a client send requests and receive no replies, while another client of the user works. It receives all
// replies, with their descriptors, when it reads.
func heldBack(t *testing.T, r *rig, honest *client) {
	const requests = 40
	c := r.client()
	defer c.c.Close()
	before := r.core.Load().Messages[schema.CmdCreateEventQueue.String()]
	c.sendCreates(requests)
	require.Eventually(t, func() bool {
		return r.core.Load().Messages[schema.CmdCreateEventQueue.String()] == before+requests
	}, time.Minute, time.Millisecond)
	for range 50 {
		n, _ := native.InFlight()
		require.LessOrEqual(t, n, 8+1, "a message has 8, and the other client receives at once")
		require.NoError(t, honest.createQueue())
	}
	for range requests {
		n, files, err := c.c.Recv(c.buf)
		require.NoError(t, err)
		require.Len(t, files, 1)
		native.CloseFiles(files)
		h, _, err := native.ParseHeader(c.buf[:n])
		require.NoError(t, err)
		require.Zero(t, h.Status)
	}
	require.NoError(t, honest.createQueue())
	require.NoError(t, c.c.Close())
	require.Eventually(t, func() bool { return len(r.core.Sessions()) == 1 }, time.Minute, time.Millisecond)
}

// abandoned has clients of one user whose sessions end while their replies are unread. The user has a limit, and the
// requests of another one succeed. When the sockets are closed, those of the user succeed, too.
func abandoned(t *testing.T, r *rig, honest *client) {
	isOther := os.Getuid() >= inFlightUser // with the capability to connect as another user
	uid := os.Getuid()
	if isOther {
		uid++
	}
	const most = 12 // half of an eighth of the limit
	var unread []*client
	for i := range 50 {
		c := r.clientOf(uid)
		unread = append(unread, c)
		c.sendCreates(40)
		require.Eventually(t, func() bool { // the session may end before it executes the other requests
			n, _ := native.InFlight()
			return n >= min(i+1, most)
		}, time.Minute, time.Millisecond)
		require.NoError(t, c.c.Send([]byte("garbage"), nil))
		require.Eventually(t, func() bool { return len(r.core.Sessions()) == 1 }, time.Minute, time.Millisecond)
		if isOther {
			require.NoError(t, honest.createQueue())
		}
	}
	requireInFlight(t, most)
	c := r.clientOf(uid)
	err := c.createQueue()
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.ErrorContains(t, err, "the limit of a user is 12")
	assert.Zero(t, r.core.Load().Objects["event queue"])
	require.NoError(t, c.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "without descriptors")
	for _, c := range unread {
		require.NoError(t, c.c.Close())
	}
	require.NoError(t, c.createQueue())
	require.NoError(t, honest.createQueue())
	requireInFlight(t, 0)
}

// requireInFlight waits until a number of descriptors are in flight. A message is in flight, too, until the call that
// has sent it returns.
func requireInFlight(t *testing.T, want int) {
	require.Eventually(t, func() bool {
		n, _ := native.InFlight()
		return n == want
	}, time.Minute, time.Millisecond)
}

// clientOf returns a client of a user.
func (r *rig) clientOf(uid int) *client {
	if uid == os.Getuid() {
		return r.client()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	as := func(uid int) { // of this thread only: the functions of package syscall change all of them
		const same = ^uintptr(0)
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same)
		require.Zero(r.t, errno)
	}
	as(uid)
	c := r.raw() // the socket has the user of the thread
	as(os.Getuid())
	c.hello()
	return c
}
