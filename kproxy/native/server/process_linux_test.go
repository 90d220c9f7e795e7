package server_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// clientSocket is an environment variable: the socket that a child process connects to.
const clientSocket = "CIDDK_TEST_CLIENT"

// TestClientProcess is the child process of the tests below. It connects, creates objects, starts a process that
// inherits its socket, reports that, and exits when its standard input ends.
func TestClientProcess(t *testing.T) {
	path := os.Getenv(clientSocket)
	if path == "" {
		t.Skip("only as a child of another test")
	}
	u, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	inherited, err := u.File()
	require.NoError(t, err)
	conn, err := native.NewConn(u)
	require.NoError(t, err)
	c := &client{r: &rig{t: t}, c: conn, buf: make([]byte, schema.MaxMessage)}
	var reply schema.HelloReply
	require.NoError(t, c.do(schema.CmdHello, &schema.Hello{Version: schema.Version, PointerBits: 64}, &reply))
	c.create()
	heir := exec.Command("sleep", "1000")
	heir.ExtraFiles = []*os.File{inherited}
	require.NoError(t, heir.Start())
	_, err = os.Stdout.WriteString("ready\n")
	require.NoError(t, err)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the parent closes it, or writes
	_ = heir.Process.Kill()
	os.Exit(0)
}

// TestSocketOutlivesClient kills a client whose socket another process has inherited. The daemon destroys its objects,
// because their process does not exist any more.
func TestSocketOutlivesClient(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	path := filepath.Join(t.TempDir(), "socket")
	l, err := native.Listen(path)
	require.NoError(t, err)
	served := make(chan error)
	go func() { served <- r.server.Serve(l) }()
	defer func() {
		l.Close()
		require.NoError(t, <-served)
	}()

	cmd := exec.Command(os.Args[0], "-test.run=^TestClientProcess$")
	cmd.Env = append(os.Environ(), clientSocket+"="+path)
	cmd.SysProcAttr, cmd.Stderr = ownGroup(), os.Stderr
	_, err = cmd.StdinPipe() // closed by Wait
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer killGroup(cmd.Process.Pid) // with the process that has inherited the socket
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.Len(t, r.core.Sessions(), 1)
	require.NotEmpty(t, r.live())

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	r.gone()
}

// TestUnexpectedDescriptors sends descriptors with requests that take none, and more than a request takes. The daemon
// closes all of them.
func TestUnexpectedDescriptors(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	c := r.client()
	o := c.create()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	files := []*os.File{write, write, write}
	send := func(cmd schema.Command, request any) {
		m := native.Append(native.Start(nil), request)
		c.next++
		require.NoError(t, native.Finish(m, native.Header{Command: cmd, ID: c.next}))
		require.NoError(t, c.c.Send(m, files))
		_, _, err := c.recv()
		require.NoError(t, err)
	}
	send(schema.CmdQueryCA, &schema.CA{CA: o.ca})
	send(schema.CmdPeek, &schema.CQ{CQ: o.cq})
	send(schema.CmdRegisterMR, &schema.RegisterMR{PD: o.pd, Memory: schema.Memory{Length: 1, Shared: true}})
	send(schema.CmdRegisterMR, &schema.RegisterMR{PD: o.pd, Memory: schema.Memory{Length: 1}})
	send(schema.CmdAllocatePD, &schema.AllocatePD{CA: o.ca, User: schema.UserBuffer{Present: true, Files: 1}})
	require.NoError(t, write.Close())
	// The pipe ends when every copy of its write end is closed.
	require.NoError(t, read.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = read.Read(make([]byte, 1))
	assert.EqualError(t, err, "EOF", "a descriptor is open")
}
