package rchca_test

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference/arena"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/templates/rchca"
	"ciddk/templates/rchca/soft"
	"ciddk/templates/rchca/userlib"
	"ciddk/templates/rchca/userqueues"
	"ciddk/ual"
)

// daemon is a daemon in this process, with one adapter.
type daemon struct {
	t      *testing.T
	server *server.Server
}

func newDaemon(t *testing.T) *daemon {
	h, err := rchca.New(new(soft.Fabric).New(0x02ddcd0000007001))
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	require.NoError(t, al.Register(h))
	core, err := kproxy.New(kproxy.Config{AL: al})
	require.NoError(t, err)
	d := &daemon{t: t, server: server.New(core, clock.Real())}
	t.Cleanup(func() {
		d.server.Close()
		require.NoError(t, core.Close())
		require.NoError(t, al.Close())
		for kind, n := range h.Live() {
			assert.Zero(t, n, "%s left", kind)
		}
		require.NoError(t, h.Close())
	})
	return d
}

// process is a client with the user library, and two connected QPs.
type process struct {
	t      *testing.T
	client *ual.Client
	shared []byte // the memory of the queues, mapped once more
	pd     ci.PD
	cq     ci.CQ
	a, b   ci.QP
	events chan ci.EventType
}

func (d *daemon) start(size int) *process {
	t := d.t
	p := &process{t: t, events: make(chan ci.EventType, 100)}
	lib := userlib.New()
	open := lib.OpenCA.Post
	lib.OpenCA.Post = func(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
		if assert.Len(t, ub.OutFiles, 2) {
			m, err := arena.Open(ub.OutFiles[0])
			assert.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, m.Close()) })
			p.shared = m.Bytes()
		}
		return open(a, ub, err)
	}
	ours, theirs, err := native.Pair()
	require.NoError(t, err)
	d.server.ServeConn(ours)
	p.client, err = ual.New(theirs, ual.Config{Libraries: []*ci.UserLibrary{lib}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.client.Close()) })
	hcas, err := p.client.HCAs()
	require.NoError(t, err)
	onEvent := func(e ci.Event) { p.events <- e.Type }
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, onEvent, nil)
	require.NoError(t, err)
	attr, err := ca.Query()
	require.NoError(t, err)
	p.pd, err = ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	p.cq, err = p.pd.CreateCQ(ci.CQCreate{Size: size, OnEvent: onEvent})
	require.NoError(t, err)
	c := ci.QPCreate{Type: ci.RC, SendCQ: p.cq, RecvCQ: p.cq, OnEvent: onEvent,
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1, MaxInline: 16}}
	c.Context = "a"
	p.a, err = p.pd.CreateQP(c)
	require.NoError(t, err)
	c.Context = "b"
	p.b, err = p.pd.CreateQP(c)
	require.NoError(t, err)
	for _, x := range []struct{ q, peer ci.QP }{{p.a, p.b}, {p.b, p.a}} {
		require.NoError(t, x.q.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC)))
		require.NoError(t, x.q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: attr.Ports[0].LID, Global: true,
			GRH: ci.GRH{DGID: attr.Ports[0].GIDs[0].GID, HopLimit: 64}},
			MTU: ci.MTU1024, DestNum: x.peer.Num(), RQPSN: 7, RespRes: 4, MinRNRTimer: 12}.For(ci.RC)))
		require.NoError(t, x.q.Modify(ci.ToRTS{SQPSN: 7, AckTimeout: 14, RetryCount: 7, RNRRetry: 7,
			InitDepth: 4}.For(ci.RC)))
	}
	return p
}

// poll returns the next n completions.
func (p *process) poll(n int) []ci.WC {
	var list []ci.WC
	wc := make([]ci.WC, 8)
	require.Eventually(p.t, func() bool {
		k, err := p.cq.Poll(wc)
		require.NoError(p.t, err)
		list = append(list, wc[:k]...)
		return len(list) >= n
	}, 2*time.Minute, time.Millisecond)
	return list
}

// await returns when the process has received the events, in any order.
func (p *process) await(want ...ci.EventType) {
	for len(want) > 0 {
		select {
		case e := <-p.events:
			want = slices.DeleteFunc(want, func(w ci.EventType) bool { return w == e })
		case <-time.After(2 * time.Minute):
			require.FailNow(p.t, "no event", "%v", want)
		}
	}
}

