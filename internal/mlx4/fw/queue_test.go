package fw_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// A testCQ is a CQ as its driver has it.
type testCQ struct {
	arms  uint32 // doorbells that armed it
	d     *fw.Device
	num   uint32
	queue *fw.Queue
	rec   *fw.Record
	uar   *fw.UAR
	pd    uint32
}

const logCQ = 6

// newCQ makes a CQ with a completion function, and arms it.
func newCQ(t testing.TB, d *fw.Device, eq int, completion func()) *testCQ {
	ctx := t.Context()
	q := &testCQ{d: d}
	var err error
	q.num, err = d.AllocCQ(ctx)
	require.NoError(t, err)
	q.queue, err = d.AllocQueue(ctx, d.Caps().CQESize<<logCQ)
	require.NoError(t, err)
	q.rec, err = d.AllocRecord()
	require.NoError(t, err)
	q.uar, err = d.AllocUAR()
	require.NoError(t, err)
	q.pd, err = d.AllocPD()
	require.NoError(t, err)
	require.NoError(t, d.HandleCQ(q.num, completion, nil))
	b := make([]byte, prm.CQCState.Layout.Size)
	prm.CQCLogSize.Put(b, logCQ)
	prm.CQCUAR.Put(b, uint64(q.uar.Index()))
	prm.CQCEQN.Put(b, uint64(d.CompletionEQ(eq)))
	prm.CQCMTTHigh.Put(b, q.queue.MTT.Offset()>>32)
	prm.CQCMTTLow.Put(b, q.queue.MTT.Offset())
	prm.CQCDoorbell.Put(b, q.rec.IOVA)
	require.NoError(t, d.Cmd(ctx, prm.CmdSW2HWCQ, fw.Args{In: b, Modifier: q.num}))
	q.arm()
	return q
}

// arm arms the CQ for any completion behind the consumer index 0.
func (q *testCQ) arm() {
	q.uar.ArmCQ(q.arms&3<<28|prm.ArmAny<<24|q.num, 0)
	q.arms++
}

// complete produces a completion: that of a receive request which a QP in the error state flushes.
func (q *testCQ) complete(t testing.TB) {
	const logRecv, stride = 2, 4
	ctx, d := t.Context(), q.d
	qpn, err := d.AllocQPs(ctx, 1, 1)
	require.NoError(t, err)
	mem, err := d.AllocQueue(ctx, prm.ICMPageSize)
	require.NoError(t, err)
	rec, err := d.AllocRecord()
	require.NoError(t, err)
	fw.Store32(rec.Bytes, 1) // a receive request is posted
	b := make([]byte, prm.QPOptionalMask.Layout.Size)
	c := b[prm.QPContext.Off:]
	prm.QPCService.Put(c, prm.ServiceUC)
	prm.QPCPD.Put(c, uint64(q.pd))
	prm.QPCMTU.Put(c, 5)
	prm.QPCLogRecvSize.Put(c, logRecv)
	prm.QPCLogRecvStride.Put(c, stride-4)
	prm.QPCLogSendSize.Put(c, logRecv)
	prm.QPCLogSendStride.Put(c, stride+2-4)
	prm.QPCSendCQN.Put(c, uint64(q.num))
	prm.QPCRecvCQN.Put(c, uint64(q.num))
	prm.QPCDoorbell.Put(c, rec.IOVA)
	prm.QPCMTTLow.Put(c, mem.MTT.Offset())
	prm.QPCNumber.Put(c, uint64(qpn))
	prm.QPCUAR.Put(c, uint64(q.uar.Index()))
	prm.PathSchedule.Put(prm.QPCPrimary.Bytes(c, prm.PathSize), 0x83)
	require.NoError(t, d.Cmd(ctx, prm.CmdRST2INIT, fw.Args{In: b, Modifier: qpn}))
	require.NoError(t, d.Cmd(ctx, prm.Cmd2ERR, fw.Args{In: b, Modifier: qpn}))
	require.NoError(t, d.Cmd(ctx, prm.Cmd2RST, fw.Args{Modifier: qpn, OpModifier: 2}))
	require.NoError(t, d.FreeQueue(mem))
	d.FreeRecord(rec)
	d.FreeQPs(qpn, 1)
}

// destroy ends the CQ.
func (q *testCQ) destroy(t testing.TB) {
	require.NoError(t, q.d.Cmd(t.Context(), prm.CmdHW2SWCQ, fw.Args{Modifier: q.num, OpModifier: 1}))
	q.d.ReleaseCQ(q.num)
	require.NoError(t, q.d.FreeQueue(q.queue))
	q.d.FreeRecord(q.rec)
	q.uar.Free()
	q.d.FreePD(q.pd)
	q.d.FreeCQ(q.num)
}
