package ual_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/ual"
)

// appProgram is a program that uses an adapter through queues in its own memory.
type appProgram struct {
	ca     ci.CA
	pd     ci.PD
	cq     ci.CQ
	a, b   ci.QP
	mr     ci.MR
	memory *ual.Memory
	events chan ci.Event
}

const appHalf = 4096 // bytes; each half of the memory

// newAppProgram connects to a daemon, and creates a connection of two QPs.
func newAppProgram(path string) (*appProgram, error) {
	c, err := ual.Dial(ual.Config{Path: path, Name: "appqueue", Libraries: []*ci.UserLibrary{appLibrary()}})
	if err != nil {
		return nil, err
	}
	hcas, err := c.HCAs()
	if err != nil {
		return nil, err
	}
	p := &appProgram{events: make(chan ci.Event, 16)}
	if p.ca, err = hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil); err != nil {
		return nil, err
	}
	if p.pd, err = p.ca.AllocatePD(ci.PDNormal); err != nil {
		return nil, err
	}
	if p.memory, err = ual.NewMemory(2 * appHalf); err != nil {
		return nil, err
	}
	if p.mr, err = p.pd.RegisterMR(ci.MRCreate{Memory: p.memory,
		Access: ci.LocalWrite | ci.RemoteWrite}); err != nil {
		return nil, err
	}
	return p, p.connect()
}

// connect creates two QPs and connects them.
func (p *appProgram) connect() (err error) {
	onEvent := func(e ci.Event) { p.events <- e }
	if p.cq, err = p.pd.CreateCQ(ci.CQCreate{Size: ringDepth, Context: "cq", OnEvent: onEvent}); err != nil {
		return err
	}
	c := ci.QPCreate{Type: ci.RC, SendCQ: p.cq, RecvCQ: p.cq, OnEvent: onEvent,
		QPCaps: ci.QPCaps{SendDepth: ringDepth, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}
	c.Context = "a"
	if p.a, err = p.pd.CreateQP(c); err != nil {
		return err
	}
	c.Context = "b"
	if p.b, err = p.pd.CreateQP(c); err != nil {
		return err
	}
	attr, err := p.ca.Query()
	if err != nil {
		return err
	}
	for _, x := range []struct{ q, peer ci.QP }{{p.a, p.b}, {p.b, p.a}} {
		if err := errors.Join(
			x.q.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC)),
			x.q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, Global: true,
				GRH: ci.GRH{DGID: attr.Ports[0].GIDs[0].GID, HopLimit: 64}},
				MTU: ci.MTU1024, DestNum: x.peer.Num(), RQPSN: 7, RespRes: 4, MinRNRTimer: 12}.For(ci.RC)),
			x.q.Modify(ci.ToRTS{SQPSN: 7, AckTimeout: 14, RetryCount: 7, RNRRetry: 7, InitDepth: 4}.For(ci.RC)),
		); err != nil {
			return err
		}
	}
	return nil
}

// post posts n writes of one byte pattern to q, from the first half of the memory to the second.
func (p *appProgram) post(q ci.QP, n int, pattern byte) error {
	for i := range p.memory.Bytes()[:appHalf] {
		p.memory.Bytes()[i] = pattern
	}
	r := p.mr.Region()
	var wrs []ci.SendWR
	for i := range n {
		wrs = append(wrs, ci.SendWR{ID: uint64(i), Op: ci.OpWrite, Flags: ci.SendSignaled,
			SGL: []ci.SGE{r.SGE(0, appHalf)}, Remote: r.Remote(appHalf)})
	}
	_, err := q.PostSend(wrs)
	return err
}

// round posts writes, awaits their completions, and compares the bytes.
func (p *appProgram) round(n int, pattern byte) error {
	if err := p.post(p.a, n, pattern); err != nil {
		return err
	}
	var wc [ringDepth]ci.WC
	for got := 0; got < n; {
		k, err := p.cq.Poll(wc[:])
		if err != nil {
			return err
		}
		for i := range wc[:k] {
			if wc[i].Status != ci.WCSuccess || wc[i].ID != uint64(got+i) || wc[i].QPN != p.a.Num() {
				return fmt.Errorf("completion %d: %+v", got+i, wc[i])
			}
		}
		if got += k; k == 0 {
			runtime.Gosched()
		}
	}
	if b := p.memory.Bytes(); !bytes.Equal(b[:appHalf], b[appHalf:]) {
		return fmt.Errorf("pattern %d: the bytes differ", pattern)
	}
	return nil
}

