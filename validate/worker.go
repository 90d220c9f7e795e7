package validate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// hangGrace is the time after its deadline in which a case may still end by itself. Its waits have failed by then, and
// cleanup runs. It is scaled with the timeouts.
const hangGrace = 3 * time.Second

// Exit statuses of a worker that exits because of a hang, or because its parent has ended.
const (
	exitHang   = 86
	exitOrphan = 87
)

// ServeWorker runs a worker process. It reads commands from the channel that its parent has opened, runs the cases, and
// writes their results to the channel. It returns when there are no more commands. If a case hangs, it ends the
// process, since nothing else ends a goroutine that is stuck in a driver. It also ends the process if the parent ends.
func ServeWorker(ctx context.Context, c *Catalog, d Driver, s Setting) error {
	ch, err := openWorkerChannel()
	if err != nil {
		return err
	}
	return serveWorker(ctx, c, d, s, ch, os.Exit)
}

func serveWorker(ctx context.Context, c *Catalog, d Driver, s Setting, ch *workerChannel, exit func(int)) error {
	w := &eventWriter{nonce: ch.nonce, w: ch.out}
	if err := w.write(Event{Kind: EventHello, Version: ProtocolVersion}); err != nil {
		return err
	}
	fatal := func(err error) error { _ = w.write(Event{Kind: EventFatal, Text: err.Error()}); return err }
	e, err := newExecutor(c, d, s)
	if err != nil {
		return fatal(err)
	}
	e.onOpen = func(id *Identity) { _ = w.write(Event{Kind: EventIdentity, Identity: id}) }
	e.onLog = func(l string) { _ = w.write(Event{Kind: EventLog, Text: l}) }
	e.onStep = func(step string) { _ = w.write(Event{Kind: EventStep, Text: step}) }
	in := newCommandReader(ch.in, exit)
	for {
		cmd, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err // the driver has damaged the descriptor; the parent charges the case before
		}
		cs, ok := c.Case(cmd.Case)
		if !ok {
			return fatal(fmt.Errorf("command: no case %q in this worker", cmd.Case))
		}
		if err := w.write(Event{Kind: EventStart, Case: cs.ID}); err != nil {
			return err
		}
		if e.kept == nil {
			e.spoiledBy = cmd.Spoiled
		}
		j := job{c: cs, attempt: cmd.Attempt, rerun: cmd.Rerun, stretch: cmd.Stretch}
		dog := NewWatchdog(e.set.scale(openTimeout)+hangGrace, func() {
			var c Conditions
			e.stalls.Load().read(&c)
			_ = w.write(Event{Kind: EventHang, Case: cs.ID, Text: allStacks(), Conditions: c})
			exit(exitHang)
		})
		e.onBegin = func() { dog.Reset(j.timeout(e.set) + e.set.scale(hangGrace)) }
		r := e.run(ctx, j)
		dog.Stop()
		if r.Status != Pass && r.Status != Skip {
			fmt.Fprint(os.Stderr, printedMark(ch.nonce)) // the driver's output up to here is evidence of the case
		}
		in.idle()
		result := Event{Kind: EventResult, Result: &r, Elapsed: r.Elapsed, Conditions: r.conditions}
		if err := w.write(result); err != nil {
			return err
		}
	}
	if err := e.drop(ctx); err != nil {
		return fatal(err)
	}
	return nil
}

// commandReader reads commands ahead, so that it notices the end of the parent while a case runs.
type commandReader struct {
	lines chan commandLine
	busy  atomic.Bool // a case is running
}

// commandLine is a command or an error.
type commandLine struct {
	command
	err error
}

// newCommandReader starts to read commands. It calls exit if the commands end while a case runs, because the parent has
// then ended.
func newCommandReader(in *bufio.Reader, exit func(int)) *commandReader {
	r := &commandReader{lines: make(chan commandLine)}
	go func() {
		for {
			var l commandLine
			text, err := in.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(text, &l.command)
			}
			if l.err = err; errors.Is(err, io.EOF) && r.busy.Load() {
				exit(exitOrphan)
			}
			r.busy.Store(err == nil)
			r.lines <- l
			if err != nil {
				return
			}
		}
	}()
	return r
}

// next returns the next command, or io.EOF at the end.
func (c *commandReader) next() (command, error) {
	l := <-c.lines
	if l.err != nil && !errors.Is(l.err, io.EOF) {
		return l.command, fmt.Errorf("command: %w", l.err)
	}
	return l.command, l.err
}

// idle records that no case is running.
func (c *commandReader) idle() { c.busy.Store(false) }

// printedMark returns the text that a worker prints after a case that did not pass. The parent waits for it, so that it
// has all output of the case.
func printedMark(nonce string) string { return "\x1e" + nonce + "\n" }

// WorkerEnv returns the environment for a worker: that of the parent, and a setting that prints all goroutines in a
// panic.
func WorkerEnv() []string {
	return append(os.Environ(), "GOTRACEBACK=all")
}
