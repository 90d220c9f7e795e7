package server_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
)

// closedPD answers CreateCQ with a descriptor that it has closed.
type closedPD struct {
	ciwrap.PD
	t *testing.T
}

func (p closedPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	f, err := os.Open(os.DevNull)
	require.NoError(p.t, err)
	require.NoError(p.t, f.Close())
	user := c.User
	q, err := p.PD.CreateCQ(c)
	if user != nil {
		user.Status, user.OutFiles = 0, []*os.File{f}
	}
	return q, err
}

// TestReplyThatCannotBeSent has a driver whose descriptors are closed. The verb fails and leaves no object, and the
// connection works.
func TestReplyThatCannotBeSent(t *testing.T) {
	layer := ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return closedPD{ciwrap.PD{PD: p}, t} }}
	r := newRigOf(t, kproxy.Config{}, clock.Real(), layer.Wrap)
	c := r.client()
	var created schema.Created
	require.NoError(t, c.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &created))
	open := &schema.OpenCA{GUID: r.hca.Info().GUID, Async: created.Handle}
	require.NoError(t, c.do(schema.CmdOpenCA, open, &created))
	require.NoError(t, c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: created.Handle}, &created))
	create := &schema.CreateCQ{PD: created.Handle, Size: 4, User: schema.UserBuffer{Present: true}}
	err := c.do(schema.CmdCreateCQ, create, &schema.CreateCQReply{})
	require.ErrorIs(t, err, ci.UnknownError)
	assert.ErrorContains(t, err, "closed file")
	assert.Zero(t, r.live()["CQ"])
	assert.Zero(t, r.core.Load().Objects["cq"])
	require.NoError(t, c.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}))
}

// inFlightEnv makes TestDescriptorsInFlight the child process.
const inFlightEnv = "CIDDK_TEST_IN_FLIGHT"

// TestDescriptorsInFlight has a client that does not receive its replies, until the system passes no more descriptors
// for the daemon (ETOOMANYREFS). The requests of another client that need one fail, and the others work. It runs in a
// process without privileges, because the system has that limit for those only.
func TestDescriptorsInFlight(t *testing.T) {
	if os.Getenv(inFlightEnv) == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestDescriptorsInFlight$")
		c.Env = append(os.Environ(), inFlightEnv+"=1")
		if os.Getuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
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
	var created schema.Created
	create := func() error { return honest.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &created) }
	executed := func() uint64 { return r.core.Load().Messages[schema.CmdCreateEventQueue.String()] }
	var unread []*client
	for range limit / 4 {
		err := create()
		if err != nil {
			require.ErrorIs(t, err, ci.InsufficientResources)
			require.ErrorContains(t, err, "too many references")
			break
		}
		require.NoError(t, honest.do(schema.CmdDestroy, &schema.Object{Handle: created.Handle}, &schema.DestroyReply{}))
		// The replies of a client whose session has ended remain in its socket.
		c := r.client()
		unread = append(unread, c)
		const each = 40
		before := executed()
		for range each {
			c.send(schema.CmdCreateEventQueue, native.Append(nil, &schema.CreateEventQueue{}))
		}
		require.Eventually(t, func() bool { return executed() == before+each }, time.Minute, time.Millisecond)
		require.NoError(t, c.c.Send([]byte("garbage"), nil))
		require.Eventually(t, func() bool { return len(r.core.Sessions()) == 1 }, time.Minute, time.Millisecond)
	}
	require.ErrorContains(t, create(), "too many references")
	assert.Zero(t, r.core.Load().Objects["event queue"])
	require.NoError(t, honest.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}))
	for _, c := range unread {
		require.NoError(t, c.c.Close())
	}
	require.Eventually(t, func() bool { return create() == nil }, time.Minute, time.Millisecond,
		"the descriptors that were on their way are closed")
}
