//go:build amd64 || arm64

package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config describes a program to run.
type Config struct {
	Socket string // of the daemon, for verbs programs
	Root   string // directory with the files of the tree
	Daemon int    // process id of the daemon
	// Preload is the path of a library that dynamic programs preload, "" for none.
	Preload string
	Path    string // of the program
	Args    []string
	Env     []string
}

// ErrUnavailable is wrapped by errors of systems that do not permit this carrier.
var ErrUnavailable = errors.New("seccomp user notification is not available")

// The first arguments of the processes that Run starts.
const (
	superviseArg = "-seccomp-supervise"
	filteredArg  = "-seccomp-filtered"
	checkArg     = "-seccomp-check"
)

// channelFD is the number of the socket that the two processes inherit.
const channelFD = 3

// message is what a supervisor sends to Run.
type message struct {
	Error       string
	Unavailable bool
	Status      uint32 // syscall.WaitStatus
	Ended       bool   // so has the supervisor
}

// forwarded are the signals that Run passes on to the program. The keys of a terminal reach the program by themselves.
var forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT,
	syscall.SIGQUIT}

// Run runs a program by this executable, whose main function calls Main, and returns its exit status. If a signal ends
// the program, it ends this process, too. Error: ErrUnavailable.
func Run(c Config) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	mine, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer mine.Close()
	signals := make(chan os.Signal, len(forwarded))
	signal.Notify(signals, forwarded...)
	defer func() {
		signal.Stop(signals)
		close(signals)
	}()
	cmd := exec.Command(self, append([]string{superviseArg, c.Socket, c.Root, strconv.Itoa(c.Daemon), c.Preload,
		c.Path}, c.Args...)...)
	cmd.Env = c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			if IsFromTerminal(s) {
				continue
			}
			_, _ = mine.Write([]byte{byte(s.(syscall.Signal))}) // the supervisor may have ended
		}
	}()
	m, err := awaitStatus(mine)
	if err != nil || m.Ended {
		_ = cmd.Wait() // its status is not of interest
	}
	if err != nil {
		return 0, err
	}
	status := syscall.WaitStatus(m.Status)
	if status.Signaled() {
		if status.Signal() == syscall.SIGSEGV {
			fmt.Fprintln(os.Stderr, "ddkrun: SIGSEGV ended the program, which had the carrier seccomp (without it: "+
				"ddkrun --carrier preload, if the program is a dynamic one)")
		}
		setDefault(status.Signal())
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // the program has dumped its own core
		_ = syscall.Kill(os.Getpid(), status.Signal())       // it works for a process itself
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// IsFromTerminal reports whether a signal is one of those that keys of a terminal send to all its processes, and this
// process has a terminal.
func IsFromTerminal(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && hasTerminal()
}

func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err == nil {
		f.Close()
	}
	return err == nil
}

// awaitStatus receives the status of the program.
func awaitStatus(supervisor *os.File) (m message, err error) {
	b := make([]byte, 64<<10)
	n, err := supervisor.Read(b)
	if err == nil {
		err = json.Unmarshal(b[:n], &m)
	}
	switch {
	case err != nil:
		return m, errors.New("the supervisor of the program was killed")
	case m.Unavailable:
		return m, fmt.Errorf("%w: %s", ErrUnavailable, m.Error)
	case m.Error != "":
		return m, errors.New(m.Error)
	}
	return m, nil
}

// socketPair returns two ends that keep messages apart.
func socketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "seccomp"), os.NewFile(uintptr(fds[1]), "seccomp"), nil
}

// Main executes the processes that Run starts. It reports false if args are not those of one of them, and otherwise
// the exit status.
func Main(args []string) (status int, ok bool) {
	switch {
	case len(args) > 6 && args[0] == superviseArg:
		return supervise(os.NewFile(channelFD, "run"), args), true
	case len(args) > 0 && args[0] == filteredArg:
		return filtered(os.NewFile(channelFD, "supervisor"), args[1:]), true
	}
	if len(args) == 1 && args[0] == checkArg {
		return check(), true
	}
	return 0, false
}

// Check reports whether Run works here. Error: ErrUnavailable.
func Check() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, checkArg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	end, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	access := checkAccess(cmd.Process.Pid)
	end.Close()
	switch err := cmd.Wait(); {
	case err != nil:
		return fmt.Errorf("%w: %s", ErrUnavailable, &out)
	case access != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, access)
	}
	return nil
}

// check is the process that Check starts.
func check() int {
	if _, err := listen(spanFor(1024), 0); err != nil {
		fmt.Print(err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has tried to read memory
	return 0
}
