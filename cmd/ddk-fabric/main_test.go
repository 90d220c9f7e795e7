package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
	"ciddk/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runProgram runs a command line, and returns its output.
func runProgram(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

// generate prints topologies that can be read.
func TestGenerate(t *testing.T) {
	for _, args := range []string{"fattree", "fattree --down 2,2,2 --up 1,2,2", "torus --size 3,3,3", "dragonfly",
		"torus --mesh --size 4 --hosts 2"} {
		status, out, errs := runProgram(t, append([]string{"generate", "--rate", "12xHDR"}, strings.Fields(args)...)...)
		require.Zero(t, status, errs)
		g, err := topology.Read(strings.NewReader(out), args, nil)
		require.NoError(t, err)
		w, s := g.Links[0].Rate()
		assert.Equal(t, "12xHDR", topology.FormatRate(w, s))
	}
	status, _, errs := runProgram(t, "generate", "--rate", "fast", "torus")
	assert.Equal(t, command.ExitError, status)
	assert.Contains(t, errs, "want a text such as 4xEDR")
	status, _, errs = runProgram(t, "generate", "torus", "--size", "0")
	assert.Equal(t, command.ExitError, status)
	assert.Contains(t, errs, "want numbers from 1 on")
}

// Usage errors have a status of their own, and help has none.
func TestUsage(t *testing.T) {
	for args, want := range map[string]int{"": command.ExitUsage, "cut": command.ExitUsage,
		"serve /does/not/exist": command.ExitUsage, "--help": 0,
		"--name none-such status": command.ExitError, "--name none-such draw --from a": command.ExitError} {
		status, _, _ := runProgram(t, strings.Fields(args)...)
		assert.Equal(t, want, status, args)
	}
}

var names atomic.Int64

// running serves a topology for the rest of the test, and returns the name of the fabric.
func running(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	_, net, _ := runProgram(t, "generate", "fattree")
	file := filepath.Join(t.TempDir(), "tree.net")
	require.NoError(t, os.WriteFile(file, []byte(net), 0o600))
	name := fmt.Sprintf("ddk-fabric-%d-%d", os.Getpid(), names.Add(1))
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan string, 1)
	go func() {
		var errs bytes.Buffer
		status := run(ctx, append([]string{"--name", name, "serve", file}, args...), in, &errs)
		_ = in.CloseWithError(errors.New("ended: " + errs.String()))
		done <- fmt.Sprint(status, errs.String())
	}()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, "0", <-done)
	})
	b := make([]byte, 200)
	n, err := out.Read(b)
	if err != nil {
		t.Skip(err) // a system without abstract sockets
	}
	assert.Contains(t, string(b[:n]), "8 adapters, 4 switches, 12 links")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return name
}

// A running fabric is shown, drawn and changed by commands.
func TestServe(t *testing.T) {
	name := running(t, "--configure")
	_, out, _ := runProgram(t, "--name", name, "status")
	assert.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 1+24)
	assert.NotContains(t, out, "Down")
	status, _, errs := runProgram(t, "--name", name, "cut", "h1:1")
	require.Zero(t, status, errs)
	state := func() fabric.Status {
		var s fabric.Status
		_, out, _ := runProgram(t, "--name", name, "status", "--json")
		require.NoError(t, json.Unmarshal([]byte(out), &s))
		return s
	}
	assert.True(t, state().Nodes[0].Ports[0].Cut)
	assert.Equal(t, "Down", state().Nodes[0].Ports[0].State)
	_, out, _ = runProgram(t, "--name", name, "status")
	assert.Contains(t, out, "(cut)")
	status, _, errs = runProgram(t, "--name", name, "restore", "h1")
	require.Zero(t, status, errs)
	require.Eventually(t, func() bool { return state().Nodes[0].Ports[0].State == "Active" }, time.Minute,
		time.Millisecond, "the fabric is configured again")

	status, out, errs = runProgram(t, "--name", name, "draw", "--from", "h2", "--to", "h8")
	require.Zero(t, status, errs)
	assert.Equal(t, 1+4, strings.Count(out, `class="route"`)) // with the legend
	assert.Equal(t, 12+4, strings.Count(out, "<line "))
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	status, _, errs = runProgram(t, "--name", name, "remove", "s2-1")
	require.Zero(t, status, errs)
	assert.Len(t, state().Nodes, 11)
	status, _, errs = runProgram(t, "--name", name, "cut", "nobody:1")
	assert.Equal(t, command.ExitError, status)
	assert.Contains(t, errs, "no node")
}

// An adapter joins a running fabric from another place.
func TestJoin(t *testing.T) {
	name := running(t, "--configure")
	port, err := join.Dial(t.Context(), join.SocketPath(name, "join"), "h5", 0)
	require.NoError(t, err)
	assert.Equal(t, ci.PortActive, port.Attr().State)
	_, out, _ := runProgram(t, "--name", name, "status")
	assert.Contains(t, out, "adapter")
	lid := port.Attr().LID
	require.NoError(t, port.Close())
	port, err = join.Dial(t.Context(), join.SocketPath(name, "join"), "h5", 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return port.Attr().State == ci.PortActive }, time.Minute, time.Millisecond)
	assert.Equal(t, lid, port.Attr().LID)
	require.NoError(t, port.Close())
	require.Eventually(t, func() bool {
		_, out, _ := runProgram(t, "--name", name, "status")
		return strings.Contains(out, "Down")
	}, time.Minute, 10*time.Millisecond)
}

// The control socket survives requests that are none.
func TestControlHostile(t *testing.T) {
	name := running(t)
	p := &program{ctx: t.Context(), name: name}
	_, err := p.call(request{Do: "explode"})
	require.ErrorContains(t, err, `unknown request "explode"`)
	_, err = p.call(request{Do: strings.Repeat("x", 2*maxRequest)})
	require.Error(t, err)
	_, err = p.call(request{Do: "trace", Node: "h1", To: "h2"})
	require.ErrorContains(t, err, "has no LID yet")
	_, err = listen(name, socketPath(name))
	require.ErrorContains(t, err, "runs already")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = (&program{ctx: ctx, name: name}).call(request{Do: "status"})
	require.NoError(t, err)
}

// TestSilentServer calls a server that accepts a connection and does not answer. The context of the program ends that.
func TestSilentServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Read(make([]byte, 1)) // the request has begun to arrive
			cancel()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	_, err = (&program{ctx: ctx, name: path}).call(request{Do: "status"})
	require.Error(t, err)
}
