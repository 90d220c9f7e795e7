package linktest

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/rings"
	"ciddk/internal/testenv"
	"ciddk/rvt"
)

// HCA is an adapter of the engine: *rvt.HCA or a wrapper.
type HCA interface {
	ci.HCA
	Close() error
	Counters() map[string]uint64
	Live() map[string]int
	QPCounters(ci.QPN) (rvt.QPCounters, bool)
	SetLink(port uint8, up bool) error
}

// Config returns the configuration of an HCA with all capabilities of the engine that need only ports.
func Config(ports ...rvt.Port) rvt.Config {
	caps := ci.CapUC | ci.CapUD | ci.CapAV | ci.CapMulticast | ci.CapSRQ | ci.CapFastReg | ci.CapAPM |
		ci.CapSystemGUID
	return rvt.Config{Info: ci.HCAInfo{GUID: ci.GUID(0x02df<<48 | guids.Add(1)<<8)}, Attr: ci.CAAttr{Caps: caps},
		Ports: ports, Rings: rings.RXE{}}
}

var guids atomic.Uint64

// Open opens a node with ports.
func Open(t testing.TB, typ ci.QPType, size int, ports ...rvt.Port) *Node {
	t.Helper()
	return OpenConfig(t, typ, size, Config(ports...))
}

// OpenConfig opens a node with a configuration.
func OpenConfig(t testing.TB, typ ci.QPType, size int, c rvt.Config) *Node {
	t.Helper()
	h, err := rvt.New(c)
	require.NoError(t, err)
	return NewNode(t, h, typ, size)
}

// A Node is an HCA with the objects of a connection. It is closed when the test ends.
type Node struct {
	HCA    HCA
	CA     ci.CA
	PD     ci.PD
	CQ     ci.CQ
	QP     ci.QP
	MR     ci.MR
	Buf    []byte
	Events chan ci.Event
	Attr   ci.PortAttr // of port 1
	Hasty  bool        // short timeouts and packets, for links that lose packets
	GID    uint16      // index of the GID that the node uses; set it before Connect

	t testing.TB
	// PathBits are added to the LID, on a port with an LMC.
	PathBits uint8
}

// NewNode returns a node on an adapter, with a QP of type typ and size bytes of memory.
func NewNode(t testing.TB, h HCA, typ ci.QPType, size int) *Node {
	t.Helper()
	n := &Node{t: t, HCA: h, Buf: make([]byte, size), Events: make(chan ci.Event, 100)}
	var err error
	n.CA, err = h.OpenCA(h.Info().GUID, func(e ci.Event) { n.Events <- e }, nil)
	require.NoError(t, err)
	n.PD, err = n.CA.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	n.CQ, err = n.PD.CreateCQ(ci.CQCreate{Size: 1000})
	require.NoError(t, err)
	n.MR, err = n.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(n.Buf),
		Access: ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic})
	require.NoError(t, err)
	n.QP, err = n.PD.CreateQP(ci.QPCreate{Type: typ, SendCQ: n.CQ, RecvCQ: n.CQ, QPCaps: ci.QPCaps{SendDepth: 127,
		RecvDepth: 127, SendSGE: 2, RecvSGE: 2, MaxInline: 64}})
	require.NoError(t, err)
	a, err := n.CA.Query()
	require.NoError(t, err)
	n.Attr = a.Ports[0]
	t.Cleanup(n.close)
	return n
}

// close checks that all objects can be destroyed.
func (n *Node) close() {
	for _, o := range []ci.Object{n.QP, n.MR, n.CQ, n.PD} {
		require.NoError(n.t, o.Destroy())
	}
	require.NoError(n.t, n.CA.Destroy())
	require.NoError(n.t, n.HCA.Close())
	for kind, k := range n.HCA.Live() {
		require.Zero(n.t, k, kind)
	}
}

// AV returns the address of another node.
func (n *Node) AV(to *Node) ci.AVAttr {
	return ci.AVAttr{Port: 1, DLID: to.Attr.LID + ci.LID(to.PathBits), PathBits: n.PathBits,
		Global: to.Attr.Link == ci.LinkEthernet,
		GRH:    ci.GRH{DGID: to.Attr.GIDs[to.GID].GID, SGIDIndex: n.GID, HopLimit: 64}}
}

