package model_test

import (
	"cmp"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// A completionQueue is a CQ as its driver has it.
type completionQueue struct {
	d        *driver
	num      uint32
	log      int
	mem, rec *bus.DMA
	consumer uint32
	arms     uint64 // doorbells that armed it
	mtt      uint64 // offset of its first MTT
}

func (d *driver) newCQ(num uint32, log int) *completionQueue {
	q := &completionQueue{d: d, num: num, log: log, mem: d.alloc(max(64<<log, 4096)), rec: d.alloc(4096)}
	q.mtt = d.mtts(q.mem)
	d.with(prm.CmdSW2HWCQ, num, 0, func(b []byte) {
		prm.CQCLogSize.Put(b, uint64(log))
		prm.CQCEQN.Put(b, compEQ)
		prm.CQCUAR.Put(b, 128)
		prm.CQCMTTLow.Put(b, q.mtt)
		prm.CQCDoorbell.Put(b, q.rec.IOVA)
	})
	return q
}

// poll returns the next CQE, or nil.
func (q *completionQueue) poll() []byte {
	n := q.consumer & (1<<q.log - 1)
	e := q.mem.Bytes[64*n+32 : 64*n+64]
	if load(e[28:])>>7&1 != q.consumer>>q.log&1 {
		return nil
	}
	q.consumer++
	store(q.rec.Bytes, q.consumer&0xffffff)
	return append([]byte(nil), e...)
}

// wait returns the next CQE.
func (q *completionQueue) wait() []byte {
	q.d.t.Helper()
	for deadline := time.Now().Add(waitTime); ; runtime.Gosched() {
		if e := q.poll(); e != nil {
			return e
		}
		require.True(q.d.t, time.Now().Before(deadline), "no completion at CQ %d", q.num)
	}
}

// arm rings the doorbell for an event.
func (q *completionQueue) arm(command uint64) {
	var b [8]byte
	q.arms++
	prm.CQDoorbellSequence.Put(b[:], q.arms&3)
	prm.CQDoorbellCommand.Put(b[:], command)
	prm.CQDoorbellCQN.Put(b[:], uint64(q.num))
	prm.CQDoorbellConsumer.Put(b[:], uint64(q.consumer))
	q.d.uar.Write64(prm.UARCQDoorbell+128*prm.UARPageSize, binary.LittleEndian.Uint64(b[:]))
}

// A memoryRegion is registered memory.
type memoryRegion struct {
	*bus.DMA
	index uint32
	key   uint64
	start uint64
}

const testPD = 5

// newMR registers memory with all rights at a virtual address.
func (d *driver) newMR(size int) *memoryRegion {
	m := &memoryRegion{DMA: d.alloc(size), index: d.nextKey, start: 0x7f00_0000_0000 + uint64(d.nextKey)<<24}
	d.nextKey++
	at := d.mtts(m.DMA)
	// The upper bits of an index count registrations.
	index := m.index | 0xa5<<24
	m.key = uint64(prm.KeyOf(index))
	d.with(prm.CmdSW2HWMPT, m.index, 0, func(b []byte) {
		prm.MPTOwner.Put(b, prm.MPTOwnerSW)
		for _, f := range []prm.Field{prm.MPTMemory, prm.MPTRegion, prm.MPTLocalRead, prm.MPTLocalWrite,
			prm.MPTRemoteRead, prm.MPTRemoteWrite, prm.MPTAtomic, prm.MPTBind} {
			f.Put(b, 1)
		}
		prm.MPTIndex.Put(b, uint64(index))
		prm.MPTPD.Put(b, testPD)
		prm.MPTStart.Put(b, m.start)
		prm.MPTLength.Put(b, uint64(size))
		prm.MPTMTTLow.Put(b, at)
		prm.MPTLogPage.Put(b, 12)
	})
	return m
}

// A queuePair is a QP as its driver has it.
type queuePair struct {
	d        *driver
	num      uint32
	service  uint64
	cq       *completionQueue
	mem, rec *bus.DMA
	sent     uint32
	received uint16
	context  []byte
	timeout  uint64 // code of the acknowledgement timeout; 0: 14, which is 67 ms
}

const (
	sendLog    = 4 // slots
	sendStride = 7 // bytes
	recvLog    = 4
	recvStride = 5
)

func (d *driver) newQP(num uint32, service uint64, cq *completionQueue) *queuePair {
	q := &queuePair{d: d, num: num, service: service, cq: cq, mem: d.alloc(4096), rec: d.alloc(4096)}
	q.stamp()
	ctx := make([]byte, prm.QPContextSize)
	prm.QPCService.Put(ctx, service)
	prm.QPCPD.Put(ctx, testPD)
	prm.QPCMTU.Put(ctx, 5)
	prm.QPCLogSendSize.Put(ctx, sendLog)
	prm.QPCLogSendStride.Put(ctx, sendStride-4)
	prm.QPCLogRecvSize.Put(ctx, recvLog)
	prm.QPCLogRecvStride.Put(ctx, recvStride-4)
	prm.QPCUAR.Put(ctx, 128)
	prm.QPCSendCQN.Put(ctx, uint64(cq.num))
	prm.QPCRecvCQN.Put(ctx, uint64(cq.num))
	prm.QPCDoorbell.Put(ctx, q.rec.IOVA)
	prm.QPCMTTLow.Put(ctx, d.mtts(q.mem))
	prm.QPCNumber.Put(ctx, uint64(num))
	prm.QPCQKey.Put(ctx, 0x1234)
	prm.QPCRemoteRead.Put(ctx, 1)
	prm.QPCRemoteWrite.Put(ctx, 1)
	prm.QPCRemoteAtomic.Put(ctx, 1)
	prm.PathSchedule.Put(prm.QPCPrimary.Bytes(ctx, prm.PathSize), 0x83)
	q.context = ctx
	return q
}

// stamp marks all slots of the send queue as the driver's.
func (q *queuePair) stamp() {
	for i := range 1 << sendLog {
		prm.CtrlOwner.Put(q.mem.Bytes[i<<sendStride:], 1)
	}
}

func (q *queuePair) modify(op prm.Opcode, mask uint64) {
	q.d.t.Helper()
	q.d.with(op, q.num, 0, func(b []byte) {
		prm.QPOptionalMask.Put(b, mask)
		copy(b[prm.QPContext.Off:], q.context)
	})
}

// connect takes the QP to RTS.
func (q *queuePair) connect(lid uint16, remote uint32) {
	q.d.t.Helper()
	q.modify(prm.CmdRST2INIT, 0)
	q.proceed(lid, remote)
}

// proceed takes a connected QP from Init to RTS.
func (q *queuePair) proceed(lid uint16, remote uint32) {
	q.d.t.Helper()
	path := prm.QPCPrimary.Bytes(q.context, prm.PathSize)
	prm.PathRemoteLID.Put(path, uint64(lid))
	prm.PathAckTimeout.Put(path, cmp.Or(q.timeout, 14))
	prm.QPCRemote.Put(q.context, uint64(remote))
	prm.QPCRecvPSN.Put(q.context, 77)
	prm.QPCSendPSN.Put(q.context, 77)
	prm.QPCMinRNR.Put(q.context, 1)
	prm.QPCRespDepth.Put(q.context, 2)
	prm.QPCInitDepth.Put(q.context, 2)
	prm.QPCRetryCount.Put(q.context, 7)
	prm.QPCRNRRetry.Put(q.context, 7)
	q.modify(prm.CmdINIT2RTR, 0x102ce)
	q.modify(prm.CmdRTR2RTS, 0x7100)
}

// post writes a WQE to the send queue and rings the doorbell.
func (q *queuePair) post(opcode uint64, imm uint32, segments ...[]byte) {
	q.write(opcode, imm, 0, segments)
}

// postWith is post with flags of the control segment.
func (q *queuePair) postWith(opcode uint64, flags uint8, segments ...[]byte) {
	q.write(opcode, 0, flags, segments)
}

func (q *queuePair) write(opcode uint64, imm uint32, flags uint8, segments [][]byte) {
	q.prepare(opcode, imm, flags, segments)
	q.ring()
}

// ring rings the doorbell of the send queue.
func (q *queuePair) ring() {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], q.num<<8)
	q.d.uar.Write32(prm.UARSendDoorbell+128*prm.UARPageSize, binary.LittleEndian.Uint32(b[:]))
}

