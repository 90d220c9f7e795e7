package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/kproxy"
)

// The roles of TestForbiddenCopies, and what they do before.
const (
	copyingDaemon = "copying daemon" // serves with copy-memory all
	copyingClient = "copying client" // sends a few messages
	forbidEnv     = "DDKD_TEST_FORBID"
	copyEnv       = "DDKD_TEST_COPY"
	limitEnv      = "DDKD_TEST_COPY_TIMEOUT"
)

// forbid restricts this process as $DDKD_TEST_FORBID says.
func forbid() error {
	switch os.Getenv(forbidEnv) {
	case "copies":
		return forbidCopies()
	case "tracing":
		return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	return nil
}

// copyingDaemonMain is a daemon that everybody can connect to.
func copyingDaemonMain() int {
	if err := forbid(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	args := []string{"serve", "--mode=0666", "--log=warn", "--adapter", "link=network,address=10.0.0.1"}
	if whose := os.Getenv(copyEnv); whose != "" {
		args = append(args, "--copy-memory="+whose)
	}
	if limit := os.Getenv(limitEnv); limit != "" {
		args = append(args, "--copy-timeout="+limit)
	}
	return run(context.Background(), args, os.Stdout, os.Stderr)
}

// copyingClientMain sends messages from memory that it has allocated.
func copyingClientMain() int {
	if err := forbid(); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := traffic(func(sent int) bool { return sent < 20 }); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("sent")
	return 0
}

// TestForbiddenCopies has daemons that the system does not let reach the memory of a client. The client copies it. A
// daemon that may not copy memory of that user rejects the registration.
func TestForbiddenCopies(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("processes of several users take root")
	}
	const user, other = 65534, 65533
	for name, c := range map[string]struct {
		daemonUID, clientUID         uint32
		daemonForbids, clientForbids string
		namespace                    bool // the daemon has a PID namespace of its own
		copyMemory                   string
		fails                        bool
	}{
		"a filter of the daemon": {daemonUID: user, clientUID: user, daemonForbids: "copies"},
		"a filter of both": {daemonForbids: "copies", daemonUID: user, clientUID: user,
			clientForbids: "copies"},
		"a client that is protected":  {daemonUID: user, clientUID: user, clientForbids: "tracing"},
		"users without privileges":    {daemonUID: other, clientUID: user, copyMemory: "all"},
		"a PID namespace":             {namespace: true},
		"a user who is not permitted": {daemonUID: other, clientUID: user, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			dir := strings.TrimSuffix(path, "/socket")
			require.NoError(t, os.Chmod(dir, 0o755))
			require.NoError(t, os.Chown(dir, int(c.daemonUID), -1))
			daemon := copyRole(copyingDaemon, c.daemonUID, c.daemonForbids)
			daemon.Env = append(daemon.Env, copyEnv+"="+c.copyMemory, limitEnv+"=2m") // the machine may be busy
			if c.namespace {
				daemon.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
			}
			require.NoError(t, daemon.Start())
			t.Cleanup(func() {
				_ = daemon.Process.Kill()
				_ = daemon.Wait() // killed
			})
			eventually(t, "the socket", func() bool {
				info, err := os.Stat(path)
				return err == nil && info.Mode().Perm() == 0o666
			})
			out, err := copyRole(copyingClient, c.clientUID, c.clientForbids).CombinedOutput()
			if c.fails {
				require.Error(t, err)
				assert.Contains(t, string(out), "copies only memory of its own user's processes")
				return
			}
			require.NoError(t, err, "%s", out)
			assert.Equal(t, "sent\n", string(out))
		})
	}
}

// copyRole returns a process of a user.
func copyRole(name string, uid uint32, forbids string) *exec.Cmd {
	c := exec.Command("/proc/self/exe") // the path of the program may not be accessible to another user
	c.Env = append(os.Environ(), roleEnv+"="+name, forbidEnv+"="+forbids)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return c
}

// TestStoppedClient stops a client under traffic that copies its memory for the daemon, and then kills it. Another
// client continues, and nothing of the stopped one remains.
func TestStoppedClient(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("processes of several users take root")
	}
	const other, user = 65534, 65533
	path := socket(t)
	dir := strings.TrimSuffix(path, "/socket")
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chown(dir, other, -1))
	daemon := copyRole(copyingDaemon, other, "")
	daemon.Env = append(daemon.Env, copyEnv+"=all")
	require.NoError(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait() // killed
	})
	c := dial(t)
	status := func() (s kproxy.Status) {
		text, err := c.Status()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &s))
		return s
	}
	for i := range uint32(3) {
		victim := copyRole(victimRole, user-i, "") // a user whose copy took too long is suspended
		victim.Env = append(victim.Env, victimKindEnv+"="+victimLoop)
		require.NoError(t, victim.Start())
		eventually(t, "traffic of the other client", func() bool {
			for _, s := range status().Clients {
				if s.PID == victim.Process.Pid && s.Posts > 20 {
					return true
				}
			}
			return false
		})
		require.NoError(t, victim.Process.Signal(syscall.SIGSTOP))
		done := make(chan error, 1)
		go func() {
			x, err := newLoop(c)
			for i := 0; i < 20 && err == nil; i++ {
				err = x.transfer()
			}
			done <- err
		}()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("a client waits for a stopped one")
		}
		require.NoError(t, victim.Process.Kill())
		_ = victim.Wait() // killed
		eventually(t, "the end of the session", func() bool { return len(status().Clients) == 1 })
	}
	require.NoError(t, c.Close())
}
