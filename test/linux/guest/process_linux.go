package guest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is the time within which a killed command must end.
const grace = 10 * time.Second

// drainTime limits the wait for the output of a command that has ended, because its children may hold the pipes.
const drainTime = time.Minute

// Result is the result of a command that ended by itself.
type Result struct {
	Code           int // exit code; 128+n after signal n
	Stdout, Stderr string
}

// Process is a command that was started, in a guest or on the host's side of a network.
type Process struct {
	ctx            context.Context // of Start
	name           string
	stdout, stderr buffer
	done           chan struct{} // closed when code and err are set
	code           int
	err            error
}

func newProcess(ctx context.Context, args []string) *Process {
	return &Process{ctx: ctx, name: strings.Join(args, " "), done: make(chan struct{})}
}

// Wait waits until the command has ended and its output is complete, at most until the context of Start ends. The error
// is nil for any exit code. It is not nil if the command did not start, if it was killed because the context ended, or
// if the guest has ended.
func (p *Process) Wait() (Result, error) {
	<-p.done
	r := Result{Code: p.code, Stdout: p.stdout.String(), Stderr: p.stderr.String()}
	err := p.err
	if err == nil && p.ctx.Err() != nil && p.code == 128+int(unix.SIGKILL) {
		err = fmt.Errorf("killed: %w", context.Cause(p.ctx))
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w; stdout %q, stderr %q", p.name, err, r.Stdout, r.Stderr)
	}
	return r, nil
}

// Output returns what the command has written to its standard output so far.
func (p *Process) Output() string { return p.stdout.String() }

// WaitOutput waits until the command has written text to its standard output, and in a guest, flushed it. It fails when
// the command or ctx ends before.
func (p *Process) WaitOutput(ctx context.Context, text string) error {
	for {
		grown := p.stdout.next()
		if strings.Contains(p.stdout.String(), text) {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("%s: no %q in the output: %w; stdout %q, stderr %q", p.name, text, context.Cause(ctx),
				p.stdout.String(), p.stderr.String())
		case <-p.done:
			if strings.Contains(p.stdout.String(), text) {
				return nil
			}
			return fmt.Errorf("%s: it ended without %q; stdout %q, stderr %q", p.name, text, p.stdout.String(),
				p.stderr.String())
		}
	}
}

// buffer collects output while it may be read.
type buffer struct {
	mu    sync.Mutex
	b     []byte
	grown chan struct{} // closed by the next Write; nil without a waiter
	// limit drops the oldest bytes above it; 0 keeps all.
	limit int
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, p...)
	if b.grown != nil {
		close(b.grown)
		b.grown = nil
	}
	if b.limit > 0 && len(b.b) > b.limit {
		b.b = append(b.b[:0], b.b[len(b.b)-b.limit:]...)
	}
	return len(p), nil
}

// next returns a channel that the next Write closes.
func (b *buffer) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grown == nil {
		b.grown = make(chan struct{})
	}
	return b.grown
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b)
}

// start runs a command of the host in the namespace, in a process group of its own.
func (n *namespace) start(ctx context.Context, args []string) (*Process, error) {
	if len(args) == 0 {
		return nil, errors.New("guest: no command given")
	}
	p := newProcess(ctx, args)
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdout, c.Stderr = &p.stdout, &p.stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	c.WaitDelay = drainTime
	if err := n.do(func() error {
		err := c.Start()
		if err == nil {
			n.processes.Add(1)
			n.mu.Lock()
			n.live[c.Process] = struct{}{}
			n.mu.Unlock()
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	go func() {
		defer n.processes.Done()
		defer close(p.done)
		if err := c.Wait(); errors.Is(err, exec.ErrWaitDelay) { // otherwise, the state tells more
			p.err = fmt.Errorf("a child held the output for %v after the end: %w", drainTime, err)
		}
		n.mu.Lock()
		delete(n.live, c.Process)
		n.mu.Unlock()
		p.code = c.ProcessState.ExitCode()
		if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			p.code = 128 + int(ws.Signal())
		}
	}()
	return p, nil
}

// run calls start and Wait. An exit code other than 0 is an error.
func (n *namespace) run(ctx context.Context, args ...string) error {
	p, err := n.start(ctx, args)
	if err != nil {
		return err
	}
	r, err := p.Wait()
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", p.name, r.Code, strings.TrimSpace(r.Stderr))
	}
	return err
}
