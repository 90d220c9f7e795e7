package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"ciddk/internal/testenv"
)

// A pod is a network namespace, which a process holds.
type pod struct {
	t    *testing.T
	hold *exec.Cmd
}

// newPods returns two pods with the addresses 10.1.0.1 and 10.1.0.2 at eth0, which is a cable between them.
func newPods(t *testing.T) [2]*pod {
	need(t, "ip", "nsenter", "cat")
	var pods [2]*pod
	for i := range pods {
		pods[i] = newPod(t)
	}
	run(t, "ip", "link", "add", "eth0", "netns", pods[0].pid(), "type", "veth", "peer", "name", "eth0", "netns",
		pods[1].pid())
	for i, p := range pods {
		p.run("ip", "addr", "add", fmt.Sprintf("10.1.0.%d/24", i+1), "dev", "eth0")
		p.run("ip", "link", "set", "eth0", "up")
	}
	return pods
}

// newPod returns a pod with a loopback interface only.
func newPod(t *testing.T) *pod {
	p := &pod{t, exec.Command("cat")}
	in, err := p.hold.StdinPipe()
	require.NoError(t, err)
	p.hold.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	require.NoError(t, p.hold.Start())
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, p.hold.Wait())
	})
	p.run("ip", "link", "set", "lo", "up")
	return p
}

func (p *pod) pid() string { return strconv.Itoa(p.hold.Process.Pid) }

// run runs a program in the network namespace of the pod.
func (p *pod) run(args ...string) {
	run(p.t, append([]string{"nsenter", "-n", "-t", p.pid()}, args...)...)
}

func run(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", args, out)
}

// A container is a process in a pod, with a mount and a PID namespace of its own.
type container struct {
	cmd *exec.Cmd
	out testenv.Output
}

// wait returns the output of the container when it has ended.
func (c *container) wait(t *testing.T) string {
	t.Helper()
	require.NoError(t, c.cmd.Wait(), "%s", c.out.String())
	return c.out.String()
}

// kill kills the container.
func (c *container) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

// start does what a container runtime does: it applies the edits of CDI devices to a container's OCI configuration,
// creates the container's first process, runs the hooks, and starts the program.
func (p *pod) start(cache *cdi.Cache, devices []string, args ...string) (*container, error) {
	t := p.t
	spec := &oci.Spec{Process: &oci.Process{Args: args, Env: []string{"PATH=" + os.Getenv("PATH"),
		"XDG_RUNTIME_DIR=/run"}}}
	require.NoError(t, cache.Refresh())
	unresolved, err := cache.InjectDevices(spec, devices...)
	require.NoError(t, err, unresolved)
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	c := &container{cmd: exec.Command("/proc/self/exe")}
	in, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.cmd.Env = []string{containerVariable + "=1"}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	require.NoError(t, p.inside(c.cmd.Start))
	t.Cleanup(c.kill)
	state, err := json.Marshal(oci.State{Version: oci.Version, Status: oci.StateCreating, Pid: c.cmd.Process.Pid})
	require.NoError(t, err)
	if spec.Hooks != nil {
		for _, h := range spec.Hooks.CreateRuntime {
			hook := &exec.Cmd{Path: h.Path, Args: h.Args, Env: h.Env, Stdin: bytes.NewReader(state)}
			if out, err := hook.CombinedOutput(); err != nil {
				c.kill()
				return nil, fmt.Errorf("hook: %w: %s", err, out)
			}
		}
	}
	_, err = fmt.Fprintf(in, "%s\n", text)
	require.NoError(t, errors.Join(err, in.Close()))
	return c, nil
}

// inside runs f in the network namespace of the pod.
func (p *pod) inside(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		ns, err := os.Open(filepath.Join("/proc", p.pid(), "ns/net"))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// runContainer is the first process of a container. It reads the configuration of the container when its hooks have
// run, mounts what that says, and becomes the program.
func runContainer() error {
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return errors.New("not started")
	}
	spec := new(oci.Spec)
	if err := errors.Join(err, json.Unmarshal(line, spec), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", "/opt", "tmpfs", 0, ""), unix.Mount("none", "/run", "tmpfs", 0, "")); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if err := errors.Join(os.MkdirAll(m.Destination, 0o755),
			unix.Mount(m.Source, m.Destination, "", unix.MS_BIND|unix.MS_REC, ""),
			unix.Mount("", m.Destination, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
				"")); err != nil {
			return fmt.Errorf("%s: %w", m.Source, err)
		}
	}
	for _, v := range spec.Process.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			os.Setenv("PATH", path)
		}
	}
	path, err := exec.LookPath(spec.Process.Args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, spec.Process.Args, spec.Process.Env)
}
