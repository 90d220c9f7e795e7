package linktest

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// A Remote is what a node in another process has to know of a node to connect with it, in a form for JSON.
type Remote struct {
	QPN    ci.QPN
	LID    ci.LID
	MTU    ci.MTU
	Memory ci.Remote // the first byte of Buf
}

// Remote describes the node for another process.
func (n *Node) Remote() Remote {
	return Remote{QPN: n.QP.Num(), LID: n.Attr.LID, MTU: n.Attr.MTU, Memory: n.MR.Region().Remote(0)}
}

// Node returns what Connect needs of a node in another process: its number and its address on an InfiniBand link.
func (r Remote) Node() *Node {
	return &Node{QP: remoteQP{num: r.QPN}, Attr: ci.PortAttr{Link: ci.LinkInfiniBand, LID: r.LID, MTU: r.MTU,
		GIDs: make([]ci.GIDEntry, 1)}}
}

// remoteQP is the QP of a node in another process.
type remoteQP struct {
	ci.QP
	num ci.QPN
}

// Num returns the number.
func (q remoteQP) Num() ci.QPN { return q.num }

// ServeRemote is the other side of a RemoteProcess: it reports the node on out, is told of the peer on in, connects,
// and answers each message with one of the same length, until in ends.
func ServeRemote(t testing.TB, n *Node, in io.Reader, out io.Writer) {
	t.Helper()
	d := json.NewDecoder(in)
	require.NoError(t, json.NewEncoder(out).Encode(n.Remote()))
	var peer Remote
	require.NoError(t, d.Decode(&peer))
	n.Connect(peer.Node())
	n.Recv(ci.RecvWR{SGL: n.SGE(0, len(n.Buf))})
	require.NoError(t, json.NewEncoder(out).Encode("connected"))
	wc := n.Poll(1)[0]
	n.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: n.SGE(0, int(wc.Length))})
	n.Poll(1)
	var end string
	_ = d.Decode(&end) // until the test has seen the answer, or is gone
}

// A RemoteProcess is a copy of the test's program that runs a test which calls ServeRemote.
type RemoteProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	remote Remote
}

// StartRemote starts the process with an environment variable in the form NAME=VALUE. It is killed when the test ends.
func StartRemote(t testing.TB, variable, test string) *RemoteProcess {
	t.Helper()
	p := &RemoteProcess{cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$")}
	p.cmd.Env = append(os.Environ(), variable)
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = json.NewDecoder(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.Kill)
	require.NoError(t, p.out.Decode(&p.remote))
	return p
}

// Remote describes the node of the process.
func (p *RemoteProcess) Remote() Remote { return p.remote }

// Tell reports a node to the process, and returns when the process has connected with it.
func (p *RemoteProcess) Tell(t testing.TB, r Remote) {
	t.Helper()
	require.NoError(t, json.NewEncoder(p.in).Encode(r))
	var s string
	require.NoError(t, p.out.Decode(&s))
	require.Equal(t, "connected", s)
}

// Exercise writes to the memory of the process, reads it, and has a message answered, on a node that is connected with
// the one of the process.
func (p *RemoteProcess) Exercise(t testing.TB, n *Node) {
	t.Helper()
	const size = 200_000
	buf, back := n.Buf[:size], n.Buf[size:2*size]
	Fill(buf, 1)
	n.Send(ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: n.SGE(0, size), Remote: p.remote.Memory})
	n.Poll(1)
	n.Send(ci.SendWR{Op: ci.OpRead, Flags: ci.SendSignaled, SGL: n.SGE(size, size), Remote: p.remote.Memory})
	n.Poll(1)
	require.Equal(t, buf, back)
	Fill(buf, 2)
	n.Recv(ci.RecvWR{SGL: n.SGE(size, size)})
	n.Send(ci.SendWR{Op: ci.OpSend, SGL: n.SGE(0, size)})
	require.EqualValues(t, size, n.Poll(1)[0].Length)
	require.Equal(t, buf, back)
}

// Kill ends the process without a farewell. It is idempotent.
func (p *RemoteProcess) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}
