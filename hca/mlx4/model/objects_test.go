package model_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// TestUnreliableConnection sends and writes over UC. Errors of the responder do not reach the requester.
func TestUnreliableConnection(t *testing.T) {
	a, b := newPair(t, prm.ServiceUC)
	for i := range a.mr.Bytes {
		a.mr.Bytes[i] = byte(i * 11)
	}
	const n = 9000
	b.qp.postRecv(dataSegment(n, b.mr.key, b.mr.start+n))
	a.qp.post(prm.WQESendImm, 5, dataSegment(n, a.mr.key, a.mr.start))
	e := b.cq.wait()
	requireCQE(t, e, b.qp.num, false, prm.CQERecvSendImm)
	require.EqualValues(t, 5, prm.CQEImmediate.Get(e))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESendImm)
	require.True(t, bytes.Equal(a.mr.Bytes[:n], b.mr.Bytes[n:2*n]))

	a.qp.post(prm.WQEWrite, 0, remoteSegment(b.mr.key+1, b.mr.start), dataSegment(10, a.mr.key, a.mr.start))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
	b.qp.postRecv(dataSegment(0, b.mr.key, b.mr.start))
	a.qp.post(prm.WQEWriteImm, 6, remoteSegment(b.mr.key, b.mr.start), dataSegment(n, a.mr.key, a.mr.start))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWriteImm)
	e = b.cq.wait()
	requireCQE(t, e, b.qp.num, false, prm.CQERecvWriteImm)
	require.True(t, bytes.Equal(a.mr.Bytes[:n], b.mr.Bytes[:n]))
	a.qp.post(prm.WQERead, 0, remoteSegment(b.mr.key, b.mr.start), dataSegment(10, a.mr.key, a.mr.start))
	require.EqualValues(t, prm.SynLocalQPOp, prm.CQESyndrome.Get(a.cq.wait()), "UC has no READ")
}

// A sharedQueue is an SRQ as its driver has it.
type sharedQueue struct {
	num      uint32
	mem, rec *bus.DMA
	posted   uint16
}

const (
	srqLog    = 3
	srqStride = 5
)

// newSRQ makes an SRQ whose WQEs are linked in the order of their indexes.
func (d *driver) newSRQ(num uint32) *sharedQueue {
	s := &sharedQueue{num: num, mem: d.alloc(4096), rec: d.alloc(4096)}
	for i := range 1 << srqLog {
		prm.NextIndex.Put(s.mem.Bytes[i<<srqStride:], uint64(i+1)%(1<<srqLog))
	}
	at := d.mtts(s.mem)
	d.with(prm.CmdSW2HWSRQ, num, 0, func(b []byte) {
		prm.SRQCLogSize.Put(b, srqLog)
		prm.SRQCLogStride.Put(b, srqStride-4)
		prm.SRQCMTTLow.Put(b, at)
		prm.SRQCPD.Put(b, testPD)
		prm.SRQCDoorbell.Put(b, s.rec.IOVA)
	})
	return s
}

// post posts a receive with one segment.
func (s *sharedQueue) post(segment []byte) {
	at := int(s.posted)%(1<<srqLog)<<srqStride + prm.NextIndex.Layout.Size
	copy(s.mem.Bytes[at:], segment)
	s.posted++
	store(s.rec.Bytes, uint32(s.posted))
}

// TestSharedReceiveQueue receives on two connections from one queue, around its end, and gets the event of its limit.
func TestSharedReceiveQueue(t *testing.T) {
	a, b := newPeers(t, prm.ServiceRC)
	srq := b.newSRQ(0x80)
	var ends [2][2]*queuePair
	for i := range ends {
		qa, qb := a.newQP(uint32(0x250+i), prm.ServiceRC, a.cq), b.newQP(uint32(0x250+i), prm.ServiceRC, b.cq)
		prm.QPCHasSRQ.Put(qb.context, 1)
		prm.QPCSRQN.Put(qb.context, uint64(srq.num))
		qa.connect(2, qb.num)
		qb.connect(1, qa.num)
		ends[i] = [2]*queuePair{qa, qb}
	}
	for round := range 3 << srqLog {
		at := 64 * (round % 10)
		srq.post(dataSegment(64, b.mr.key, b.mr.start+uint64(at)))
		if round == 0 {
			srq.post(dataSegment(64, b.mr.key, b.mr.start+1024)) // one ahead from now on
			b.imm(prm.CmdArmSRQ, 1, srq.num, 0)
			require.EqualValues(t, 1, prm.SRQCLimit.Get(b.query(prm.CmdQuerySRQ, srq.num, 0)))
		}
		q := ends[round%2]
		text := string([]byte{'m', byte(round)})
		q[0].post(prm.WQESend, 0, inlineSegment(text))
		requireCQE(t, a.cq.wait(), q[0].num, true, prm.WQESend)
		e := b.cq.wait()
		requireCQE(t, e, q[1].num, false, prm.CQERecvSend)
		require.EqualValues(t, round%(1<<srqLog), prm.CQEWQEIndex.Get(e))
		wqe := srq.mem.Bytes[round%(1<<srqLog)<<srqStride+prm.NextIndex.Layout.Size:]
		got := b.mr.Bytes[prm.DataAddress.Get(wqe)-b.mr.start:]
		require.Equal(t, text, string(got[:2]))
	}
	ends[0][0].post(prm.WQESend, 0, inlineSegment("the last one"))
	requireCQE(t, b.cq.wait(), ends[0][1].num, false, prm.CQERecvSend)
	require.EqualValues(t, srq.num, prm.EQESRQN.Get(b.waitEvent(asyncEQ, prm.EventSRQLimit)))
	s, _ := b.exec(prm.CmdHW2SWSRQ, 0, srq.num, 1, 0)
	require.Equal(t, prm.ResourceBusy, s, "QPs use it")
	for _, q := range ends {
		b.imm(prm.Cmd2RST, 0, q[1].num, 2)
	}
	b.imm(prm.CmdHW2SWSRQ, 0, srq.num, 1)
}

