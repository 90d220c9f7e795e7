package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// A daemon is a process of ddkd that this process has started.
type daemon struct {
	netns *os.File
	cmd   *exec.Cmd
}

// startTime is the time in which a daemon must answer.
const startTime = "30s"

// drainTime is the time in which programs may end their work when their daemon ends, which it does after their
// containers.
const drainTime = "500ms"

// startDaemon starts the daemon of a claim, and returns when programs can use it. If it ends by itself later, it is
// started again. c.mu is locked.
func (n *Node) startDaemon(c *claim, netns *os.File) (err error) {
	d := new(daemon)
	if d.netns, err = duplicate(netns); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(c.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return errors.Join(err, d.netns.Close())
	}
	defer lock.Close()
	log, err := os.Create(filepath.Join(c.dir, logFile))
	if err != nil {
		return errors.Join(err, d.netns.Close())
	}
	defer log.Close()
	pidfd := -1
	d.cmd = exec.Command(n.cfg.Self, n.daemonArgs(c)...)
	d.cmd.ExtraFiles = []*os.File{launchLock: lock, launchSpace: d.netns}
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Env = log, log, []string{}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if err := d.cmd.Start(); err != nil {
		return errors.Join(err, d.netns.Close())
	}
	process := os.NewFile(uintptr(pidfd), "pidfd")
	defer process.Close()
	c.daemon = d
	own, err := newPidfd(process)
	if err != nil {
		return err
	}
	if !n.spawn(own, func() { n.awaitDaemon(c, d, own) }) {
		return os.ErrClosed
	}
	if err := n.install(c, process); err != nil {
		text, _ := os.ReadFile(log.Name()) // without it, the error is still right
		return fmt.Errorf("the daemon of claim %s: %w: %s", c.ID, err, lastLine(text))
	}
	n.cfg.Log.Info("daemon started", "claim", c.ID, "adapters", c.Adapters, "pid", d.cmd.Process.Pid)
	return nil
}

// daemonArgs returns the arguments of the process that becomes the daemon.
func (n *Node) daemonArgs(c *claim) []string {
	args := []string{"launch", "--user", strconv.Itoa(n.cfg.User), "--dir", filepath.Join(c.dir, podDir, runDir), "--",
		n.cfg.DDKD, "serve", "--socket", socket, "--mode", "0666", "--copy-memory", "all", "--limit-copies",
		"--drain", drainTime}
	if c.DeviceName != "" {
		args = append(args, "--device-name", c.DeviceName)
	}
	for _, a := range c.Adapters {
		args = append(args, "--adapter", a)
	}
	return args
}

// install waits until a daemon answers, and writes what programs need.
func (n *Node) install(c *claim, process *os.File) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waited := make(chan struct{})
	stop, err := newPidfd(process)
	if err != nil {
		return err
	}
	go func() {
		defer close(waited)
		if ended(stop) {
			cancel()
		}
	}()
	pod := filepath.Join(c.dir, podDir)
	cmd := exec.CommandContext(ctx, n.cfg.Run, "--install", pod, "--socket", filepath.Join(pod, runDir, socket),
		"--wait", startTime)
	out, err := cmd.CombinedOutput()
	isEnded := ctx.Err() != nil
	stop.Close()
	<-waited
	switch {
	case isEnded:
		return errors.New("it ended at once")
	case err != nil:
		return fmt.Errorf("it does not answer: %w: %s", err, lastLine(out))
	}
	return nil
}

// awaitDaemon starts a daemon again when it ends by itself.
func (n *Node) awaitDaemon(c *claim, d *daemon, process *os.File) {
	if !ended(process) {
		return
	}
	status := d.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.daemon != d {
		return
	}
	n.cfg.Log.Warn("daemon ended", "claim", c.ID, "status", status, "log", filepath.Join(c.dir, logFile))
	err := n.startDaemon(c, d.netns)
	d.netns.Close()
	if err != nil {
		n.cfg.Log.Error("daemon", "claim", c.ID, "error", errors.Join(err, n.stop(c)))
	}
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
