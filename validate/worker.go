package validate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// hangGrace is how long after its deadline a case may still end by itself: its waits have failed by then, and cleanup runs. It scales
// with the timeouts.
const hangGrace = 3 * time.Second

// exitHang is the exit status of a worker that ended itself because of a hang.
const exitHang = 86

// ServeWorker is the worker's half: it reads commands from in until its end, runs them, and writes events to out. It returns when in
// ends. A case that hangs ends the process, since nothing else ends a goroutine that is stuck in a driver.
//
// The caller makes sure that nothing else writes to out: CaptureStdout does.
func ServeWorker(ctx context.Context, c *Catalog, d Driver, s Setting, in io.Reader, out io.Writer) error {
	return serveWorker(ctx, c, d, s, in, out, os.Exit)
}

func serveWorker(ctx context.Context, c *Catalog, d Driver, s Setting, in io.Reader, out io.Writer, exit func(int)) error {
	w := &eventWriter{w: out}
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
	sc := bufio.NewScanner(in)
	for sc.Scan() {
		var cmd command
		if err := json.Unmarshal(sc.Bytes(), &cmd); err != nil {
			return fatal(fmt.Errorf("command: %w", err))
		}
		cs, ok := c.Case(cmd.Case)
		if !ok {
			return fatal(fmt.Errorf("command: no case %q in this worker", cmd.Case))
		}
		if err := w.write(Event{Kind: EventStart, Case: cs.ID}); err != nil {
			return err
		}
		j := job{c: cs, attempt: cmd.Attempt, rerun: cmd.Rerun, stretch: cmd.Stretch}
		dog := time.AfterFunc(e.set.scale(openTimeout)+hangGrace, func() {
			var c Conditions
			e.stalls.Load().read(&c)
			_ = w.write(Event{Kind: EventHang, Case: cs.ID, Text: allStacks(), Conditions: c})
			exit(exitHang)
		})
		e.onBegin = func() { dog.Reset(j.timeout(e.set) + e.set.scale(hangGrace)) }
		r := e.run(ctx, j)
		dog.Stop()
		if err := w.write(Event{Kind: EventResult, Result: &r, Elapsed: r.Elapsed, Conditions: r.conditions}); err != nil {
			return err
		}
	}
	if err := e.drop(ctx); err != nil {
		return fatal(err)
	}
	return sc.Err()
}

// CaptureStdout gives the process's standard output to the caller alone: what the driver prints through os.Stdout goes to
// standard error from now on.
func CaptureStdout() *os.File {
	out := os.Stdout
	os.Stdout = os.Stderr
	return out
}

// WorkerEnv is what a worker's environment needs on top of the parent's: stacks of all goroutines in a panic.
func WorkerEnv() []string {
	return append(os.Environ(), "GOTRACEBACK=all")
}