// TestResizeCQ continues in a larger buffer, behind an entry that marks the end of the old one.
func TestResizeCQ(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	send := func() {
		b.qp.postRecv(dataSegment(100, b.mr.key, b.mr.start))
		a.qp.post(prm.WQESend, 0, inlineSegment("x"))
		requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
	}
	for range 5 {
		send()
		requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
	}
	send() // stays in the old buffer
	old := *b.cq
	const log = 8
	next := b.alloc(64 << log)
	at := b.mtts(next)
	b.with(prm.CmdModifyCQ, b.cq.num, prm.ModifyCQResize, func(x []byte) {
		prm.CQCLogSize.Put(x, log)
		prm.CQCMTTLow.Put(x, at)
	})
	requireCQE(t, old.wait(), b.qp.num, false, prm.CQERecvSend)
	require.EqualValues(t, prm.CQEOpcodeResize, prm.CQEOpcode.Get(old.wait()))
	b.cq.mem, b.cq.log, b.cq.consumer = next, log, old.consumer
	for range 10 {
		send()
		requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
	}
	s, _ := b.exec(prm.CmdModifyCQ, b.in.IOVA, 0x999, prm.ModifyCQResize, 0)
	require.Equal(t, prm.BadIndex, s)

	for range 4 { // which the driver does not take
		send()
	}
	for _, tt := range []struct {
		log  uint64
		want prm.Status
	}{{1, prm.BadSize}, {2, prm.BadSize}, {3, prm.OK}} {
		b.fill(func(x []byte) {
			prm.CQCLogSize.Put(x, tt.log)
			prm.CQCMTTLow.Put(x, at)
		})
		for b.cqProducer() != b.cq.consumer+4 { // the peer's completion does not wait for it
		}
		s, _ = b.exec(prm.CmdModifyCQ, b.in.IOVA, b.cq.num, prm.ModifyCQResize, 0)
		require.Equal(t, tt.want, s, "4 entries in a queue of 2^%d", tt.log)
	}
}

// cqProducer returns the producer index of the CQ.
func (p *peer) cqProducer() uint32 {
	p.t.Helper()
	return uint32(prm.CQCProducer.Get(p.query(prm.CmdQueryCQ, p.cq.num, 0)))
}

// bindSegment returns the segment of a window bind.
func bindSegment(newKey, lkey, addr, length uint64) []byte {
	b := make([]byte, prm.BindNewKey.Layout.Size)
	prm.BindRemoteRead.Put(b, 1)
	prm.BindRemoteWrite.Put(b, 1)
	prm.BindType2.Put(b, 1)
	prm.BindNewKey.Put(b, newKey)
	prm.BindLKey.Put(b, lkey)
	prm.BindAddress.Put(b, addr)
	prm.BindLength.Put(b, length)
	return b
}

// TestWindow binds a window, writes through it, and finds its bounds.
func TestWindow(t *testing.T) {
	for _, isZeroBased := range []uint64{0, 1} {
		testWindow(t, isZeroBased)
	}
}

