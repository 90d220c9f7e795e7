package services_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/ual"
	"ciddk/ual/services"
)

// childEnv makes the test's program a child process: "serve" or "dial", the daemon's socket and an address.
const childEnv = "CIDDK_TEST_SERVICES"

// runChild runs a child process, if this is one.
func runChild() bool {
	arg := strings.Split(os.Getenv(childEnv), ",")
	if len(arg) != 3 {
		return false
	}
	go func() { // standard input ends with the parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var err error
	at := netip.MustParseAddrPort(arg[2])
	switch arg[0] {
	case "serve":
		err = serveChild(arg[1], at)
	case "dial":
		err = dialChild(arg[1], at)
	default:
		err = churnChild(arg[1], at)
	}
	fmt.Println("error:", err)
	return true
}

// serveChild listens, and returns every message of its connections until it is killed.
func serveChild(path string, at netip.AddrPort) error {
	ctx := context.Background()
	m, err := services.Dial(services.Config{UAL: ual.Config{Path: path, Name: "serve"}})
	if err != nil {
		return err
	}
	ln, err := m.Listen(at, rdmacm.ListenConfig{})
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		q, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		c, err := q.Accept(ctx)
		if err != nil {
			return err
		}
		fmt.Println("accepted")
		for {
			b, err := c.Recv(ctx)
			if err == nil {
				err = c.Send(ctx, b)
			}
			if err != nil {
				fmt.Println("ended:", err)
				break
			}
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
}

// dialChild connects, exchanges messages, and then waits until the connection ends.
func dialChild(path string, at netip.AddrPort) error {
	ctx := context.Background()
	m, err := services.Dial(services.Config{UAL: ual.Config{Path: path, Name: "dial"}})
	if err != nil {
		return err
	}
	c, err := m.Dial(ctx, at)
	if err != nil {
		return err
	}
	for i := range 100 {
		text := fmt.Sprintf("message %d", i)
		if err := c.Send(ctx, []byte(text)); err != nil {
			return err
		}
		b, err := c.Recv(ctx)
		if err != nil || string(b) != text {
			return fmt.Errorf("%q: %w", b, err)
		}
	}
	fmt.Println("exchanged")
	_, err = c.Recv(ctx)
	fmt.Println("ended:", err)
	if err := c.Close(); err != nil {
		return err
	}
	return m.Close()
}

// churnChild listens, connects to itself, exchanges a message and closes everything, until it is killed.
func churnChild(path string, at netip.AddrPort) error {
	ctx := context.Background()
	m, err := services.Dial(services.Config{UAL: ual.Config{Path: path, Name: "churn"}})
	if err != nil {
		return err
	}
	for {
		ln, err := m.Listen(at, rdmacm.ListenConfig{})
		if err != nil {
			return err
		}
		fmt.Println("listening")
		go func() {
			q, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			if c, err := q.Accept(ctx); err == nil {
				_ = c.Send(ctx, []byte("message")) // the other end reports it
			}
		}()
		c, err := m.Dial(ctx, at)
		if err != nil {
			return err
		}
		if _, err := c.Recv(ctx); err != nil {
			return err
		}
		fmt.Println("exchanged")
		if err := errors.Join(c.Close(), ln.Close()); err != nil {
			return err
		}
	}
}

// kills is the number of processes that TestKillRandomly kills.
var kills = flag.Int("kills", 20, "number of processes that are killed")

// TestKillRandomly kills processes that listen, connect and disconnect, at random moments. Each time, the daemon has
// nothing left of the process, and the port is free.
func TestKillRandomly(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1")...)
	before := r.hcas[0].Live()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	rnd := rand.New(rand.NewPCG(1, 1))
	for range *kills {
		c := r.child("churn", at)
		if rnd.IntN(4) > 0 {
			c.expect("listening") // the port is free
		}
		<-time.After(time.Duration(rnd.IntN(20000)) * time.Microsecond) // the random moment
		c.kill()
		for line := range c.lines {
			require.False(t, strings.HasPrefix(line, "error"), line)
		}
		eventually(t, "the release of all objects of the process", func() bool {
			return len(r.core.Sessions()) == 0 && withoutAVs(before, r.hcas[0])
		})
	}
}

// child is a process of the test.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func (r *rig) child(role string, at netip.AddrPort) *child {
	exe, err := os.Executable()
	require.NoError(r.t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%s,%s", childEnv, role, r.path, at))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(r.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, cmd.Start())
	c := &child{t: r.t, cmd: cmd, lines: make(chan string, 16)}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	r.t.Cleanup(func() {
		in.Close()
		c.kill()
	})
	return c
}

// expect waits for a line of the child's output.
func (c *child) expect(prefix string) string {
	c.t.Helper()
	select {
	case line := <-c.lines:
		require.True(c.t, strings.HasPrefix(line, prefix), "%q instead of %q", line, prefix)
		return line
	case <-time.After(30 * time.Second):
		c.t.Fatalf("the child does not print %q", prefix)
	}
	return ""
}

// kill kills the child with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have exited
	for range c.lines {
	}
	_ = c.cmd.Wait() // killed
}

// TestProcesses connects two processes through one daemon. One is killed, then the other: each time the peer's
// connection ends as if the process had disconnected, and the listener's port is free at once.
func TestProcesses(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	before := []map[string]int{r.hcas[0].Live(), r.hcas[1].Live()}
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	server := r.child("serve", at)
	server.expect("listening")
	client := r.child("dial", at)
	client.expect("exchanged")
	server.expect("accepted")
	sent := r.cm.Counters().Sent

	// The client dies: the server's connection ends, and it accepts the next one.
	client.kill()
	assert.Contains(t, server.expect("ended:"), rdmacm.ErrPeerDisconnected.Error())
	client = r.child("dial", at)
	client.expect("exchanged")
	server.expect("accepted")

	// The server dies: another one takes its port while the client's connection ends.
	server.kill()
	again := r.child("serve", at)
	again.expect("listening")
	assert.Contains(t, client.expect("ended:"), rdmacm.ErrPeerDisconnected.Error())
	assert.NotEqual(t, sent, r.cm.Counters().Sent, "the daemon has sent the messages of the processes that died")
	again.kill()
	eventually(t, "the end of all sessions", func() bool { return len(r.core.Sessions()) == 0 })
	eventually(t, "the release of all objects of the processes", func() bool {
		return withoutAVs(before[0], r.hcas[0]) && withoutAVs(before[1], r.hcas[1])
	})
}

// withoutAVs reports whether an adapter has the objects that it had before. The daemon's MAD services keep address
// vectors.
func withoutAVs(before map[string]int, h *reference.HCA) bool {
	now := h.Live()
	delete(before, "AV")
	delete(now, "AV")
	return maps.Equal(before, now)
}

// TestTwoDaemons connects processes of two daemons, whose adapters exchange RoCEv2 packets over UDP.
func TestTwoDaemons(t *testing.T) {
	const port = 24811
	addrs := []string{"127.20.31.1", "127.20.31.2"}
	testenv.Addresses(t, port, addrs...)
	var rigs []*rig
	for _, a := range addrs {
		p, err := udp.New(udp.Config{Addr: netip.MustParseAddr(a), Port: port})
		require.NoError(t, err)
		rigs = append(rigs, newRig(t, kproxy.Config{}, rvt.Port(p)))
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(addrs[0]), 7174)
	server := rigs[0].child("serve", at)
	server.expect("listening")
	client := rigs[1].child("dial", at)
	client.expect("exchanged")
	server.expect("accepted")
	server.kill()
	again := rigs[0].child("serve", at)
	again.expect("listening")
	assert.Contains(t, client.expect("ended:"), rdmacm.ErrPeerDisconnected.Error())
	client = rigs[1].child("dial", at)
	client.expect("exchanged")
	again.expect("accepted")
	client.kill()
	assert.Contains(t, again.expect("ended:"), rdmacm.ErrPeerDisconnected.Error())
}
