package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/kproxy"
	"ciddk/ual"
	"ciddk/ual/services"
)

// victimRole is the role of clients that are killed. Its two variables are their kind, and whether they have the user
// library of the adapter.
const (
	victimRole    = "victim"
	victimKindEnv = "DDKD_TEST_VICTIM"
	victimLibEnv  = "DDKD_TEST_LIBRARY"
)

// The kinds of victims.
const (
	victimLoop    = "loop"    // sends between two QPs of its own
	victimPair    = "pair"    // sends to a QP of the test's process
	victimConnect = "connect" // sends over a connection that it makes to the test's process
)

var victimKinds = []string{victimLoop, victimPair, victimConnect}

// peerAddress is where the test's process listens.
var peerAddress = netip.MustParseAddrPort("10.0.0.1:7174")

// exitT ends a victim that cannot do what it has to.
type exitT struct{}

func (exitT) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }

func (exitT) FailNow() { os.Exit(1) }

// victimMain is a victim. It does not return.
func victimMain() {
	t := exitT{}
	cfg := ual.Config{Name: "victim"}
	if os.Getenv(victimLibEnv) == "true" {
		cfg.Libraries = []*ci.UserLibrary{userlib.New()}
	}
	switch os.Getenv(victimKindEnv) {
	case victimLoop:
		c, err := ual.Dial(cfg)
		require.NoError(t, err)
		require.NoError(t, loopForever(c, func() { fmt.Println("busy") }))
	case victimPair:
		c, err := ual.Dial(cfg)
		require.NoError(t, err)
		e := newEndpoint(t, c, "")
		fmt.Println(uint32(e.qp.Num()))
		var peer uint32
		_, err = fmt.Scan(&peer)
		require.NoError(t, err)
		e.connectTo(t, e.gid(t), ci.QPN(peer), ci.ToRTS{AckTimeout: 14, RetryCount: 7, RNRRetry: 7, InitDepth: 1})
		require.NoError(t, e.transfer(true, func() {}))
	case victimConnect:
		m, err := services.Dial(services.Config{UAL: cfg})
		require.NoError(t, err)
		c, err := m.Dial(context.Background(), peerAddress)
		require.NoError(t, err)
		for {
			require.NoError(t, c.Send(context.Background(), make([]byte, 512)))
		}
	}
}

// loopForever transfers data within the process. started is called when some were transferred.
func loopForever(c *ual.Client, started func()) error {
	x, err := newLoop(c)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := x.transfer(); err != nil {
			return err
		}
		if i == 4 {
			started()
		}
	}
}

// victim is a victim as the test sees it.
type victim struct {
	t     *testing.T
	kind  string
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // of its output; closed when it has ended
}

func startVictim(t *testing.T, kind string, hasLibrary bool) *victim {
	v := &victim{t: t, kind: kind, cmd: role(t, victimRole), lines: make(chan string, 4)}
	v.cmd.Env = append(v.cmd.Env, victimKindEnv+"="+kind, victimLibEnv+"="+strconv.FormatBool(hasLibrary))
	v.cmd.Stderr = os.Stderr
	var err error
	v.in, err = v.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := v.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, v.cmd.Start())
	go func() {
		defer close(v.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			v.lines <- s.Text()
		}
	}()
	return v
}

// kill ends the victim with SIGKILL.
func (v *victim) kill() {
	require.NoError(v.t, v.cmd.Process.Kill())
	for range v.lines { // until the pipe is closed, as Wait demands
	}
	_ = v.cmd.Wait() // killed
}

// peer is the client that the victims of one test exchange data with, in the test's process.
type peer struct {
	t        *testing.T
	c        *ual.Client
	hca      *reference.HCA
	e        *endpoint
	m        *rdmacm.Manager
	ln       *rdmacm.Listener
	served   chan struct{} // closed when acceptAll has ended
	isPaired bool          // the QP of e is connected to that of the victim

	mu       sync.Mutex
	received int     // connections that have received data
	open     int     // connections that have not ended
	ended    []error // of Recv, of the connections that have ended; checkEnd takes them

	objects map[string]int // of the adapter without victims
	memory  int64          // of its queues
}

func newPeer(t *testing.T, c *ual.Client, h *reference.HCA) *peer {
	libraries := []*ci.UserLibrary{userlib.New()}
	m, err := services.Dial(services.Config{UAL: ual.Config{Name: "peer", Libraries: libraries}})
	require.NoError(t, err)
	p := &peer{t: t, c: c, hca: h, e: newEndpoint(t, c, ""), m: m, served: make(chan struct{})}
	require.NoError(t, p.e.qp.Destroy())
	p.ln, err = m.Listen(peerAddress, rdmacm.ListenConfig{})
	require.NoError(t, err)
	go p.acceptAll()
	// A first connection makes the manager open what it keeps.
	own, err := m.Dial(t.Context(), peerAddress)
	require.NoError(t, err)
	require.NoError(t, own.Send(t.Context(), []byte("hello")))
	eventually(t, "data", func() bool { received, _ := p.connections(); return received == 1 })
	require.NoError(t, own.Close())
	eventually(t, "the end of the first connection", func() bool {
		_, open := p.connections()
		return open == 0 && len(p.services()) == 1
	})
	p.ended, p.received = nil, 0
	p.objects = p.live()
	p.memory, _ = h.QueueMemory()
	return p
}