// writesThroughQueue moves data until its input ends, and 100 rounds after that.
func writesThroughQueue(path string) error {
	p, err := newAppProgram(path)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for i, left := 0, 100; left > 0; i++ {
		if err := p.round(1+i%ringDepth, byte(i)); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		select {
		case <-ended:
			left--
		default:
		}
		if i == 0 {
			fmt.Println("ready")
		}
	}
	return nil
}

// event waits for an event.
func (p *appProgram) event(typ ci.EventType, context string) error {
	for {
		select {
		case e := <-p.events:
			if e.Type == typ && e.Context == context {
				return nil
			}
		case <-time.After(testenv.Patience):
			return fmt.Errorf("no event %v of %s", typ, context)
		}
	}
}

// unmapsQueues takes the memory of its queues away while the driver uses them, and then waits to be killed.
func unmapsQueues(path string) error {
	p, err := newAppProgram(path)
	if err != nil {
		return err
	}
	if err := p.round(ringDepth, 1); err != nil {
		return err
	}
	cq, _ := ci.UserHandle[*appQueue](p.cq)
	send, ok := ci.UserHandle[*appQueue](p.a)
	if !ok {
		return errors.New("a QP without a queue of the library")
	}
	// The driver has completions to deliver, and the queue for them disappears.
	if err := p.post(p.a, ringDepth-1, 2); err != nil {
		return err
	}
	if err := cq.close(); err != nil {
		return err
	}
	if err := p.post(p.a, 1, 2); err != nil {
		return err
	}
	if err := p.event(ci.EventCQError, "cq"); err != nil {
		return err
	}
	// The doorbell rings for a queue that has disappeared.
	if err := send.close(); err != nil {
		return err
	}
	if err := p.post(p.b, 1, 2); err != nil {
		return err
	}
	if err := p.event(ci.EventQPFatal, "a"); err != nil {
		return err
	}
	if _, err := p.ca.Query(); err != nil { // other verbs continue to work
		return err
	}
	// A queue of garbage, and one at an address that was never mapped.
	if err := p.connect(); err != nil {
		return err
	}
	send, _ = ci.UserHandle[*appQueue](p.a)
	send.index += 1 << 40
	if err := p.post(p.a, 1, 3); err != nil {
		return err
	}
	if err := p.event(ci.EventQPFatal, "a"); err != nil {
		return err
	}
	fmt.Println("<nil>")
	select {}
}

// TestQueuesOfApplication has two processes whose queues are in memory that their library has allocated, the second
// style of SAS-2.4-02. One of them unmaps its queues, overwrites others, and is killed. The other one is not affected,
// and nothing remains of the first. The daemon reaches the queues, or the library copies them.
func TestQueuesOfApplication(t *testing.T) {
	for name, cfg := range map[string]kproxy.Config{"reached": {},
		"copied": {ClientCopies: true, CopyTimeout: patience}} {
		t.Run(name, func(t *testing.T) { queuesOfApplication(t, cfg) })
	}
}

func queuesOfApplication(t *testing.T, cfg kproxy.Config) {
	r := newRigOf(t, cfg, func(h *reference.HCA) ci.HCA { return &appHCA{h} })
	path := r.listen()
	honest := role("writes", path)
	in, err := honest.StdinPipe()
	require.NoError(t, err)
	out, err := honest.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, honest.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	before := live(r)

	hostile := role("unmaps", path)
	out, err = hostile.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, hostile.Start())
	line, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "<nil>\n", line)
	require.NoError(t, hostile.Process.Kill())
	_ = hostile.Wait() // killed
	require.Eventually(t, func() bool { return len(r.core.Sessions()) == 1 }, testenv.Patience, time.Millisecond)
	assert.Equal(t, before, live(r))

	require.NoError(t, in.Close())
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "<nil>\n", line)
	require.NoError(t, honest.Wait())
	require.Eventually(t, func() bool { return len(live(r)) == 0 }, testenv.Patience, time.Millisecond)
}
