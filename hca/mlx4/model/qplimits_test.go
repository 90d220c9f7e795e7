package model_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
)

// TestSpecialQPsOfAbsentPort makes QP0 and QP1 of the second port of an adapter that has one.
func TestSpecialQPsOfAbsentPort(t *testing.T) {
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.start()
	cq := d.newCQ(128, 4)
	const base = 0x200
	d.imm(prm.CmdConfSpecialQP, 0, base, 0)
	for i, want := range []prm.Status{prm.OK, prm.BadParam, prm.OK, prm.BadParam, prm.BadParam} {
		q := d.newQP(base+uint32(i), prm.ServiceMLX, cq)
		d.fill(func(b []byte) { copy(b[prm.QPContext.Off:], q.context) })
		s, _ := d.exec(prm.CmdRST2INIT, d.in.IOVA, q.num, 0, 0)
		assert.Equal(t, want, s, "QP %#x", q.num)
	}
}

// TestQueueOrder receives into queues of each order in the buffer: the queue with the larger stride comes first, and
// the send queue if both have the same.
func TestQueueOrder(t *testing.T) {
	for _, tt := range []struct {
		recvStride, sendAt, recvAt int
	}{
		{sendStride - 1, 0, 1 << (sendLog + sendStride)},
		{sendStride, 0, 1 << (sendLog + sendStride)},
		{sendStride + 1, 1 << (recvLog + sendStride + 1), 0},
	} {
		a, b := newPeers(t, prm.ServiceRC)
		b.qp = b.newQP(0x250, prm.ServiceRC, b.cq)
		b.qp.mem = b.alloc(2 * 4096)
		prm.QPCMTTLow.Put(b.qp.context, b.mtts(b.qp.mem))
		prm.QPCLogRecvStride.Put(b.qp.context, uint64(tt.recvStride-4))
		for i := range 1 << sendLog {
			prm.CtrlOwner.Put(b.qp.mem.Bytes[tt.sendAt+i<<sendStride:], 1)
		}
		a.qp.connect(2, b.qp.num)
		b.qp.connect(1, a.qp.num)
		for i := range 3 {
			wqe := b.qp.mem.Bytes[tt.recvAt+i<<tt.recvStride:]
			copy(wqe, dataSegment(100, b.mr.key, b.mr.start+uint64(100*i)))
			copy(wqe[prm.DataSegment:], dataSegment(0, uint64(prm.InvalidKey), 0))
			store(b.qp.rec.Bytes, uint32(i+1))
			a.qp.post(prm.WQESend, 0, inlineSegment(string(rune('a'+i))))
			requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
			requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
			require.EqualValues(t, 'a'+i, b.mr.Bytes[100*i], "stride %d", tt.recvStride)
		}
		// A request of the other side.
		memory := b.qp.mem.Bytes
		b.qp.mem.Bytes = memory[tt.sendAt:]
		nop(t, b.qp)
		b.qp.mem.Bytes = memory
	}
}

// TestBadSegments posts requests whose segments the adapter does not take.
func TestBadSegments(t *testing.T) {
	for name, tt := range map[string]struct {
		opcode   uint64
		segments func(p *peer) [][]byte
	}{
		"inline data before a data segment": {prm.WQESend, func(p *peer) [][]byte {
			return [][]byte{inlineSegment("x"), dataSegment(8, p.mr.key, p.mr.start)}
		}},
		"inline data behind a data segment": {prm.WQESend, func(p *peer) [][]byte {
			return [][]byte{dataSegment(8, p.mr.key, p.mr.start), inlineSegment("x")}
		}},
		"registration of more pages than announced": {prm.WQEFastRegister, func(p *peer) [][]byte {
			s := make([]byte, prm.FastRegSegment)
			prm.FastRegKey.Put(s, p.mr.key)
			prm.FastRegList.Put(s, p.mr.IOVA)
			prm.FastRegLength.Put(s, 513<<12)
			prm.FastRegLogPage.Put(s, 12)
			return [][]byte{s}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newPair(t, prm.ServiceRC)
			b.qp.postRecv(dataSegment(100, b.mr.key, b.mr.start))
			a.qp.post(tt.opcode, 0, tt.segments(a)...)
			e := a.cq.wait()
			require.EqualValues(t, prm.CQEOpcodeError, prm.CQEOpcode.Get(e))
			require.EqualValues(t, prm.SynLocalQPOp, prm.CQESyndrome.Get(e))
		})
	}
}

// TestReceiveCQErrorOfFrames lets the receive CQ of a QP of raw frames overrun. Its send CQ is another one.
func TestReceiveCQErrorOfFrames(t *testing.T) {
	hub := frame.NewHub()
	a, b := newEthPeer(t, hub, 1, false), newEthPeer(t, hub, 2, false)
	qa := a.newFrameQP(0x300)
	small := b.newCQ(129, 1)
	qb := b.newQP(0x300, prm.ServiceMLX, b.cq)
	prm.QPCRecvCQN.Put(qb.context, uint64(small.num))
	prm.PathLinkType.Put(prm.QPCPrimary.Bytes(qb.context, prm.PathSize), prm.PathLinkEthernet)
	qb.start()
	b.steer(7, b.mac, qb.num)
	for range 3 {
		qb.postRecv(dataSegment(200, b.mr.key, b.mr.start))
		qa.post(prm.WQESend, 0, inlineSegment(string(b.mac[:])+string(a.mac[:])+"\x88\xb5"))
		requireCQE(t, a.cq.wait(), qa.num, true, prm.WQESend)
	}
	e := b.waitEvent(asyncEQ, prm.EventCQError)
	assert.EqualValues(t, small.num, prm.EQECQErrCQN.Get(e))
	e = b.waitEvent(asyncEQ, prm.EventWQCatastrophic)
	assert.EqualValues(t, qb.num, prm.EQEQPN.Get(e))
	assert.EqualValues(t, prm.QPError, b.qpState(qb.num))
	other := b.newQP(0x301, prm.ServiceMLX, b.cq)
	copy(other.context, qb.context)
	prm.QPCNumber.Put(other.context, uint64(other.num))
	b.fill(func(x []byte) { copy(x[prm.QPContext.Off:], other.context) })
	s, _ := b.exec(prm.CmdRST2INIT, b.in.IOVA, other.num, 0, 0)
	assert.Equal(t, prm.BadResState, s, "a QP on a CQ in error")
}