// prepare writes a WQE to the send queue, and returns it.
func (q *queuePair) prepare(opcode uint64, imm uint32, flags uint8, segments [][]byte) []byte {
	n := q.sent & (1<<sendLog - 1)
	wqe := q.mem.Bytes[n<<sendStride : (n+1)<<sendStride]
	const flagsAt = 11
	wqe[flagsAt] = flags
	at := prm.CtrlSegment
	for _, s := range segments {
		at += copy(wqe[at:], s)
	}
	prm.CtrlSize.Put(wqe, uint64(at/16))
	prm.CtrlCompletion.Put(wqe, prm.CompletionAlways)
	prm.CtrlImmediate.Put(wqe, uint64(imm))
	var first [4]byte
	prm.CtrlOpcode.Put(first[:], opcode)
	prm.CtrlOwner.Put(first[:], uint64(q.sent>>sendLog&1))
	store(wqe, binary.BigEndian.Uint32(first[:]))
	q.sent++
	return wqe[:at]
}

// postRecv writes a WQE to the receive queue.
func (q *queuePair) postRecv(segments ...[]byte) {
	base := 1 << (sendLog + sendStride) // the send queue has the larger stride
	n := int(q.received) & (1<<recvLog - 1)
	wqe := q.mem.Bytes[base+n<<recvStride : base+(n+1)<<recvStride]
	clear(wqe)
	for i := range len(wqe) / prm.DataSegment {
		s := dataSegment(0, uint64(prm.InvalidKey), 0)
		if i < len(segments) {
			s = segments[i]
		}
		copy(wqe[i*prm.DataSegment:], s)
	}
	q.received++
	store(q.rec.Bytes, uint32(q.received))
}

