package kproxy

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// TestAfterEndings has a request fail beside a client whose process has exited, whose front end has begun to close it,
// or neither. The request is executed again when that client's cleanup is complete, if the error is one that it can
// have caused. It waits neither beyond the limit nor beyond the end of its own client.
func TestAfterEndings(t *testing.T) {
	exited := exec.Command("true")
	require.NoError(t, exited.Start())
	defer func() { require.NoError(t, exited.Wait()) }()
	var err error = syscall.EINTR
	for errors.Is(err, syscall.EINTR) { // it stays until Wait
		err = unix.Waitid(unix.P_PID, exited.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		err   error
		other int  // process of the other client
		begun bool // its front end has begun to close it
		act   func(c, other *Session)
		calls int
		after time.Duration
	}{
		{name: "ends", err: ci.InsufficientResources, other: os.Getpid(), begun: true, calls: 2, after: time.Second},
		{name: "process", err: ci.InsufficientResources, other: exited.Process.Pid, calls: 2, after: time.Second},
		{name: "port", err: syscall.EADDRINUSE, other: os.Getpid(), begun: true, calls: 2, after: time.Second},
		{name: "stays", err: ci.InsufficientResources, other: os.Getpid(), calls: 1},
		{name: "input", err: ci.InvalidParameter, other: os.Getpid(), begun: true, calls: 1},
		{name: "quota", err: overQuota("verb", "full"), other: os.Getpid(), begun: true, calls: 1},
		{name: "stuck", err: ci.InsufficientResources, other: os.Getpid(), begun: true, calls: 1, after: maxEnding,
			act: func(_, other *Session) { time.Sleep(maxEnding + 1) }},
		{name: "interrupted", err: ci.InsufficientResources, other: os.Getpid(), begun: true, calls: 1,
			after: time.Second, act: func(c, _ *Session) { c.BeginClose(); time.Sleep(time.Nanosecond) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				al := accesslayer.New(accesslayer.Config{PollInterval: -1})
				core, err := New(Config{AL: al, Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				self, err := core.Open(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, "self")
				require.NoError(t, err)
				other, err := core.Open(Peer{PID: c.other, UID: os.Getuid()}, 64, "other")
				require.NoError(t, err)
				if c.begun {
					other.BeginClose()
				}
				begun, calls := time.Now(), 0
				result := make(chan time.Duration, 1)
				go func() {
					err := self.AfterEndings(func() error {
						if calls++; calls == 2 {
							return nil
						}
						return c.err
					})
					assert.Equal(t, calls == 1, errors.Is(err, c.err))
					result <- time.Since(begun)
				}()
				time.Sleep(time.Second)
				if c.act != nil {
					c.act(self, other)
				}
				require.NoError(t, other.Close())
				require.Equal(t, c.after, <-result)
				require.Equal(t, c.calls, calls)
				require.NoError(t, core.Close())
				require.NoError(t, al.Close())
			})
		})
	}
}

// TestOpenAfterEndings opens a client where as many are connected as may be, one of which has ended.
func TestOpenAfterEndings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al := accesslayer.New(accesslayer.Config{PollInterval: -1})
		core, err := New(Config{AL: al, Logger: slog.New(slog.DiscardHandler), MaxClients: 1})
		require.NoError(t, err)
		first, err := core.Open(Peer{PID: os.Getpid()}, 64, "first")
		require.NoError(t, err)
		_, err = core.Open(Peer{PID: os.Getpid()}, 64, "second")
		require.ErrorIs(t, err, ci.InsufficientResources)
		first.BeginClose()
		opened := make(chan error)
		go func() {
			_, err := core.Open(Peer{PID: os.Getpid()}, 64, "second")
			opened <- err
		}()
		synctest.Wait()
		require.NoError(t, first.Close())
		require.NoError(t, <-opened)
		require.NoError(t, core.Close())
		require.NoError(t, al.Close())
	})
}
