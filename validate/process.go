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

// Times that the parent waits for what a worker that works does at once.
const (
	endGrace   = time.Second     // for the end of a process whose results have ended
	drainGrace = 2 * time.Second // for results, and what was printed, of a process that has ended: its children may hold the pipes open
	killGrace  = 5 * time.Second // for the end of a process that was killed: the system may hold it in a driver of its own
	markGrace  = time.Second     // for what a worker has printed
)

// process is a running worker. Its results come as events; what it prints is drained, and the end of it kept.
type process struct {
	cmd     *exec.Cmd
	channel *parentChannel
	events  chan Event    // closed at the end of the results
	quit    chan struct{} // closed when nobody takes events any more
	exited  chan struct{} // closed when the process has ended
	printed *tailBuffer

	// After their channels are closed:
	streamErr error  // events: why the results ended, if not by their end
	state     string // exited: how the process ended

	mu     sync.Mutex
	waited bool // the process was waited for, or is about to be: its number may be another's
	ended  sync.Once
}

// maxOutput bounds what is kept of a worker's output, in bytes.
const maxOutput = 256 << 10

func startProcess(ctx context.Context, spawn func(context.Context, Setting) *exec.Cmd, set Setting) (*process, error) {
	nonce := newNonce()
	cmd := spawn(context.WithoutCancel(ctx), set)
	w := &process{cmd: cmd, events: make(chan Event), quit: make(chan struct{}), exited: make(chan struct{}),
		printed: newTailBuffer(maxOutput, printedMark(nonce))}
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

// wait waits for the end of the process, and kills what it has left in its group.
func (w *process) wait() {
	defer close(w.exited)
	if awaitExit(w.cmd.Process.Pid) {
		w.signalKill()
		w.mu.Lock()
		w.waited = true
		w.mu.Unlock()
	}
	_ = w.cmd.Wait() // the state says more, and a pipe that a child of the worker holds open is no error
	w.mu.Lock()
	w.waited = true
	w.mu.Unlock()
	w.state = "an end that the system did not report"
	if s := w.cmd.ProcessState; s != nil {
		w.state = s.String()
	}
	// What is in the pipe is still read; a child of the worker may hold it open. Where the system has no deadlines, kill ends the read.
	_ = w.channel.results.SetReadDeadline(time.Now().Add(drainGrace))
}

// signalKill kills the process and its group, unless the process was waited for.
func (w *process) signalKill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waited {
		killGroup(w.cmd.Process)
	}
}

// read passes events on until the results end or the worker is discarded.
func (w *process) read(rd *eventReader) {
	defer close(w.events)
	for first := true; ; first = false {
		e, err := rd.next()
		if err == nil && first && e.Kind != EventHello {
			err = fmt.Errorf("worker stream: begins with %q", e.Kind)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
				w.streamErr = err
			}
			return
		}
		if first {
			continue
		}
		select {
		case w.events <- e:
		case <-w.quit:
			return
		}
	}
}

func (w *process) send(c command) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = w.channel.commands.Write(append(b, '\n'))
	return err
}

// end waits for the end of a process whose results have ended, kills it if it goes on without them, and returns how it ended.
func (w *process) end() string {
	if !w.await(endGrace) {
		w.kill()
		return "its results ended, and the process did not"
	}
	return w.state
}

// await waits for the end of the process, for at most d.
func (w *process) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.exited:
		return true
	case <-timer.C:
		return false
	}
}

// dumpStacks asks the Go runtime of the worker for its goroutines, where the system knows such a signal, and returns what came.
func (w *process) dumpStacks() string {
	if askForStacks(w.cmd.Process) {
		timer := time.NewTimer(2 * time.Second)
		defer timer.Stop()
	drain:
		for {
			select {
			case _, ok := <-w.events:
				if !ok {
					w.await(endGrace)
					break drain
				}
			case <-timer.C:
				break drain
			}
		}
	}
	return w.printed.String()
}

// kill kills the worker with its group, and only then waits for it: for a while, since the system may hold it.
func (w *process) kill() {
	w.ended.Do(func() {
		w.signalKill()
		close(w.quit)
		w.await(killGrace)
		_ = w.channel.close() // ends the read; nothing more is expected of the worker
	})
}