func dataSegment(n int, key, addr uint64) []byte {
	b := make([]byte, prm.DataSegment)
	prm.DataCount.Put(b, uint64(n))
	prm.DataKey.Put(b, key)
	prm.DataAddress.Put(b, addr)
	return b
}

func remoteSegment(key, addr uint64) []byte {
	b := make([]byte, prm.RemoteSegment)
	prm.RemoteKey.Put(b, key)
	prm.RemoteAddress.Put(b, addr)
	return b
}

func atomicSegment(swap, compare uint64) []byte {
	b := make([]byte, prm.AtomicSegment)
	prm.AtomicSwap.Put(b, swap)
	prm.AtomicCompare.Put(b, compare)
	return b
}

func inlineSegment(data string) []byte {
	b := make([]byte, (prm.InlineHeader+len(data)+15)&^15)
	prm.InlineFlag.Put(b, 1)
	prm.InlineCount.Put(b, uint64(len(data)))
	copy(b[prm.InlineHeader:], data)
	return b
}

// requireCQE checks a successful completion.
func requireCQE(t testing.TB, e []byte, qpn uint32, isSend bool, opcode uint64) {
	t.Helper()
	require.Equal(t, isSend, prm.CQESend.Has(e))
	require.Equal(t, opcode, prm.CQEOpcode.Get(e), "syndrome %#x", prm.CQESyndrome.Get(e))
	require.EqualValues(t, qpn, prm.CQEQPN.Get(e))
}
