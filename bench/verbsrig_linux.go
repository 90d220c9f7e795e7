package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// verbsDaemon is ddkd as a process of its own, with one adapter, and the surroundings of programs that ddkrun runs.
type verbsDaemon struct {
	surroundings
	dir, socket string
	cmd         *exec.Cmd
}

func startVerbsDaemon() (d *verbsDaemon, err error) {
	d = &verbsDaemon{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.dir, err = os.MkdirTemp("", "bench-verbs-"); err != nil {
		return d, err
	}
	self, err := os.Executable()
	if err != nil {
		return d, err
	}
	d.socket = filepath.Join(d.dir, "socket")
	d.env = append(os.Environ(), ddkrunEnv+"=1", "DDKD_SOCKET="+d.socket, "XDG_RUNTIME_DIR="+d.dir,
		"XDG_CACHE_HOME="+d.dir)
	d.prefix = []string{self}
	pid := os.Getpid() // other processes have other addresses
	c := exec.Command(self, "-daemon", "serve", "--socket", d.socket, "--drain", "1ms", "--adapter",
		fmt.Sprintf("link=udp,address=127.%d.%d.77", 1+pid>>8%250, pid&0xff))
	c.Env = d.env
	pipe, err := c.StderrPipe()
	if err != nil {
		return d, err
	}
	if err := c.Start(); err != nil {
		return d, err
	}
	d.cmd = c
	log, text := bufio.NewReader(pipe), ""
	for !strings.Contains(text, "msg=ready") {
		line, err := log.ReadString('\n')
		text += line
		if err != nil {
			return d, fmt.Errorf("the daemon ended: %w: %s", err, text)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // until the daemon ends
	return d, nil
}

// close also closes a daemon that has not started completely.
func (d *verbsDaemon) close() error {
	var errs []error
	if d.cmd != nil {
		errs = append(errs, d.cmd.Process.Signal(os.Interrupt), d.cmd.Wait())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// verbsRig is a case of unmodified verbs programs. This process and its peer are the native programs.
type verbsRig struct {
	*twoRig
	daemon *verbsDaemon
}

func openVerbs(turns ...turn) func() (Rig, error) {
	return func() (_ Rig, err error) {
		g := &verbsRig{twoRig: &twoRig{turns: turns}}
		if g.daemon, err = startVerbsDaemon(); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, g.Close())
			}
		}()
		if g.remote, err = startPeer(nil); err != nil {
			return nil, err
		}
		if _, err := g.ask(order{Do: "open", Path: g.daemon.socket}); err != nil {
			return nil, err
		}
		if err := g.open(g.addr, g.daemon.socket); err != nil {
			return nil, err
		}
		return g, g.makeHalves()
	}
}

// Run runs a turn in this process and its peer, or in other programs.
func (g *verbsRig) Run(entry int) (Sample, error) {
	if t := &g.turns[entry]; t.program != nil {
		return t.program.run(g.daemon.surroundings, t.ops, t.timed)
	}
	return g.twoRig.Run(entry)
}

// Close also closes an incomplete rig.
func (g *verbsRig) Close() error {
	var err error
	if g.remote != nil {
		err = g.twoRig.Close()
	}
	return errors.Join(err, g.daemon.close())
}

// startRig is a case of programs that end at once.
type startRig struct{ daemon *verbsDaemon }

func openStarts() (Rig, error) {
	d, err := startVerbsDaemon()
	if err != nil {
		return nil, err
	}
	return &startRig{d}, nil
}

// Run starts the program a number of times.
func (g *startRig) Run(entry int) (s Sample, err error) {
	line := []string{"true"}
	if entry == 0 {
		line = append(g.daemon.prefix[:1:1], line...)
	}
	s.Ops = starts
	begin := time.Now()
	for range starts {
		c := exec.Command(line[0], line[1:]...)
		c.Env = g.daemon.env
		if out, err := c.CombinedOutput(); err != nil {
			return s, fmt.Errorf("%v: %w: %s", line, err, out)
		}
	}
	s.Time = time.Since(begin)
	return s, nil
}

// Close ends the daemon.
func (g *startRig) Close() error { return g.daemon.close() }
