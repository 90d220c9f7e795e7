package cli_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/cmd/ddkd/systemd"
	"ciddk/internal/testenv"
	"ciddk/kproxy/native"
	"ciddk/ual"
)

// TestUnits verifies the units with systemd's own program.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	dir := t.TempDir()
	exe, err := os.Executable()
	require.NoError(t, err)
	args := []string{"verify", "--man=no", "--recursive-errors=no"}
	for _, name := range []string{"ddkd.socket", "ddkd.service"} {
		text, err := systemd.Files.ReadFile(name)
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, []byte("/usr/bin/ddkd"), []byte(exe)) // which exists
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		args = append(args, filepath.Join(dir, name))
	}
	out, err := exec.Command(analyze, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Empty(t, string(out))
}

// TestDirectoryOfSocket checks that the service may create sockets beside that of the socket unit, such as that for
// verbs programs, and that the directory with the socket stays when the service stops.
func TestDirectoryOfSocket(t *testing.T) {
	values := map[string]string{}
	for _, name := range []string{"ddkd.socket", "ddkd.service"} {
		text, err := systemd.Files.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				values[key] = value
			}
		}
	}
	assert.Equal(t, filepath.Dir(values["ListenSequentialPacket"]), filepath.Join("/run", values["RuntimeDirectory"]))
	assert.Equal(t, "yes", values["RuntimeDirectoryPreserve"])
	assert.Equal(t, values["User"], values["SocketUser"])
	assert.Equal(t, values["Group"], values["SocketGroup"])
}

// TestExampleConfig checks the example of the configuration with the program itself.
func TestExampleConfig(t *testing.T) {
	text, err := systemd.Files.ReadFile("ddkd.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ddkd.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"check", file}, &out, &errs), errs.String())
	assert.Contains(t, out.String(), "interface: eth0")
	assert.Contains(t, out.String(), "drain: 5s")
}

// service is what systemd is to a daemon: it has the listening socket and receives notifications.
type service struct {
	t      *testing.T
	socket *os.File
	states chan string
	notify string // path of its socket
}

func newService(t *testing.T) *service {
	path := socket(t)
	l, err := native.Listen(path)
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	s := &service{t: t, socket: f, states: make(chan string, 1000), notify: path + "-notify"}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.notify, Net: "unixgram"})
	require.NoError(t, err)
	var wait sync.WaitGroup
	wait.Go(func() {
		b := make([]byte, 1024)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			s.states <- string(b[:n])
		}
	})
	t.Cleanup(func() {
		f.Close()
		c.Close()
		wait.Wait()
	})
	return s
}

// start starts a daemon with the socket, and returns when it is ready.
func (s *service) start(watchdog bool) *exec.Cmd {
	// The shell sets the process number that the daemon compares with its own.
	exe, err := os.Executable()
	require.NoError(s.t, err)
	c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$0"`, exe)
	c.Env = append(os.Environ(), roleEnv+"=service", "LISTEN_FDS=1", "NOTIFY_SOCKET="+s.notify)
	if watchdog {
		c.Env = append(c.Env, "WATCHDOG_USEC=20000")
	}
	c.ExtraFiles = []*os.File{s.socket}
	require.NoError(s.t, c.Start())
	s.await("READY=1")
	return c
}

// await waits for a notification.
func (s *service) await(state string) {
	late := time.After(testenv.Patience)
	for {
		select {
		case got := <-s.states:
			if got == state {
				return
			}
		case <-late:
			s.t.Fatal("no", state)
		}
	}
}

// stop stops a daemon as systemd does.
func (s *service) stop(c *exec.Cmd) {
	require.NoError(s.t, c.Process.Signal(syscall.SIGTERM))
	s.await("STOPPING=1")
	require.NoError(s.t, c.Wait(), "the exit status of a daemon that SIGTERM stops")
}

// TestSocketActivation restarts a daemon with systemd's socket five times while clients connect all the time. Every
// connection succeeds, and a client that uses an adapter is informed before its daemon exits.
func TestSocketActivation(t *testing.T) {
	s := newService(t)
	c := s.start(true)
	s.await("WATCHDOG=1")
	var dials atomic.Int64
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				x, err := ual.Dial(ual.Config{Name: "dial"})
				if !assert.NoError(t, err) {
					return
				}
				dials.Add(1)
				assert.NoError(t, x.Close())
			}
		})
	}
	for range 5 {
		user := dial(t)
		hcas, err := user.HCAs()
		require.NoError(t, err)
		fatal := make(chan struct{}, 4)
		ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(e ci.Event) {
			if e.Type == ci.EventLocalFatal {
				fatal <- struct{}{}
			}
		}, nil)
		require.NoError(t, err)
		before := dials.Load()
		eventually(t, "connections", func() bool { return dials.Load() > before+10 })
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.stop(c)
		}()
		<-fatal
		_, err = ca.Query() // a client has the time to end its work
		require.NoError(t, err)
		require.NoError(t, user.Close())
		<-stopped
		c = s.start(false)
	}
	close(done)
	wait.Wait()
	s.stop(c)
	path := os.Getenv("DDKD_SOCKET")
	assert.FileExists(t, path, "the socket is systemd's")
}

// TestDrainDeadline stops a daemon whose client does not end. It exits with status 0 after the time that is configured.
func TestDrainDeadline(t *testing.T) {
	s := newService(t)
	c := s.start(false)
	x := dial(t)
	_, err := newLoop(x)
	require.NoError(t, err)
	s.stop(c)
	require.NoError(t, x.Close())
}

// TestWrongSocket starts a daemon with a socket of another type.
func TestWrongSocket(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket(t), Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	f, err := l.File()
	require.NoError(t, err)
	defer f.Close()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, exe)
	c.Env = append(os.Environ(), roleEnv+"=service", "LISTEN_FDS=1")
	c.ExtraFiles = []*os.File{f}
	var errs strings.Builder
	c.Stdout, c.Stderr = io.Discard, &errs
	require.Error(t, c.Run())
	assert.Contains(t, errs.String(), "ListenSequentialPacket")
}
