package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/private"
	"ciddk/internal/version"
	"ciddk/ual"
)

const (
	// verbsSuffix is what the path of a daemon's socket for verbs programs ends with.
	verbsSuffix    = ".verbs"
	socketName     = "socket"  // of the user's daemon, in the runtime directory
	runningName    = "running" // a file that the user's daemon has locked until it ends
	defaultAddress = "127.0.0.1"

	dialTimeout  = 5 * time.Second
	startTimeout = 30 * time.Second
	startPoll    = 10 * time.Millisecond
)

// defaultAdapters are the settings of the adapter of a user's daemon, in the order in which they are tried. The second
// one needs no socket: the UDP port may belong to the daemon of another user, or the loopback interface may be down.
var defaultAdapters = []string{"address=" + defaultAddress, "link=network,address=" + defaultAddress}

// errEnded is the error when the daemon of the user ended at once.
var errEnded = errors.New("the daemon of the user ended at once")

// daemon is a daemon that answers.
type daemon struct {
	socket string // for verbs programs
	pid    int
	uid    int
	tree   []devices.Entry
	build  string // what it was built from
}

// errVersion is wrapped by errors of daemons that speak another version of the protocol.
var errVersion = errors.New("a daemon of another version")

// errNoDaemon is the error when no daemon is running.
var errNoDaemon = errors.New("no daemon is running")

// findDaemon returns the daemon of a socket, or else the one of the environment, for which it waits until wait is over,
// or else the one of the machine, or of the user. If there is none, it starts the one of the user, which ends when it
// was idle for a time, or returns errNoDaemon for a negative time.
func findDaemon(socket string, idle, wait time.Duration) (*daemon, error) {
	if socket == "" {
		socket = os.Getenv("DDKD_SOCKET")
	}
	if socket != "" {
		return reachWithin(socket, wait)
	}
	if d, err := reach(ual.DefaultPath); err == nil || errors.Is(err, errVersion) {
		return d, err
	}
	dir, err := privateDir()
	if err != nil {
		return nil, err
	}
	if d, err := reachOwn(dir); err == nil || errors.Is(err, errVersion) {
		return d, err
	}
	if idle < 0 {
		return nil, errNoDaemon
	}
	return startDaemon(dir, idle)
}

// reach returns the daemon with a socket. With errVersion, it returns one, too, which can only be stopped.
func reach(socket string) (*daemon, error) {
	tree, peer, err := devices.ReadTree(socket+verbsSuffix, dialTimeout)
	if err != nil {
		return nil, err
	}
	build, err := devices.CheckVersion(tree, version.Of("ddkrun"))
	if err != nil {
		err = fmt.Errorf("%w, process %d at %s: %w", errVersion, peer.PID, socket, err)
	}
	return &daemon{socket: socket + verbsSuffix, pid: peer.PID, uid: peer.UID, tree: tree, build: build}, err
}

// reachOwn returns the daemon of the user, whose runtime directory is dir.
func reachOwn(dir string) (*daemon, error) {
	d, err := reach(filepath.Join(dir, socketName))
	if d == nil {
		return nil, err
	}
	if err := private.CheckUser(d.uid); err != nil {
		return nil, err
	}
	if err != nil {
		err = fmt.Errorf("%w (ddkrun --stop ends it)", err)
	}
	return d, err
}

// startDaemon starts the daemon of the user. Of several processes that do so at once, one does.
func startDaemon(dir string, idle time.Duration) (*daemon, error) {
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if d, err := reachOwn(dir); err == nil {
		return d, nil
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for _, adapter := range defaultAdapters {
		var d *daemon
		if d, err = startWith(dir, adapter, idle, log); !errors.Is(err, errEnded) {
			return d, err
		}
	}
	text, _ := os.ReadFile(log.Name()) // without it, the error is still right
	return nil, fmt.Errorf("%w (start ddkd with another adapter, and set DDKD_SOCKET): %s", err, bytes.TrimSpace(text))
}

// lockFile returns a file with a lock that its descriptor holds. It waits until no other process has it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: flock: %w", path, err), f.Close())
	}
	return f, nil
}

// startWith starts the daemon of the user with an adapter, and returns it when it answers, or errEnded. A process
// between this one and the daemon ends then, so that the daemon is no child of the program that replaces this process:
// it may wait for all its children.
func startWith(dir, adapter string, idle time.Duration, log *os.File) (*daemon, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, detachArg, filepath.Join(dir, runningName), "serve", "--socket",
		filepath.Join(dir, socketName), "--adapter", adapter, "--idle", max(idle, minIdle).String())
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	d, err := await(dir, exited, log.Name())
	if !errors.Is(err, errEnded) {
		_ = cmd.Process.Kill() // it may have ended
		<-exited               //nolint:errcheck // that of a process which was killed
	}
	return d, err
}

// await returns the daemon that was started when it answers.
func await(dir string, exited <-chan error, log string) (*daemon, error) {
	late, tick := time.After(startTimeout), time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		d, err := reachOwn(dir)
		if err == nil {
			return d, nil
		}
		select {
		case status := <-exited:
			return nil, fmt.Errorf("%w: %w", errEnded, status)
		case <-late:
			return nil, fmt.Errorf("the daemon of the user does not answer: %w (its log is %s)", err, log)
		case <-tick.C:
		}
	}
}

// minIdle is the time without a client after which a daemon ends with its last one.
const minIdle = time.Second

// stopTime is the time in which a daemon that was told to must end. Its clients have 5 s to end their work.
const stopTime = 30 * time.Second

// stopDaemon ends the daemon of the user, and returns when it has ended. It is not an error that there is none.
func stopDaemon() error {
	dir, err := privateDir()
	if err != nil {
		return err
	}
	if d, _ := reachOwn(dir); d != nil { // else there is none, or it is ending
		if err := endProcess(dir, d.pid); err != nil {
			return fmt.Errorf("the daemon of the user, process %d: %w", d.pid, err)
		}
	}
	running, err := os.OpenFile(filepath.Join(dir, runningName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer running.Close()
	end := time.Now().Add(stopTime)
	for {
		err := syscall.Flock(int(running.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // a daemon has it until it ends
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return err
		case time.Now().After(end):
			return fmt.Errorf("the daemon of the user has not ended after %v (its log is in %s)", stopTime, dir)
		}
		time.Sleep(startPoll)
	}
}

// endProcess has the daemon end. The number of a daemon that has ended already may be that of another process.
func endProcess(dir string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if again, _ := reachOwn(dir); again == nil || again.pid != pid {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
