package validate_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
)

// The descriptors of a worker's channel. They are the first ones after standard error.
const (
	commandsFD = 3
	resultsFD  = 4
)

// childVar makes this binary a process that only holds its inherited descriptors open.
const childVar = "VALIDATE_TEST_CHILD"

func init() {
	if os.Getenv(childVar) != "" {
		<-time.After(30 * time.Second)
		os.Exit(0)
	}
	maps.Copy(hostileActs, map[string]func() error{
		"ignore signals": func() error {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
			select {}
		},
		"stop": func() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
		"write results": func() error {
			b := []byte(`{"kind":"result","result":{"case":"a.pd","status":"pass","level":"MUST"}}` + "\n")
			_, err := syscall.Write(resultsFD, b)
			return errors.Join(err, errors.New("broken"))
		},
		"garbage in results": func() error {
			_, err := syscall.Write(resultsFD, []byte("no newline"))
			return err
		},
		"flood results": func() error {
			for b := bytes.Repeat([]byte("x"), 1<<16); ; {
				if _, err := syscall.Write(resultsFD, b); err != nil {
					return err
				}
			}
		},
		"close results": func() error {
			if err := syscall.Close(resultsFD); err != nil {
				return err
			}
			select {}
		},
		"replace results": func() error {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return err
			}
			return syscall.Dup2(int(f.Fd()), resultsFD)
		},
		"close commands": func() error { return syscall.Close(commandsFD) },
		"close all": func() error {
			for fd := range 64 {
				_ = syscall.Close(fd)
			}
			return nil
		},
		"child that stays":   func() error { return startChild(false) },
		"child of a session": func() error { return startChild(true) },
		"child, then fail":   func() error { return errors.Join(startChild(false), errors.New("broken")) },
		"child, then end": func() error {
			if err := startChild(true); err != nil {
				return err
			}
			os.Exit(5)
			return nil
		},
	})
}

// startChild starts a process that holds standard output, standard error and the channel open, in the worker's group or
// in a new session.
func startChild(session bool) error {
	files := []uintptr{0, 1, 2, commandsFD, resultsFD}
	pid, err := syscall.ForkExec(os.Args[0], []string{os.Args[0]}, &syscall.ProcAttr{
		Env: []string{childVar + "=1"}, Files: files, Sys: &syscall.SysProcAttr{Setsid: session},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "child %d\n", pid)
	return nil
}

// childOf returns the process id of the child that a driver has started.
func childOf(t *testing.T, printed []string) (pid int) {
	t.Helper()
	for _, l := range printed {
		if n, _ := fmt.Sscanf(l, "child %d", &pid); n == 1 {
			return pid
		}
	}
	t.Fatalf("no child in %q", printed)
	return 0
}

// TestHostileToChannel checks drivers that damage the channel or leave children. The case ends in time, and a broken
// driver does not pass.
func TestHostileToChannel(t *testing.T) {
	for _, x := range []struct {
		act   string
		want  validate.Status
		cause validate.Cause // "": any
	}{
		{"ignore signals", validate.Fail, validate.CauseHang},
		{"stop", validate.Fail, validate.CauseHang},
		{"write results", validate.Fail, validate.CauseResults},
		{"garbage in results", validate.Fail, validate.CauseResults},
		{"flood results", validate.Fail, validate.CauseResults},
		{"close results", validate.Fail, validate.CauseDeath},
		{"replace results", validate.Fail, validate.CauseDeath},
		{"close all", validate.Fail, ""},
		{"child that stays", validate.Pass, ""},
		{"child of a session", validate.Pass, ""},
	} {
		t.Run(x.act, func(t *testing.T) {
			p := hostilePlan(x.act)
			p.Setting.Scale = 0.05
			r := runWithin(t, p, 30*time.Second)
			res := find(r, "a.pd")
			require.NotNil(t, res)
			assert.Equal(t, x.want, res.Status, "%+v", res)
			if x.cause != "" {
				require.NotEmpty(t, res.Failures)
				assert.Equal(t, x.cause, res.Failures[0].Cause, "%+v", res)
			}
		})
	}
}

// TestClosedCommands checks a driver that closes the worker's commands. The worker cannot continue, so the next case
// runs in a new one.
func TestClosedCommands(t *testing.T) {
	p := hostilePlan("close commands")
	p.Workers = 1
	p.Select.Cases = []string{"a.*"}
	r := runWithin(t, p, 30*time.Second)
	for _, res := range r.Results {
		assert.Contains(t, []validate.Status{validate.Pass, validate.Fail}, res.Status, "%+v", res)
	}
}

// TestChildHoldsPipes checks that a child which holds the pipes of an ended worker does not delay the run. A child in
// the worker's group is killed with it.
func TestChildHoldsPipes(t *testing.T) {
	r := runWithin(t, hostilePlan("child, then end"), 30*time.Second)
	res := find(r, "a.pd")
	require.Equal(t, validate.Fail, res.Status)
	assert.Equal(t, "exit status 5", res.Failures[0].Got)
	assert.NoError(t, syscall.Kill(childOf(t, res.Printed), syscall.SIGKILL), "it left the group and was not killed")

	r = runWithin(t, hostilePlan("child, then fail"), 30*time.Second)
	pid := childOf(t, find(r, "a.pd").Printed)
	require.Eventually(t, func() bool { return hasEnded(pid) }, testenv.Patience, 10*time.Millisecond)
}

// hasEnded reports whether a process has ended. A zombie has.
func hasEnded(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}
