package cli

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	daemoncli "ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
	"ciddk/internal/seccomp"
)

// The first arguments with which ddkrun runs as the daemon of a user, with the command line of ddkd, and as the process
// that starts it, with the path of a file to lock before.
const (
	daemonArg = "-daemon"
	detachArg = "-detach"
)

// mainOfProcess runs a process that ddkrun starts, and reports whether the arguments are those of one.
func mainOfProcess(args []string) (status int, ok bool) {
	switch {
	case len(args) > 0 && args[0] == daemonArg:
		return daemoncli.Main(daemoncli.Config{
			Name:        "ddkrun " + daemonArg,
			Description: "The daemon of a user, as ddkd.",
			Drivers:     []daemoncli.Driver{software.Driver()},
		}, args[1:]), true
	case len(args) > 1 && args[0] == detachArg:
		if err := detach(args[1], args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "ddkrun %s: %v\n", detachArg, err)
			return exitFailed, true
		}
		return 0, true
	}
	return 0, false
}

// detach starts the daemon in a session of its own, and waits for its end. The daemon has no descriptors except for its
// log and a lock: somebody may wait until nobody has a pipe, a lock or a socket of ddkrun any more. The lock waits for
// the daemon before, which may have stopped to serve, and removes its socket before it ends.
func detach(running string, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	lock, err := lockFile(running)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := closeOnExec(); err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{daemonArg}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{lock} // until the daemon ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}

// closeOnExec has programs not inherit descriptors, except for the standard ones.
func closeOnExec() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("the descriptors of this process: %w (mount /proc)", err)
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// runAsInit runs a program as a child of this process, which is the first of its PID namespace, and returns the exit
// status. Such a process gets the orphans of all others, such as the daemon, and receives no signal that it does not
// handle. Programs are not made for that.
func runAsInit(path string, args, env []string) (int, error) {
	ended, others := make(chan os.Signal, 1), make(chan os.Signal, 16)
	signal.Notify(others)
	signal.Notify(ended, syscall.SIGCHLD)
	cmd := exec.Cmd{Path: path, Args: args, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for {
		select {
		case <-ended:
			if status, ok := reap(cmd.Process.Pid); ok {
				return status, nil
			}
		case s := <-others:
			if !slices.Contains(ownSignals, s) && !seccomp.IsFromTerminal(s) {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		}
	}
}

// ownSignals are signals that concern this process only.
var ownSignals = []os.Signal{syscall.SIGCHLD, syscall.SIGURG}

// reap removes children that have ended, and returns the exit status of one of them, as a shell does.
func reap(of int) (status int, ended bool) {
	for {
		var w syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &w, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid <= 0:
			return status, ended
		case pid == of && w.Signaled():
			status, ended = 128+int(w.Signal()), true
		case pid == of:
			status, ended = w.ExitStatus(), true
		}
	}
}
