package ual_test

import (
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/ual"
)

// stopping is a daemon that replies to requests until stop is closed, and then leaves its sockets open, as a process
// does that was stopped by a signal.
type stopping struct {
	t      *testing.T
	c      *native.Conn
	stop   chan struct{}
	silent chan schema.Command // requests without reply
	files  []*os.File          // the daemon's ends of event queues

	missing atomic.Uint64 // events that each destroyed object has had, and that were not sent
}

// newStopping returns the daemon and the client's end of its connection.
func newStopping(t *testing.T) (*stopping, *native.Conn) {
	theirs, ours, err := native.Pair()
	require.NoError(t, err)
	s := &stopping{t: t, c: theirs, stop: make(chan struct{}), silent: make(chan schema.Command, 10)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		s.c.Close()
		<-done
		for _, f := range s.files {
			f.Close()
		}
	})
	return s, ours
}

func (s *stopping) serve() {
	buf := make([]byte, schema.MaxMessage)
	for {
		n, _, err := s.c.Recv(buf)
		if err != nil {
			return
		}
		h, _, err := native.ParseHeader(buf[:n])
		if !assert.NoError(s.t, err) {
			return
		}
		select {
		case <-s.stop:
			s.silent <- h.Command
			continue
		default:
		}
		assert.NoError(s.t, s.reply(h))
	}
}

func (s *stopping) reply(h native.Header) error {
	var body any = reflect.New(schema.Commands[h.Command].Reply).Interface()
	var files []*os.File
	switch h.Command {
	case schema.CmdHello:
		body = &schema.HelloReply{Version: schema.Version, PID: 4711, MaxMessage: schema.MaxMessage}
	case schema.CmdListHCAs:
		body = &schema.ListHCAsReply{HCAs: []schema.HCAInfo{{GUID: 7}}}
	case schema.CmdDestroy:
		body = &schema.DestroyReply{Async: s.missing.Load()}
	case schema.CmdCreateEventQueue:
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		s.files = append(s.files, os.NewFile(uintptr(fds[0]), "events"))
		theirs := os.NewFile(uintptr(fds[1]), "events")
		defer theirs.Close()
		files = append(files, theirs)
	}
	h.Reply = true
	m := native.Append(native.Start(nil), body)
	if err := native.Finish(m, h); err != nil {
		return err
	}
	return s.c.Send(m, files)
}

// TestDaemonStopped checks that verbs fail when a daemon stops replying, that the error names the daemon, and that
// nothing waits for it afterwards.
func TestDaemonStopped(t *testing.T) {
	daemon, conn := newStopping(t)
	virtual := clock.NewVirtual(0)
	c, err := ual.New(conn, ual.Config{CallTimeout: 10 * time.Second, Clock: virtual})
	require.NoError(t, err)
	hca, err := c.HCA(7)
	require.NoError(t, err)
	events := make(chan ci.Event, 10)
	ca, err := hca.OpenCA(7, func(e ci.Event) { events <- e }, "context")
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 100))})
	require.NoError(t, err)

	virtual.Advance(time.Hour) // no deadline runs while no call waits
	_, err = ca.Query()
	require.NoError(t, err)

	close(daemon.stop)
	failed := make(chan error)
	go func() {
		_, err := ca.Query()
		failed <- err
	}()
	require.Equal(t, schema.CmdQueryCA, <-daemon.silent)
	virtual.Advance(9 * time.Second)
	go func() {
		_, err := pd.CreateCQ(ci.CQCreate{Size: 1})
		failed <- err
	}()
	require.Equal(t, schema.CmdCreateCQ, <-daemon.silent)
	virtual.Advance(time.Second)
	select {
	case err := <-failed:
		t.Fatal("failed without the second for replies that wait: ", err)
	default:
	}
	virtual.Advance(time.Second)
	for range 2 {
		err := <-failed
		require.ErrorIs(t, err, ual.ErrDisconnected)
		require.ErrorIs(t, err, ci.InvalidState)
		require.ErrorContains(t, err, "process 4711")
		require.ErrorContains(t, err, "did not reply to CA.Query within 10s")
	}
	e := <-events
	assert.Equal(t, ci.EventLocalFatal, e.Type)
	assert.Equal(t, "context", e.Context)
	_, err = mr.Query()
	require.ErrorIs(t, err, ual.ErrDisconnected)
	for _, o := range []ci.Object{mr, pd, ca} {
		require.NoError(t, o.Destroy()) // the object does not exist any more
	}
	err = c.Close()
	require.ErrorIs(t, err, ci.Timeout)
	require.ErrorContains(t, err, "process 4711")
	require.Zero(t, virtual.Pending())
}

// countingClock reports the timers that are made.
type countingClock struct {
	*clock.Virtual
	made chan time.Duration
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	defer func() { c.made <- d }()
	return c.Virtual.AfterFunc(d, f)
}

// TestMissingEvents destroys an object of a daemon that reports an event which it has not sent.
func TestMissingEvents(t *testing.T) {
	daemon, conn := newStopping(t)
	daemon.missing.Store(1)
	clk := &countingClock{clock.NewVirtual(0), make(chan time.Duration, 10)}
	c, err := ual.New(conn, ual.Config{CallTimeout: 10 * time.Second, Clock: clk})
	require.NoError(t, err)
	<-clk.made // for calls
	hca, err := c.HCA(7)
	require.NoError(t, err)
	ca, err := hca.OpenCA(7, func(ci.Event) {}, nil)
	require.NoError(t, err)
	destroyed := make(chan error)
	go func() { destroyed <- ca.Destroy() }()
	require.Equal(t, 10*time.Second, <-clk.made)
	require.Empty(t, destroyed)
	clk.Advance(10 * time.Second)
	require.NoError(t, <-destroyed)
	require.NoError(t, daemon.c.Close())
	require.NoError(t, c.Close())
}

// TestHelloTimeout connects to a daemon that never replies.
func TestHelloTimeout(t *testing.T) {
	daemon, conn := newStopping(t)
	close(daemon.stop)
	virtual := clock.NewVirtual(0)
	failed := make(chan error)
	go func() {
		_, err := ual.New(conn, ual.Config{Clock: virtual})
		failed <- err
	}()
	require.Equal(t, schema.CmdHello, <-daemon.silent)
	virtual.Advance(ual.DefaultCallTimeout)
	virtual.Advance(time.Second)
	require.ErrorIs(t, <-failed, ual.ErrDisconnected)
}

// TestReplyInTime has calls wait longer than the timeout together, though none of them does alone.
func TestReplyInTime(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	virtual := clock.NewVirtual(0)
	c, err := ual.New(r.connect(), ual.Config{CallTimeout: time.Second, Clock: virtual})
	require.NoError(t, err)
	for range 100 {
		_, err := c.HCAs()
		require.NoError(t, err)
		virtual.Advance(900 * time.Millisecond)
	}
	require.NoError(t, c.Close())
	require.Zero(t, virtual.Pending())
}

// TestMissingDescriptor checks that a request whose descriptor is closed fails, and that the connection remains.
func TestMissingDescriptor(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	ca := r.open(r.dial(), nil)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	m, err := ual.NewMemory(100)
	require.NoError(t, err)
	f, _ := m.File()
	require.NoError(t, f.Close())
	_, err = pd.RegisterMR(ci.MRCreate{Memory: m})
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.NotErrorIs(t, err, ual.ErrDisconnected)
	require.Error(t, m.Close(), "the file was closed before")
	_, err = ca.Query()
	require.NoError(t, err)
	require.NoError(t, pd.Destroy())
	require.NoError(t, ca.Destroy())
}
