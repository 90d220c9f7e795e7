//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/test/linux/guest/channel"
)

// writer serializes the frames of concurrent commands.
type writer struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *writer) send(f channel.Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return channel.Write(w.w, f)
}

func (w *writer) sendJSON(session uint32, t channel.Type, v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return channel.WriteJSON(w.w, session, t, v)
}

// output is one stream of one command.
type output struct {
	w       *writer
	session uint32
	typ     channel.Type
}

func (o output) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		n := min(len(b)-done, channel.MaxBody)
		if err := o.w.send(channel.Frame{Session: o.session, Type: o.typ, Body: b[done : done+n]}); err != nil {
			return done, err
		}
		done += n
	}
	return len(b), nil
}

func readJSON(r io.Reader, want channel.Type, v any) error {
	f, err := channel.Read(r)
	if err != nil {
		return err
	}
	if f.Type != want {
		return fmt.Errorf("frame type %d where %d was due", f.Type, want)
	}
	return json.Unmarshal(f.Body, v)
}

// run executes commands until the host closes the channel, which a virtio-serial port reports as an end of file.
func run(port io.Reader, w *writer) error {
	var mu sync.Mutex
	running := map[uint32]*exec.Cmd{}
	for {
		f, err := channel.Read(port)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch f.Type {
		case channel.Exec:
			c, err := start(f, w)
			if err != nil {
				if err := w.sendJSON(f.Session, channel.Exit, channel.Status{Code: -1, Err: err.Error()}); err != nil {
					return err
				}
				continue
			}
			mu.Lock()
			running[f.Session] = c
			mu.Unlock()
			go func() {
				err := c.Wait()
				mu.Lock()
				delete(running, f.Session)
				mu.Unlock()
				status := channel.Status{Code: exitCode(c.ProcessState)} // it tells more than err
				if errors.Is(err, exec.ErrWaitDelay) {
					status.Err = fmt.Sprintf("a child held the output for %v after the end", drainTime)
				}
				_ = w.sendJSON(f.Session, channel.Exit, status) // the reading side notices that the channel is closed
			}()
		case channel.Kill:
			mu.Lock()
			if c := running[f.Session]; c != nil {
				_ = unix.Kill(-c.Process.Pid, unix.SIGKILL) // it may have ended by itself just now
			}
			mu.Unlock()
		default:
			return fmt.Errorf("unexpected frame type %d from the host", f.Type)
		}
	}
}

// drainTime limits the wait for the output of a command that has ended, because children in the background may hold the
// pipes. A busy machine may stop the guest for seconds.
const drainTime = time.Minute

func start(f channel.Frame, w *writer) (*exec.Cmd, error) {
	var r channel.Command
	if err := json.Unmarshal(f.Body, &r); err != nil {
		return nil, err
	}
	if len(r.Args) == 0 {
		return nil, errors.New("no command given")
	}
	c := command(r.Args)
	c.Stdout = output{w, f.Session, channel.Stdout}
	c.Stderr = output{w, f.Session, channel.Stderr}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = drainTime
	return c, c.Start()
}

func exitCode(s interface{ Sys() any }) int {
	ws, ok := s.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
