package through

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"ciddk/kproxy/native"
)

// process is a daemon process, as its worker sees it.
type process struct {
	cmd *exec.Cmd
	c   *native.Conn
	out *output

	done  chan struct{} // closed when the process has ended
	ended chan struct{} // closed when its end has been recorded

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan *reply
	lost  error // the connection has ended
	state string
}

// endGrace is the time in which a process that has closed its socket must end.
const endGrace = 500 * time.Millisecond

// newProcess starts this program again as a daemon process for a driver.
func newProcess(driver string) (*process, error) {
	if os.Getenv(daemonVar) == driver {
		return nil, fmt.Errorf("through: this is the daemon process of driver %s, which has not called Serve", driver)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, theirs, err := native.FilePair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p := &process{cmd: exec.Command(exe, os.Args[1:]...), c: c, out: new(output), done: make(chan struct{}),
		ended: make(chan struct{}), calls: map[uint64]chan *reply{}}
	p.cmd.Env = append(os.Environ(), daemonVar+"="+driver, "GOTRACEBACK=all")
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.Stdout = io.MultiWriter(p.out, os.Stdout)
	p.cmd.Stderr = io.MultiWriter(p.out, os.Stderr)
	p.cmd.WaitDelay = endGrace
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go p.wait()
	go p.read()
	return p, nil
}

// wait waits for the end of the process.
func (p *process) wait() {
	_ = p.cmd.Wait() // ProcessState has the details
	p.mu.Lock()
	p.state = p.cmd.ProcessState.String()
	p.mu.Unlock()
	close(p.done)
}

// read receives replies until the connection ends.
func (p *process) read() {
	buf := make([]byte, maxMessage)
	for {
		r := new(reply)
		files, err := receive(p.c, buf, r)
		closeAll(files) // a reply has none
		if err != nil {
			p.end(err)
			close(p.ended)
			return
		}
		p.mu.Lock()
		c := p.calls[r.ID]
		delete(p.calls, r.ID)
		p.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
}

// end ends all calls. A process that has closed its socket is killed if it does not end by itself.
func (p *process) end(err error) {
	p.c.Close()
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	how := ""
	select {
	case <-p.done:
	case <-timer.C:
		how = "closed its socket to the certifier"
		if !errors.Is(err, io.EOF) {
			how = "sent the certifier a message of an unknown form"
		}
		_ = p.cmd.Process.Kill() // it may have ended meanwhile
		<-p.done
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = cmp.Or(how, p.state)
	p.lost = fmt.Errorf("the driver's process has ended: %s%s", p.state, p.out.last())
	for _, c := range p.calls {
		close(c)
	}
	p.calls = nil
}

// start sends a request.
func (p *process) start(r *request, files ...*os.File) (id uint64, done chan *reply, err error) {
	done = make(chan *reply, 1)
	p.mu.Lock()
	if p.calls == nil {
		defer p.mu.Unlock()
		return 0, nil, p.lost
	}
	p.next++
	r.ID = p.next
	p.calls[r.ID] = done
	p.mu.Unlock()
	if err := send(p.c, r, files...); err != nil {
		p.mu.Lock()
		delete(p.calls, r.ID)
		p.mu.Unlock()
		return 0, nil, err
	}
	return r.ID, done, nil
}

// call sends a request and waits for its reply. When the context ends, it cancels the request, and waits for its reply
// nevertheless: a packet that was received meanwhile is not lost.
func (p *process) call(ctx context.Context, r *request, files ...*os.File) (*reply, error) {
	id, done, err := p.start(r, files...)
	if err != nil {
		return nil, p.explain(err)
	}
	var x *reply
	select {
	case x = <-done:
	case <-ctx.Done():
		if _, _, err := p.start(&request{Op: opCancel, Handle: id}); err != nil {
			return nil, p.explain(err)
		}
		select {
		case x = <-done:
		case <-time.After(endGrace):
			return nil, fmt.Errorf("the driver's process does not reply to %q: %w", r.Op, context.Cause(ctx))
		}
	}
	if x == nil {
		return nil, p.explain(nil)
	}
	if x.Failure != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, x.Failure
	}
	return x, nil
}

// explain returns the end of the process in place of an error that it caused.
func (p *process) explain(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil {
		return p.lost
	}
	return err
}

// exited reports whether the process has ended. It makes a call, so that an end that is in progress is noticed.
func (p *process) exited() (state, printed string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if _, err := p.call(ctx, &request{Op: opPing}); err == nil || ctx.Err() != nil {
		return "", "", false
	}
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.out.text(), true
}

// pingTimeout limits the time that exited waits for a process that does not run.
const pingTimeout = 5 * time.Second

// isLost reports whether the connection has ended.
func (p *process) isLost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls == nil
}

// kill ends the process.
func (p *process) kill() {
	p.c.Close()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}