// Connect moves a connected QP to RTS.
func (n *Node) Connect(to *Node) {
	n.t.Helper()
	timeout := ci.TimeExp(18) // 1 s
	if n.Hasty {
		timeout = 14 // 67 ms
	}
	mtu := min(n.Attr.MTUOf(0), to.Attr.MTUOf(0))
	if n.Hasty {
		mtu = ci.MTU1024
	}
	a := ci.QPAttr{State: ci.QPInit, Port: 1, Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic}
	require.NoError(n.t, n.QP.Modify(ci.QPFieldsInit, a))
	a = ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: n.AV(to), AckTimeout: timeout}, MTU: mtu,
		DestNum: to.QP.Num(), RQPSN: 100,
		RespRes: 4, MinRNRTimer: 1}
	require.NoError(n.t, n.QP.Modify(ci.QPFieldsRTR, a))
	a = ci.QPAttr{State: ci.QPRTS, SQPSN: 100, RetryCount: 7, RNRRetry: 7, InitDepth: 4,
		Primary: ci.Path{AckTimeout: timeout}}
	require.NoError(n.t, n.QP.Modify(ci.QPFieldsRTS, a))
}

// ConnectBoth connects two nodes.
func ConnectBoth(a, b *Node) {
	a.Connect(b)
	b.Connect(a)
}

// Poll waits for k successful completions. It yields after an empty poll, since the peer may need the processor.
func (n *Node) Poll(k int) []ci.WC {
	n.t.Helper()
	var out []ci.WC
	wcs := make([]ci.WC, 16)
	deadline := time.Now().Add(testenv.Patience)
	for len(out) < k {
		m, err := n.CQ.Poll(wcs[:min(16, k-len(out))])
		require.NoError(n.t, err)
		for _, wc := range wcs[:m] {
			require.Equal(n.t, ci.WCSuccess, wc.Status, "%v", wc)
		}
		out = append(out, wcs[:m]...)
		if m > 0 {
			continue
		}
		if time.Now().After(deadline) {
			require.FailNow(n.t, "timeout", "%d of %d completions; counters %v", len(out), k, n.HCA.Counters())
		}
		runtime.Gosched()
	}
	return out
}

// Send posts work requests.
func (n *Node) Send(wrs ...ci.SendWR) {
	n.t.Helper()
	k, err := n.QP.PostSend(wrs)
	require.NoError(n.t, err)
	require.Equal(n.t, len(wrs), k)
}

// Recv posts receives.
func (n *Node) Recv(wrs ...ci.RecvWR) {
	n.t.Helper()
	k, err := n.QP.PostRecv(wrs)
	require.NoError(n.t, err)
	require.Equal(n.t, len(wrs), k)
}

// SGE returns a gather list of one element.
func (n *Node) SGE(off, size int) []ci.SGE {
	return []ci.SGE{n.MR.Region().SGE(uint64(off), uint32(size))}
}

// Fill writes bytes that depend on a seed.
func Fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
}

// Exercise executes every RC operation once over a connected pair and checks the data.
func Exercise(t testing.TB, a, b *Node) {
	t.Helper()
	const size = 300_000
	r := b.MR.Region()
	Fill(a.Buf[:size], 1)
	b.Recv(ci.RecvWR{ID: 7, SGL: b.SGE(0, size)}, ci.RecvWR{ID: 8})
	a.Send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.SGE(0, size)})
	require.EqualValues(t, 1, a.Poll(1)[0].ID)
	require.EqualValues(t, 7, b.Poll(1)[0].ID)
	require.Equal(t, a.Buf[:size], b.Buf[:size])

	Fill(a.Buf[:size], 2)
	a.Send(ci.SendWR{ID: 2, Op: ci.OpWrite, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 0x01020304,
		SGL: a.SGE(0, size), Remote: r.Remote(0)})
	a.Poll(1)
	wc := b.Poll(1)[0]
	require.Equal(t, ci.WCRecvWrite, wc.Op)
	require.EqualValues(t, 0x01020304, wc.Imm)
	require.Equal(t, a.Buf[:size], b.Buf[:size])

	Fill(b.Buf[:size], 3)
	a.Send(ci.SendWR{ID: 3, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.SGE(0, size), Remote: r.Remote(0)})
	a.Poll(1)
	require.Equal(t, a.Buf[:size], b.Buf[:size])

	binary.NativeEndian.PutUint64(b.Buf, 40)
	a.Send(ci.SendWR{ID: 4, Op: ci.OpFetchAdd, SGL: a.SGE(0, 8), Remote: r.Remote(0), Atomic: ci.Atomic{Compare: 2}},
		ci.SendWR{ID: 5, Op: ci.OpCompareSwap, Flags: ci.SendSignaled, SGL: a.SGE(8, 8), Remote: r.Remote(0),
			Atomic: ci.Atomic{Compare: 42, Swap: 99}})
	a.Poll(1)
	require.EqualValues(t, 40, binary.NativeEndian.Uint64(a.Buf))
	require.EqualValues(t, 42, binary.NativeEndian.Uint64(a.Buf[8:]))
	require.EqualValues(t, 99, binary.NativeEndian.Uint64(b.Buf))
}