// connections returns the number of connections that have received data, and of those that have not ended.
func (p *peer) connections() (received, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received, p.open
}

// live returns the objects of the adapter, without address vectors, which the daemon's MAD services keep.
func (p *peer) live() map[string]int {
	list := p.hca.Live()
	delete(list, "AV")
	return list
}

// status returns the status of the daemon.
func (p *peer) status() (st kproxy.Status) {
	text, err := p.c.Status()
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal(text, &st))
	return st
}

// services returns the listeners and connections of all clients.
func (p *peer) services() (list []string) {
	for _, c := range p.status().Clients {
		list = append(list, c.Services...)
	}
	return list
}

// victims returns the clients of other processes.
func (p *peer) victims() (list []kproxy.ClientStatus) {
	for _, c := range p.status().Clients {
		if c.PID != os.Getpid() {
			list = append(list, c)
		}
	}
	return list
}

// acceptAll accepts connections and receives from each until it ends.
func (p *peer) acceptAll() {
	defer close(p.served)
	ctx := context.Background()
	for {
		q, err := p.ln.Accept(ctx)
		if err != nil {
			return
		}
		c, err := q.Accept(ctx)
		if err != nil {
			continue // the victim was killed meanwhile
		}
		p.count(1, 0)
		for n := 0; err == nil; n++ {
			if _, err = c.Recv(ctx); err == nil && n == 0 {
				p.count(0, 1)
			}
		}
		assert.NoError(p.t, c.Close())
		p.count(-1, 0, err)
	}
}

// count counts connections.
func (p *peer) count(open, received int, ended ...error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.received, p.ended = p.open+open, p.received+received, append(p.ended, ended...)
}

// serve is the other end of a victim. With isBusy, it returns under traffic.
func (p *peer) serve(v *victim, isBusy bool) {
	switch {
	case v.kind == victimPair:
		p.pair(v, isBusy)
	case isBusy && v.kind == victimLoop:
		require.Equal(p.t, "busy", <-v.lines)
	case isBusy && v.kind == victimConnect:
		eventually(p.t, "data", func() bool { received, _ := p.connections(); return received > 0 })
	}
}

// pair connects a QP to that of the victim.
func (p *peer) pair(v *victim, isBusy bool) {
	p.isPaired = isBusy
	if !isBusy {
		return
	}
	num, err := strconv.ParseUint(<-v.lines, 10, 24)
	require.NoError(p.t, err)
	p.e.newQP(p.t)
	p.e.connectTo(p.t, p.e.gid(p.t), ci.QPN(num), ci.ToRTS{AckTimeout: 8, RetryCount: 2, RNRRetry: 7, InitDepth: 1})
	_, err = fmt.Fprintln(v.in, uint32(p.e.qp.Num()))
	require.NoError(p.t, err)
	recv := []ci.RecvWR{{SGL: []ci.SGE{p.e.mr.Region().SGE(0, 4096)}}}
	for range 8 {
		_, err = p.e.qp.PostRecv(recv)
		require.NoError(p.t, err)
	}
	wc := make([]ci.WC, 8)
	for received := 0; received < 20; {
		n, err := p.e.cq.Poll(wc)
		require.NoError(p.t, err)
		for i := range wc[:n] {
			require.NoError(p.t, wc[i].Err())
			_, err = p.e.qp.PostRecv(recv)
			require.NoError(p.t, err)
		}
		received += n
	}
}

// checkEnd checks that this process has the errors of IBTA, and that nothing is left of the victim, which was killed.
func (p *peer) checkEnd(v *victim, isBusy bool) {
	t := p.t
	if p.isPaired {
		p.isPaired = false
		assert.Equal(t, ci.WCTimeoutRetryErr, p.sendToNobody())
		require.NoError(t, p.e.qp.Destroy())
		for n := 1; n > 0; { // flushed receives
			var err error
			n, err = p.e.cq.Poll(make([]ci.WC, 64))
			require.NoError(t, err)
		}
	}
	eventually(t, "cleanup", func() bool {
		used, _ := p.hca.QueueMemory()
		_, open := p.connections()
		return open == 0 && len(p.victims()) == 0 && maps.Equal(p.objects, p.live()) && used == p.memory
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.True(t, len(p.ended) == 1 || v.kind != victimConnect || !isBusy)
	for _, err := range p.ended {
		require.ErrorIs(t, err, rdmacm.ErrPeerDisconnected)
	}
	p.ended, p.received = nil, 0
	for _, c := range p.status().Clients {
		assert.Zero(t, c.Merged)
		assert.Zero(t, c.Rejected)
	}
}

// sendToNobody sends to a QP that does not exist any more, and returns the status of the request.
func (p *peer) sendToNobody() ci.WCStatus {
	_, err := p.e.qp.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled}})
	require.NoError(p.t, err)
	wc := make([]ci.WC, 1)
	for {
		n, err := p.e.cq.Poll(wc)
		require.NoError(p.t, err)
		if n > 0 && wc[0].ID == 1 {
			return wc[0].Status
		}
	}
}

// close ends the peer.
func (p *peer) close() {
	require.NoError(p.t, p.ln.Close())
	<-p.served
	require.NoError(p.t, p.m.Close())
	require.NoError(p.t, p.c.Close())
}
