package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

const (
	// programsVariable has the directory of the programs, in the namespaces of the tests.
	programsVariable = "CIDDK_KUBERNETES_PROGRAMS"
	// containerVariable makes the test's program the first process of a container.
	containerVariable = "CIDDK_KUBERNETES_CONTAINER"
)

// programs is the directory of ddk-dra, ddkd and ddkrun.
var programs = os.Getenv(programsVariable)

// numUsers is the number of users in the namespace, if the tests run as root.
const numUsers = 1 << 16

// errSpaces is why no test can run, or nil.
var errSpaces error

// TestMain runs the tests as root of a user namespace, with a mount and a network namespace. The tests need no right
// outside of it.
func TestMain(m *testing.M) {
	if os.Getenv(containerVariable) != "" {
		fmt.Fprintln(os.Stderr, runContainer())
		os.Exit(125)
	}
	if programs == "" {
		status, err := runInSpaces()
		if err == nil {
			os.Exit(status)
		}
		errSpaces = err
	} else if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		errSpaces = fmt.Errorf("ip link: %w: %s", err, out)
	}
	goleak.VerifyTestMain(m)
}

// runInSpaces builds the programs and runs this program again, in namespaces.
func runInSpaces() (status int, err error) {
	dir, err := os.MkdirTemp("", "ddk")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // daemons can have another user
		return 0, err
	}
	for _, args := range [][]string{{"-C", "../../..", "build", "-o", dir + "/", "./cmd/ddkd", "./cmd/ddkrun"},
		{"build", "-o", dir + "/", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = filepath.Base(os.Args[0])
	cmd.Env = append(os.Environ(), programsVariable+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	size := 1
	if os.Geteuid() == 0 { // all users, so that daemons can have another one
		size = numUsers
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: size}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: size}},

		GidMappingsEnableSetgroups: size > 1,
	}
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// need skips a test that cannot run here.
func need(t *testing.T, tools ...string) {
	t.Helper()
	if errSpaces != nil {
		t.Skip("no namespaces of a user: ", errSpaces)
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
}
