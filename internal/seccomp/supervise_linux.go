//go:build amd64 || arm64

package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lateChildren is the time after the end of the program when the supervisor assumes that children of it live longer.
const lateChildren = 20 * time.Millisecond

// supervise is the supervisor of a program. to is the process that called Run with a Config of which args are made.
func supervise(to *os.File, args []string) int {
	unix.CloseOnExec(numberOf(to))
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, append(forwarded, syscall.SIGPIPE)...) // signal.Ignore would be inherited
	daemon, err := strconv.Atoi(args[3])
	if err != nil {
		return report(to, &message{Error: err.Error()})
	}
	s, cmd, m := start(&Config{Socket: args[1], Root: args[2], Daemon: daemon, Preload: args[4], Path: args[5],
		Args: args[6:]})
	if m != nil {
		return report(to, m)
	}
	go relay(to, cmd.Process)
	ended := make(chan error, 1)
	go func() { ended <- s.run() }()
	_ = cmd.Wait() // its error is the status
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	m = &message{Status: uint32(status)}
	select {
	case err := <-ended:
		m.Ended = err == nil
		return report(to, m)
	case <-time.After(lateChildren):
	}
	report(to, m)
	silence()
	if err := <-ended; err != nil {
		return 1
	}
	return 0
}

// report sends a message to Run.
func report(to *os.File, m *message) int {
	b, err := json.Marshal(m)
	if err == nil {
		_, err = to.Write(b)
	}
	if err != nil {
		return 1
	}
	return 0
}

// relay passes on signals to the program, and kills it when the process that called Run has ended.
func relay(from *os.File, program *os.Process) {
	b := make([]byte, 1)
	for {
		n, err := from.Read(b)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil || n == 0:
			_ = program.Kill() // it may have ended
			return
		}
		_ = program.Signal(syscall.Signal(b[0]))
	}
}

// silence replaces the standard files, so that readers of the program's output see its end.
func silence() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 3 {
		_ = unix.Dup3(numberOf(null), fd, 0) // the numbers are valid
	}
}

// start starts the program with its filter.
func start(c *Config) (*supervisor, *exec.Cmd, *message) {
	fail := func(err error) (*supervisor, *exec.Cmd, *message) { return nil, nil, &message{Error: err.Error()} }
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fail(err)
	}
	s := &supervisor{socket: c.Socket, root: c.Root, preload: c.Preload, numbers: spanFor(limit.Max), kept: newKept(),
		files: map[inode]*device{}, ports: map[uint64]uint32{}}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	mine, theirs, err := socketPair()
	if err != nil {
		return fail(err)
	}
	defer mine.Close()
	cmd := exec.Command(self, append([]string{filteredArg, strconv.Itoa(s.numbers.first),
		strconv.Itoa(s.numbers.end), strconv.Itoa(c.Daemon), c.Path}, c.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return fail(err)
	}
	b, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(numberOf(mine), b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || oobn == 0 {
		_ = cmd.Wait() // it ends with an error
		return nil, nil, &message{Unavailable: true, Error: string(b[:max(0, n)])}
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err == nil {
		var fds []int
		if fds, err = unix.ParseUnixRights(&messages[0]); err == nil {
			s.listener = fds[0]
		}
	}
	if err != nil {
		return fail(err)
	}
	if err := checkAccess(cmd.Process.Pid); err != nil {
		mine.Close()
		_ = cmd.Wait() // it ends with an error
		return nil, nil, &message{Unavailable: true, Error: err.Error()}
	}
	if _, err := mine.WriteString("start"); err != nil {
		return fail(err)
	}
	return s, cmd, nil
}

// filtered installs the filter in this process, and replaces it by the program when the supervisor says so. args are
// the range of numbers, the process id of the daemon, and the program's path and arguments.
func filtered(supervisor *os.File, args []string) int {
	const exitFailed, exitNotFound = 125, 127
	fd := numberOf(supervisor)
	unix.CloseOnExec(fd)
	var s span
	var daemon int
	if len(args) < 4 {
		return exitFailed
	}
	if _, err := fmt.Sscan(args[0]+" "+args[1]+" "+args[2], &s.first, &s.end, &daemon); err != nil {
		return exitFailed
	}
	listener, err := listen(s, daemon)
	if err != nil {
		_, _ = supervisor.WriteString(err.Error()) // the supervisor may have ended
		return exitFailed
	}
	if err := unix.Sendmsg(fd, []byte("listener"), unix.UnixRights(listener), nil, 0); err != nil {
		return exitFailed
	}
	if n, err := supervisor.Read(make([]byte, 16)); err != nil || n == 0 {
		return exitFailed
	}
	err = syscall.Exec(args[3], args[4:], os.Environ())
	fmt.Fprintf(os.Stderr, "ddkrun: the program cannot be started: %s: %v\n", args[3], err)
	return exitNotFound
}
