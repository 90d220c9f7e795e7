package validate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Times that the parent waits for what a healthy worker does at once.
const (
	endGrace   = 10 * time.Second // for the exit of a process that has closed its results
	drainGrace = 2 * time.Second  // for the output of a process that has exited: its children may hold the pipes open
	killGrace  = 5 * time.Second  // for the exit of a process that was killed: a kernel driver may delay it
	markGrace  = time.Second      // for the mark after a worker's output
)

// process is a running worker. It receives the worker's events, and keeps the beginning and the end of its output.
type process struct {
	cmd     *exec.Cmd
	channel *parentChannel
	events  chan Event    // closed at the end of the results
	quit    chan struct{} // closed when no more events are received
	exited  chan struct{} // closed when the process has ended
	printed *tailBuffer

	// Set before the channel named is closed:
	streamErr error  // events: why the results ended, or nil after a regular end
	state     string // exited: exit state of the process

	mu     sync.Mutex
	waited bool // the process was waited for, or is about to be: its id may be reused
	ended  sync.Once
}

// maxOutput limits the bytes that are kept of a worker's output.
const maxOutput = 256 << 10

func startProcess(ctx context.Context, spawn func(context.Context, Setting) *exec.Cmd, set Setting) (*process, error) {
	nonce := newNonce()
	cmd := spawn(context.WithoutCancel(ctx), set)
	w := &process{
		cmd: cmd, events: make(chan Event), quit: make(chan struct{}), exited: make(chan struct{}),
		printed: newTailBuffer(maxOutput, printedMark(nonce)),
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, w.printed, w.printed
	cmd.WaitDelay = drainGrace
	ownGroup(cmd)
	var err error
	if w.channel, err = newParentChannel(cmd); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, w.channel.closeTheirs(), w.channel.close())
	}
	if err := w.channel.closeTheirs(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(w.channel.commands, nonce); err != nil {
		killGroup(cmd.Process)
		return nil, errors.Join(err, cmd.Wait(), w.channel.close())
	}
	go w.wait()
	go w.read(newEventReader(w.channel.results, nonce))
	return w, nil
}

// wait waits for the end of the process and kills the rest of its process group.
func (p *process) wait() {
	defer close(p.exited)
	if awaitExit(p.cmd.Process.Pid) {
		p.signalKill()
		p.mu.Lock()
		p.waited = true
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // ProcessState has the details, and a pipe that a child holds open is no error
	p.mu.Lock()
	p.waited = true
	p.mu.Unlock()
	p.state = "unknown exit state"
	if s := p.cmd.ProcessState; s != nil {
		p.state = s.String()
	}
	// Events that are left in the pipe are still read. A child of the worker may hold the pipe open, so there is a
	// deadline. On systems without deadlines, kill ends the read.
	_ = p.channel.results.SetReadDeadline(time.Now().Add(drainGrace))
}

// signalKill kills the process and its group, unless the process has been waited for.
func (p *process) signalKill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waited {
		killGroup(p.cmd.Process)
	}
}

// read passes events on until the results end or the worker is killed.
func (p *process) read(rd *eventReader) {
	defer close(p.events)
	for first := true; ; first = false {
		e, err := rd.next()
		if err == nil && first && e.Kind != EventHello {
			err = fmt.Errorf("worker stream: begins with %q", e.Kind)
		}
		if err != nil {
			wasClosed := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed)
			if !wasClosed && !errors.Is(err, io.EOF) {
				p.streamErr = err
			}
			return
		}
		if first {
			continue
		}
		select {
		case p.events <- e:
		case <-p.quit:
			return
		}
	}
}

func (p *process) send(c command) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = p.channel.commands.Write(append(b, '\n'))
	return err
}

// end waits for the end of a process that has closed its results, and kills it after endGrace. It returns how the
// process ended.
func (p *process) end() string {
	if !p.await(endGrace) {
		p.kill()
		return "the process closed its results and did not exit"
	}
	return p.state
}

// await waits at most d for the end of the process, and reports whether it has ended.
func (p *process) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// dumpStacks makes the worker print its goroutines, if the system supports that, and returns the worker's output.
func (p *process) dumpStacks() string {
	if requestStacks(p.cmd.Process) {
		timer := time.NewTimer(2 * time.Second)
		defer timer.Stop()
	drain:
		for {
			select {
			case _, ok := <-p.events:
				if !ok {
					p.await(endGrace)
					break drain
				}
			case <-timer.C:
				break drain
			}
		}
	}
	return p.printed.String()
}

// kill kills the worker with its group. It then waits at most killGrace, since a kernel driver may delay the end of a
// process.
func (p *process) kill() {
	p.ended.Do(func() {
		p.signalKill()
		close(p.quit)
		p.await(killGrace)
		_ = p.channel.close() // ends the read
	})
}
