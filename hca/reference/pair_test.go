package reference

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// node is one HCA with what a test of a connection needs.
type node struct {
	t      testing.TB
	hca    *HCA
	ca     ci.CA
	pd     ci.PD
	cq     ci.CQ
	qp     ci.QP
	mr     ci.MR
	buf    []byte
	events chan ci.Event
	attr   ci.PortAttr
	hasty  bool // short timeouts and packets, for links that lose
}

func newNode(t testing.TB, c Config, typ ci.QPType, size int) *node {
	t.Helper()
	h, err := New(c)
	require.NoError(t, err)
	n := &node{t: t, hca: h, buf: make([]byte, size), events: make(chan ci.Event, 100)}
	n.ca, err = h.OpenCA(h.Info().GUID, func(e ci.Event) { n.events <- e }, nil)
	require.NoError(t, err)
	n.pd, err = n.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	n.cq, err = n.pd.CreateCQ(ci.CQCreate{Size: 1000})
	require.NoError(t, err)
	n.mr, err = n.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(n.buf), Access: ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic})
	require.NoError(t, err)
	n.qp, err = n.pd.CreateQP(ci.QPCreate{Type: typ, SendCQ: n.cq, RecvCQ: n.cq, QPCaps: ci.QPCaps{SendDepth: 127, RecvDepth: 127, SendSGE: 2, RecvSGE: 2, MaxInline: 64}})
	require.NoError(t, err)
	a, err := n.ca.Query()
	require.NoError(t, err)
	n.attr = a.Ports[0]
	t.Cleanup(n.close)
	return n
}

// close checks that nothing is left of what was made.
func (n *node) close() {
	for _, o := range []ci.Object{n.qp, n.mr, n.cq, n.pd} {
		require.NoError(n.t, o.Destroy())
	}
	require.NoError(n.t, n.ca.Destroy())
	require.NoError(n.t, n.hca.Close())
	for kind, k := range n.hca.Live() {
		require.Zero(n.t, k, kind)
	}
}

func (n *node) av(to *node) ci.AVAttr {
	return ci.AVAttr{Port: 1, DLID: to.attr.LID, Global: to.attr.Link == ci.LinkEthernet, GRH: ci.GRH{DGID: to.attr.GIDs[0].GID, HopLimit: 64}}
}

// connect takes a connected QP to RTS.
func (n *node) connect(to *node) {
	n.t.Helper()
	timeout := ci.TimeExp(18) // 1 s
	if n.hasty {
		timeout = 14 // 67 ms
	}
	mtu := min(n.attr.MTU, to.attr.MTU)
	if n.hasty {
		mtu = ci.MTU1024
	}
	a := ci.QPAttr{State: ci.QPInit, Port: 1, Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic}
	require.NoError(n.t, n.qp.Modify(ci.QPFieldsInit, a))
	a = ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: n.av(to), AckTimeout: timeout}, MTU: mtu, DestNum: to.qp.Num(), RQPSN: 100,
		RespRes: 4, MinRNRTimer: 1}
	require.NoError(n.t, n.qp.Modify(ci.QPFieldsRTR, a))
	a = ci.QPAttr{State: ci.QPRTS, SQPSN: 100, RetryCount: 7, RNRRetry: 7, InitDepth: 4, Primary: ci.Path{AckTimeout: timeout}}
	require.NoError(n.t, n.qp.Modify(ci.QPFieldsRTS, a))
}

func connectBoth(a, b *node) {
	a.connect(b)
	b.connect(a)
}

// poll waits for k completions without error.
func (n *node) poll(k int) []ci.WC {
	n.t.Helper()
	var out []ci.WC
	wcs := make([]ci.WC, 16)
	deadline := time.Now().Add(20 * time.Second)
	for len(out) < k {
		m, err := n.cq.Poll(wcs[:min(16, k-len(out))])
		require.NoError(n.t, err)
		for _, wc := range wcs[:m] {
			require.Equal(n.t, ci.WCSuccess, wc.Status, "%v", wc)
		}
		out = append(out, wcs[:m]...)
		if m == 0 && time.Now().After(deadline) {
			require.FailNow(n.t, "timeout", "%d of %d completions; counters %v", len(out), k, n.hca.Counters())
		}
	}
	return out
}

func (n *node) send(wrs ...ci.SendWR) {
	n.t.Helper()
	k, err := n.qp.PostSend(wrs)
	require.NoError(n.t, err)
	require.Equal(n.t, len(wrs), k)
}

func (n *node) recv(wrs ...ci.RecvWR) {
	n.t.Helper()
	k, err := n.qp.PostRecv(wrs)
	require.NoError(n.t, err)
	require.Equal(n.t, len(wrs), k)
}

func (n *node) sge(off, size int) []ci.SGE {
	return []ci.SGE{n.mr.Region().SGE(uint64(off), uint32(size))}
}

// fill writes bytes that depend on a seed.
func fillBytes(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
}

// exercise runs every operation of RC once over a connected pair, and checks bytes.
func exercise(t testing.TB, a, b *node) {
	t.Helper()
	const size = 300_000
	r := b.mr.Region()
	fillBytes(a.buf[:size], 1)
	b.recv(ci.RecvWR{ID: 7, SGL: b.sge(0, size)}, ci.RecvWR{ID: 8})
	a.send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.sge(0, size)})
	require.EqualValues(t, 1, a.poll(1)[0].ID)
	require.EqualValues(t, 7, b.poll(1)[0].ID)
	require.Equal(t, a.buf[:size], b.buf[:size])

	fillBytes(a.buf[:size], 2)
	a.send(ci.SendWR{ID: 2, Op: ci.OpWrite, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 0x01020304, SGL: a.sge(0, size), Remote: r.Remote(0)})
	a.poll(1)
	wc := b.poll(1)[0]
	require.Equal(t, ci.WCRecvWrite, wc.Op)
	require.EqualValues(t, 0x01020304, wc.Imm)
	require.Equal(t, a.buf[:size], b.buf[:size])

	fillBytes(b.buf[:size], 3)
	a.send(ci.SendWR{ID: 3, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(0, size), Remote: r.Remote(0)})
	a.poll(1)
	require.Equal(t, a.buf[:size], b.buf[:size])

	binary.NativeEndian.PutUint64(b.buf, 40)
	a.send(ci.SendWR{ID: 4, Op: ci.OpFetchAdd, SGL: a.sge(0, 8), Remote: r.Remote(0), Atomic: ci.Atomic{Compare: 2}},
		ci.SendWR{ID: 5, Op: ci.OpCompareSwap, Flags: ci.SendSignaled, SGL: a.sge(8, 8), Remote: r.Remote(0), Atomic: ci.Atomic{Compare: 42, Swap: 99}})
	a.poll(1)
	require.EqualValues(t, 40, binary.NativeEndian.Uint64(a.buf))
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(a.buf[8:]))
	require.EqualValues(t, 99, binary.NativeEndian.Uint64(b.buf))
}