func testWindow(t *testing.T, isZeroBased uint64) {
	a, b := newPair(t, prm.ServiceRC)
	const index = 0x123
	key := uint64(prm.KeyOf(index))
	b.with(prm.CmdSW2HWMPT, index, 0, func(x []byte) {
		prm.MPTOwner.Put(x, prm.MPTOwnerSW)
		prm.MPTBoundToQP.Put(x, 1)
		prm.MPTIndex.Put(x, index)
		prm.MPTPD.Put(x, testPD)
	})
	s, _ := b.exec(prm.CmdHW2SWMPT, 0, b.mr.index, 1, 0)
	require.Equal(t, prm.OK, s, "no window is bound")
	b.mr = b.newMR(regionSize)
	key++ // a bind changes the lower bits
	bind, first := bindSegment(key, b.mr.key, b.mr.start+100, 50), (b.mr.start+100)*(1-isZeroBased)
	prm.BindZeroBased.Put(bind, isZeroBased)
	b.qp.post(prm.WQEBind, 0, bind)
	requireCQE(t, b.cq.wait(), b.qp.num, true, prm.WQEBind)
	copy(a.mr.Bytes, "through the window")
	a.qp.post(prm.WQEWrite, 0, remoteSegment(key, first), dataSegment(18, a.mr.key, a.mr.start))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
	require.Equal(t, "through the window", string(b.mr.Bytes[100:118]))
	s, _ = b.exec(prm.CmdHW2SWMPT, 0, b.mr.index, 1, 0)
	require.Equal(t, prm.RegBound, s)
	a.qp.post(prm.WQEWrite, 0, remoteSegment(key, first+40), dataSegment(18, a.mr.key, a.mr.start))
	require.EqualValues(t, prm.SynRemoteAccess, prm.CQESyndrome.Get(a.cq.wait()), "beyond the window")
}

// TestFastRegister registers pages by a WQE, reads from them, and invalidates the key.
func TestFastRegister(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	const index, pages = 0x124, 3
	b.with(prm.CmdSW2HWMPT, index, 0, func(x []byte) {
		prm.MPTOwner.Put(x, prm.MPTOwnerFree)
		prm.MPTRegion.Put(x, 1)
		prm.MPTFastReg.Put(x, 1)
		prm.MPTRemoteOn.Put(x, 1)
		prm.MPTIndex.Put(x, index)
		prm.MPTPD.Put(x, testPD)
		prm.MPTMTTCount.Put(x, pages)
		prm.MPTLogPage.Put(x, 12)
	})
	list := b.alloc(4096)
	memory := b.alloc(8 * 4096)
	for i, page := range []int{5, 0, 2} { // in no order
		binary.BigEndian.PutUint64(list.Bytes[8*i:], memory.IOVA+uint64(page)<<12|1)
		copy(memory.Bytes[page<<12:], []byte{byte('A' + i)})
	}
	const start, offset = 0x1000_0000, 0
	key := uint64(prm.KeyOf(index)) + 7
	x := make([]byte, prm.FastRegSegment)
	prm.FastRegRemoteRead.Put(x, 1)
	prm.FastRegKey.Put(x, key)
	prm.FastRegList.Put(x, list.IOVA)
	prm.FastRegStart.Put(x, start)
	prm.FastRegLength.Put(x, pages<<12)
	prm.FastRegOffset.Put(x, offset)
	prm.FastRegLogPage.Put(x, 12)
	b.qp.post(prm.WQEFastRegister, 0, x)
	requireCQE(t, b.cq.wait(), b.qp.num, true, prm.WQEFastRegister)
	a.qp.post(prm.WQERead, 0, remoteSegment(key, start), dataSegment(pages<<12, a.mr.key, a.mr.start))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQERead)
	for i := range pages {
		require.Equal(t, byte('A'+i), a.mr.Bytes[i<<12], "page %d", i)
	}
	inv := make([]byte, prm.LocalInvSegment)
	prm.LocalInvKey.Put(inv, key)
	b.qp.post(prm.WQELocalInv, 0, inv)
	requireCQE(t, b.cq.wait(), b.qp.num, true, prm.WQELocalInv)
	a.qp.post(prm.WQERead, 0, remoteSegment(key, start), dataSegment(8, a.mr.key, a.mr.start))
	require.EqualValues(t, prm.SynRemoteAccess, prm.CQESyndrome.Get(a.cq.wait()))
}

// TestSyncTPT registers other memory with the same key: software edits the entry in the ICM, and the command takes it
// over.
func TestSyncTPT(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	b.imm(prm.CmdHW2SWMPT, 0, b.mr.index, 1)
	other := b.alloc(regionSize)
	at := b.mtts(other)
	entry := b.icmMem.Bytes[icmMPT+int(b.mr.index)*prm.MPTStride:]
	prm.MPTMTTLow.Put(entry, at)
	prm.MPTOwner.Put(entry, prm.MPTOwnerHW)
	b.imm(prm.CmdSyncTPT, 0, 0, 0)
	copy(a.mr.Bytes, "to the other memory")
	a.qp.post(prm.WQEWrite, 0, remoteSegment(b.mr.key, b.mr.start), dataSegment(19, a.mr.key, a.mr.start))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
	require.Equal(t, "to the other memory", string(other.Bytes[:19]))
	require.Zero(t, b.mr.Bytes[0])
}
