package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ciddk/kproxy"
	"ciddk/ual"
)

// report is the result of a run.
type report struct {
	Processes, Sessions, Objects int // as the daemon counted them
	Left                         int // objects and sessions after the clients have ended
	Times                        times
	SessionKiB, ObjectKiB        float64
}

// run starts the processes, measures, and stops them.
func (p *plan) run(ctx context.Context) (r *report, err error) {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := crew{dir: dir}
	defer func() { err = errors.Join(err, c.stop()) }()
	daemon, err := c.start(ctx, "daemon")
	if err != nil {
		return nil, err
	}
	if _, err := c.start(ctx, "echo"); err != nil {
		return nil, err
	}
	empty, err := rss(daemon.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	var clients []*member
	for i := range p.processes {
		share := p.sessions*(i+1)/p.processes - p.sessions*i/p.processes
		m, err := c.start(ctx, "client", strconv.Itoa(share))
		if err != nil {
			return nil, err
		}
		clients = append(clients, m)
	}
	idle, err := rss(daemon.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	for i, m := range clients {
		share := p.objects*(i+1)/p.processes - p.objects*i/p.processes
		if _, err := m.ask("objects " + strconv.Itoa(share)); err != nil {
			return nil, err
		}
	}
	full, err := rss(daemon.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	r = &report{SessionKiB: float64(idle-empty) / float64(p.sessions),
		ObjectKiB: float64(full-idle) / float64(p.objects)}
	if r.Processes, r.Sessions, r.Objects, err = c.count(); err != nil {
		return nil, err
	}
	text, err := clients[0].ask("measure " + strconv.Itoa(p.verbs))
	if err == nil {
		err = json.Unmarshal([]byte(text), &r.Times)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range clients {
		if err := m.stop(); err != nil {
			return nil, err
		}
	}
	_, sessions, objects, err := c.count()
	r.Left = sessions + objects
	return r, err
}

// crew is the processes of a run.
type crew struct {
	dir     string
	members []*member
}

// member is a process. It ends when its standard input does.
type member struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stopped bool
}

// start starts a process in a role and waits until it is ready.
func (c *crew) start(ctx context.Context, role string, args ...string) (*member, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join(append([]string{role}, args...), " "), dirEnv+"="+c.dir)
	cmd.Stderr = os.Stderr
	m := &member{cmd: cmd}
	if m.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.members = append(c.members, m)
	if _, err := m.line(); err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	return m, nil
}

// ask sends a command and returns the answer.
func (m *member) ask(command string) (string, error) {
	if _, err := fmt.Fprintln(m.in, command); err != nil {
		return "", err
	}
	return m.line()
}

func (m *member) line() (string, error) {
	text, err := m.out.ReadString('\n')
	return strings.TrimSpace(text), err
}

// stop ends the process.
func (m *member) stop() error {
	if m.stopped {
		return nil
	}
	m.stopped = true
	m.in.Close()
	return m.cmd.Wait()
}

// stop ends the processes, the newest first.
func (c *crew) stop() error {
	var errs []error
	for _, v := range slices.Backward(c.members) {
		errs = append(errs, v.stop())
	}
	return errors.Join(errs...)
}

// count returns the processes, the sessions and the objects that the daemon has, without those of this call.
func (c *crew) count() (processes, sessions, objects int, err error) {
	client, err := ual.Dial(ual.Config{Path: filepath.Join(c.dir, socketName)})
	if err != nil {
		return 0, 0, 0, err
	}
	defer client.Close()
	text, err := client.Status()
	if err != nil {
		return 0, 0, 0, err
	}
	var st kproxy.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return 0, 0, 0, err
	}
	seen := map[int]bool{}
	for _, s := range st.Clients {
		if s.PID == os.Getpid() {
			continue
		}
		seen[s.PID] = true
		sessions++
		for _, n := range s.Objects {
			objects += n
		}
	}
	return len(seen), sessions, objects, nil
}

// rss returns the resident memory of a process in KiB, when it does not change any more.
func rss(pid int) (int, error) {
	last := -1
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, errors.New("no VmRSS in /proc/PID/status")
		}
		n, err := strconv.Atoi(fields[0])
		if err != nil {
			return 0, err
		}
		if n == last {
			return n, nil
		}
		last = n
		<-time.After(200 * time.Millisecond)
	}
}
