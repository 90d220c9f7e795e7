package model_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// A peer is one end of a connection: a driver with a CQ, a region and a QP.
type peer struct {
	*driver
	cq *completionQueue
	mr *memoryRegion
	qp *queuePair
}

const regionSize = 1 << 16

func newPeer(t testing.TB, m *model.Model, service uint64) *peer {
	d := newDriver(t, m)
	d.start()
	d.imm(prm.CmdInitPort, 0, 1, 0)
	p := &peer{driver: d, cq: d.newCQ(128, 6), mr: d.newMR(regionSize)}
	p.qp = d.newQP(0x240, service, p.cq)
	return p
}

// newPair returns two adapters on a link and a connection between them.
func newPair(t testing.TB, service uint64) (a, b *peer) {
	a, b = newPeers(t, service)
	a.qp.connect(2, b.qp.num)
	b.qp.connect(1, a.qp.num)
	return a, b
}

// newPeers returns two adapters on a link.
func newPeers(t testing.TB, service uint64) (a, b *peer) {
	l := direct.NewLink()
	return newPeer(t, newModel(t, l, model.Config{}), service), newPeer(t, newModel(t, l, model.Config{}), service)
}

func TestReliableConnection(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	for i := range a.mr.Bytes {
		a.mr.Bytes[i] = byte(i * 7)
	}
	const n = 20000 // several pages and packets
	for round := range 40 {
		b.qp.postRecv(dataSegment(n, b.mr.key, b.mr.start+8))
		a.qp.post(prm.WQESendImm, 0x1020304, dataSegment(n, a.mr.key, a.mr.start+3))
		e := b.cq.wait()
		requireCQE(t, e, b.qp.num, false, prm.CQERecvSendImm)
		require.EqualValues(t, n, prm.CQEByteCount.Get(e))
		require.EqualValues(t, 0x1020304, prm.CQEImmediate.Get(e))
		require.EqualValues(t, round, prm.CQEWQEIndex.Get(e))
		e = a.cq.wait()
		requireCQE(t, e, a.qp.num, true, prm.WQESendImm)
		require.EqualValues(t, round, prm.CQEWQEIndex.Get(e))
		require.True(t, bytes.Equal(a.mr.Bytes[3:3+n], b.mr.Bytes[8:8+n]))
		a.mr.Bytes[3+round]++
	}

	a.qp.post(prm.WQEWrite, 0, remoteSegment(b.mr.key, b.mr.start+40000), dataSegment(5000, a.mr.key, a.mr.start))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
	require.True(t, bytes.Equal(a.mr.Bytes[:5000], b.mr.Bytes[40000:45000]))

	copy(b.mr.Bytes[50000:], "to be read")
	a.qp.post(prm.WQERead, 0, remoteSegment(b.mr.key, b.mr.start+50000), dataSegment(10, a.mr.key, a.mr.start+60000))
	e := a.cq.wait()
	requireCQE(t, e, a.qp.num, true, prm.WQERead)
	require.EqualValues(t, 10, prm.CQEByteCount.Get(e))
	require.Equal(t, "to be read", string(a.mr.Bytes[60000:60010]))

	word := b.mr.Bytes[1024:1032]
	binary.LittleEndian.PutUint64(word, 40)
	a.qp.post(prm.WQEFetchAdd, 0, remoteSegment(b.mr.key, b.mr.start+1024), atomicSegment(2, 0),
		dataSegment(8, a.mr.key, a.mr.start+2048))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEFetchAdd)
	require.EqualValues(t, 42, binary.LittleEndian.Uint64(word))
	require.EqualValues(t, 40, binary.LittleEndian.Uint64(a.mr.Bytes[2048:]))
	a.qp.post(prm.WQECompareSwap, 0, remoteSegment(b.mr.key, b.mr.start+1024), atomicSegment(99, 42),
		dataSegment(8, a.mr.key, a.mr.start+2048))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQECompareSwap)
	require.EqualValues(t, 99, binary.LittleEndian.Uint64(word))

	b.qp.postRecv(dataSegment(100, b.mr.key, b.mr.start))
	a.qp.post(prm.WQESend, 0, inlineSegment("inline data"))
	requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
	require.Equal(t, "inline data", string(b.mr.Bytes[:11]))

	require.EqualValues(t, prm.QPRTS, prm.QPCState.Get(a.query(prm.CmdQueryQP, a.qp.num, 0)[prm.QPContext.Off:]))
}

// An access without rights ends the connection with the syndromes that a driver expects.
func TestErrorCompletions(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	b.qp.postRecv(dataSegment(100, b.mr.key, b.mr.start))
	a.qp.post(prm.WQEWrite, 0, remoteSegment(b.mr.key+1, b.mr.start), dataSegment(10, a.mr.key, a.mr.start))
	a.qp.post(prm.WQESend, 0, dataSegment(10, a.mr.key, a.mr.start))
	for _, want := range []prm.Syndrome{prm.SynRemoteAccess, prm.SynFlushed} {
		e := a.cq.wait()
		require.EqualValues(t, prm.CQEOpcodeError, prm.CQEOpcode.Get(e))
		require.EqualValues(t, want, prm.CQESyndrome.Get(e))
		require.True(t, prm.CQESend.Has(e))
	}
	ev := b.waitEvent(asyncEQ, prm.EventWQAccess)
	require.EqualValues(t, b.qp.num, prm.EQEQPN.Get(ev))
	e := b.cq.wait()
	require.EqualValues(t, prm.SynFlushed, prm.CQESyndrome.Get(e))
	counters := a.query(prm.CmdDiagReport, 0, 2)
	require.EqualValues(t, 1, prm.DiagSQRemoteAccess.Get(counters))
	require.EqualValues(t, 1, prm.DiagSQFlushed.Get(counters))
	require.Zero(t, prm.DiagRQFlushed.Get(counters))
	counters = b.query(prm.CmdDiagReport, 1, 2)
	require.EqualValues(t, 1, prm.DiagRQFlushed.Get(counters))
	require.Zero(t, prm.DiagSQFlushed.Get(counters))
	s, _ := b.exec(prm.CmdDiagReport, 0, 2, 2, b.out.IOVA)
	require.Equal(t, prm.BadParam, s, "there is no second port")
	require.EqualValues(t, prm.QPError, prm.QPCState.Get(a.query(prm.CmdQueryQP, a.qp.num, 0)[prm.QPContext.Off:]))
	a.imm(prm.Cmd2RST, 0, a.qp.num, 2)
	a.qp.sent = 0
	a.qp.stamp()
}

// A completion event comes once for each arming, also if the completion was there before.
func TestCompletionEvents(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	b.cq.arm(prm.ArmAny)
	for range 3 {
		b.qp.postRecv(dataSegment(100, b.mr.key, b.mr.start))
		a.qp.post(prm.WQESend, 0, inlineSegment("x"))
		requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
		e := b.waitEvent(compEQ, prm.EventCompletion)
		require.EqualValues(t, b.cq.num, prm.EQECQN.Get(e))
		require.Empty(t, b.eqs[compEQ].pending)
		b.cq.arm(prm.ArmAny) // the completion has not been polled
		b.waitEvent(compEQ, prm.EventCompletion)
		requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
		b.cq.arm(prm.ArmAny)
	}
}
