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

	"ciddk/kproxy/devices"
	"ciddk/ual"
)

const (
	// daemonArg is the argument with which ddkrun runs as the daemon of a user.
	daemonArg = "-daemon"
	// verbsSuffix is what the path of a daemon's socket for verbs programs ends with.
	verbsSuffix    = ".verbs"
	defaultAddress = "127.0.0.1"
	daemonIdle     = "30m"

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
	tree   []devices.Entry
}

// errNoDaemon is the error when no daemon is running.
var errNoDaemon = errors.New("no daemon is running")

// userSocket returns the path of the socket of the user's daemon.
func userSocket() string { return filepath.Join(runtimeDir(), "socket") }

// findDaemon returns the daemon of a socket, or else the one of the environment, of the machine, or of the user. If
// there is none, it starts the one of the user, or returns errNoDaemon.
func findDaemon(socket string, start bool) (*daemon, error) {
	if socket == "" {
		socket = os.Getenv("DDKD_SOCKET")
	}
	if socket != "" {
		return reach(socket)
	}
	if d, err := reach(ual.DefaultPath); err == nil {
		return d, nil
	}
	if _, err := privateDir(); err != nil { // a daemon there may be that of another user
		return nil, err
	}
	if d, err := reach(userSocket()); err == nil {
		return d, nil
	}
	if !start {
		return nil, errNoDaemon
	}
	return startDaemon()
}

// reach returns the daemon with a socket.
func reach(socket string) (*daemon, error) {
	tree, pid, err := devices.ReadTree(socket+verbsSuffix, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &daemon{socket: socket + verbsSuffix, pid: pid, tree: tree}, nil
}

// startDaemon starts the daemon of the user. Of several processes that do so at once, one does.
func startDaemon() (*daemon, error) {
	dir, err := privateDir()
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if d, err := reach(userSocket()); err == nil {
		return d, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for _, adapter := range defaultAdapters {
		var d *daemon
		if d, err = startWith(self, adapter, log); !errors.Is(err, errEnded) {
			return d, err
		}
	}
	text, _ := os.ReadFile(log.Name()) // without it, the error is still right
	return nil, fmt.Errorf("%w (start ddkd with another adapter, and set DDKD_SOCKET): %s", err, bytes.TrimSpace(text))
}

// startWith starts the daemon of the user with an adapter, and returns it when it answers, or errEnded.
func startWith(self, adapter string, log *os.File) (*daemon, error) {
	cmd := exec.Command(self, daemonArg, "serve", "--socket", userSocket(), "--adapter", adapter, "--idle", daemonIdle)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return await(exited, log.Name())
}

// await returns the daemon that was started when it answers.
func await(exited <-chan error, log string) (*daemon, error) {
	late, tick := time.After(startTimeout), time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		d, err := reach(userSocket())
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