// nops posts n signaled requests to q.
func nops(q ci.QP, n int) (int, error) {
	wrs := make([]ci.SendWR, n)
	for i := range wrs {
		wrs[i] = ci.SendWR{ID: uint64(i), Op: ci.OpNop, Flags: ci.SendSignaled}
	}
	return q.PostSend(wrs)
}

// TestBypass sends a message. The daemon sees no message for the send and the completions.
func TestBypass(t *testing.T) {
	p := newDaemon(t).start(16)
	b := make([]byte, 64)
	mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite})
	require.NoError(t, err)
	for round := range 10 { // more than the queue has slots
		_, err = p.b.PostRecv([]ci.RecvWR{{ID: 2, SGL: []ci.SGE{mr.Region().SGE(0, 64)}}})
		require.NoError(t, err)
		_, err = p.a.PostSend([]ci.SendWR{{ID: 1, Flags: ci.SendSignaled, Inline: []byte{'m', byte(round)}}})
		require.NoError(t, err)
		for _, wc := range p.poll(2) {
			require.NoError(t, wc.Err())
			assert.Equal(t, map[uint64]any{1: "a", 2: "b"}[wc.ID], wc.Context)
		}
		require.Equal(t, []byte{'m', byte(round)}, b[:2])
	}
	text, err := p.client.Status()
	require.NoError(t, err)
	var st kproxy.Status
	require.NoError(t, json.Unmarshal(text, &st))
	require.Len(t, st.Clients, 1)
	assert.EqualValues(t, 10, st.Clients[0].Posts, "receives")
	assert.Zero(t, st.Clients[0].Completions)
}

// TestSendQueue checks the limit of the queue, Reset, and Destroy.
func TestSendQueue(t *testing.T) {
	p := newDaemon(t).start(16)
	sqd, attr := ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}
	require.NoError(t, p.a.Modify(sqd, attr)) // nothing completes
	n, err := nops(p.a, 5)
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 4, n)
	require.NoError(t, p.a.Modify(ci.ToReset()))
	_, err = nops(p.a, 1)
	require.ErrorIs(t, err, ci.InvalidQPState)
	require.NoError(t, p.b.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	n, err = nops(p.b, 4)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.NoError(t, p.a.Destroy())
	_, err = nops(p.a, 1)
	require.ErrorIs(t, err, ci.InvalidQPHandle)
	for _, wc := range p.poll(4) {
		require.Equal(t, ci.WCFlushErr, wc.Status)
		require.Equal(t, p.b.Num(), wc.QPN, "Reset removes the requests of the other QP")
	}
}

// TestOverflow fills a CQ that nobody polls.
func TestOverflow(t *testing.T) {
	p := newDaemon(t).start(3)
	_, err := nops(p.a, 4)
	require.NoError(t, err)
	p.await(ci.EventCQError, ci.EventQPFatal)
}

// TestHostile overwrites a send queue. The QP fails, and another process is not affected.
func TestHostile(t *testing.T) {
	for name, overwrite := range map[string]func(q []byte){
		"index":     func(q []byte) { binary.NativeEndian.PutUint32(q, 1000) },
		"segments":  func(q []byte) { q[128+29] = 200 },
		"inline":    func(q []byte) { binary.NativeEndian.PutUint16(q[128+30:], 60000) },
		"operation": func(q []byte) { q[128+28] = 99 },
		"completed": func(q []byte) { binary.NativeEndian.PutUint32(q[64:], 1<<31) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			p, other := d.start(16), d.start(16)
			_, err := nops(p.a, 1)
			require.NoError(t, err)
			p.poll(1)
			// The QP's queue follows the CQ's, in the first pages. Requests of all slots are overwritten.
			q := p.shared[userqueues.HeaderSize+arena.PageSize:]
			for i := range 4 {
				element := q[i*48:]
				if name == "index" || name == "completed" {
					element = q
				}
				overwrite(element)
			}
			if name == "completed" { // harms the process only: its library has lost count
				_, _ = nops(p.a, 1)
			} else {
				binary.NativeEndian.PutUint32(q, binary.NativeEndian.Uint32(q)+1)
				_, _ = nops(p.b, 1) // wakes the driver
				p.await(ci.EventQPFatal)
			}
			_, err = nops(other.a, 3)
			require.NoError(t, err)
			other.poll(3)
		})
	}
}
