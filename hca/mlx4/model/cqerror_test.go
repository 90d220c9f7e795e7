package model_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
)

// cqFault is a way to make a CQ fail.
type cqFault struct {
	name     string
	log      int // of the entries
	fault    func(t *testing.T, q *completionQueue)
	status   uint64
	syndrome uint64
	overruns uint64
}

var cqFaults = []cqFault{
	{"overrun", 2, func(*testing.T, *completionQueue) {}, prm.CQCStatusFull, prm.CQErrOverrun, 1},
	{"queue not mapped", 6, func(t *testing.T, q *completionQueue) { require.NoError(t, q.mem.Close()) },
		prm.CQCStatusError, prm.CQErrAccess, 0},
	{"record not mapped", 2, func(t *testing.T, q *completionQueue) { require.NoError(t, q.rec.Close()) },
		prm.CQCStatusError, prm.CQErrAccess, 0},
	{"MTT not present", 6, func(_ *testing.T, q *completionQueue) { clear(q.d.icmMem.Bytes[icmMTT+q.mtt:][:8]) },
		prm.CQCStatusError, prm.CQErrAccess, 0},
}

// TestCQError lets a CQ fail, and checks that it stays in error, what the driver learns, and that others are not
// disturbed.
func TestCQError(t *testing.T) {
	for _, tt := range cqFaults {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), prm.ServiceUD)
			p.qp.start()
			p.requireCQ(p.cq, 0)
			nop(t, p.qp) // so that the model knows the pages of this queue
			bad := p.newCQ(129, tt.log)
			x := p.newQP(0x241, prm.ServiceUD, bad)
			x.start()
			tt.fault(t, bad)
			for range 1<<tt.log + 1 {
				if x.sent < 1<<sendLog-2 { // the rest of the queue stays free
					x.post(prm.WQENop, 0)
				}
			}
			e := p.waitEvent(asyncEQ, prm.EventCQError)
			assert.EqualValues(t, bad.num, prm.EQECQErrCQN.Get(e))
			assert.Equal(t, tt.syndrome, prm.EQECQErrSyn.Get(e))
			e = p.waitEvent(asyncEQ, prm.EventWQCatastrophic)
			assert.EqualValues(t, x.num, prm.EQEQPN.Get(e))
			assert.EqualValues(t, prm.QPError, p.qpState(x.num))
			p.requireCQ(bad, tt.status)

			// The driver makes room, which does not help.
			store(bad.rec.Bytes, 1<<tt.log)
			s, _ := p.exec(prm.CmdModifyCQ, p.in.IOVA, bad.num, prm.ModifyCQResize, 0)
			assert.Equal(t, prm.BadResState, s)
			next := p.newQP(0x242, prm.ServiceUD, bad)
			p.fill(func(b []byte) { copy(b[prm.QPContext.Off:], next.context) })
			s, _ = p.exec(prm.CmdRST2INIT, p.in.IOVA, next.num, 0, 0)
			assert.Equal(t, prm.BadResState, s, "no QP can use the queue")
			p.requireCQ(bad, tt.status)
			assert.Equal(t, tt.overruns, prm.DiagCQOverflows.Get(p.query(prm.CmdDiagReport, 0, 2)))

			nop(t, p.qp)
			p.requireCQ(p.cq, 0)
			p.imm(prm.Cmd2RST, 0, x.num, 2)
			p.imm(prm.CmdHW2SWCQ, 0, bad.num, 1)
			again := p.newCQ(bad.num, 4)
			y := p.newQP(0x243, prm.ServiceUD, again)
			y.start()
			nop(t, y)
			p.requireCQ(again, 0)
			for e := p.nextEvent(p.eqs[asyncEQ]); e != nil; e = p.nextEvent(p.eqs[asyncEQ]) {
				assert.NotEqualValues(t, prm.EventCQError, prm.EQEType.Get(e), "one error is one event")
			}
		})
	}
}

// nop posts a WQE and waits for its completion.
func nop(t *testing.T, q *queuePair) {
	t.Helper()
	q.post(prm.WQENop, 0)
	requireCQE(t, q.cq.wait(), q.num, true, prm.WQENop)
}

// requireCQ checks the status of a CQ.
func (d *driver) requireCQ(q *completionQueue, status uint64) {
	d.t.Helper()
	require.Equal(d.t, status, prm.CQCStatus.Get(d.query(prm.CmdQueryCQ, q.num, 0)), "status of CQ %d", q.num)
}

// qpState returns the state of a QP.
func (d *driver) qpState(num uint32) uint64 {
	d.t.Helper()
	return prm.QPCState.Get(d.query(prm.CmdQueryQP, num, 0)[prm.QPContext.Off:])
}

// TestCQErrorOfFrames lets the CQ of a QP of raw frames fail. The QP is in Error, and sends and receives nothing.
func TestCQErrorOfFrames(t *testing.T) {
	for _, tt := range cqFaults {
		t.Run(tt.name, func(t *testing.T) {
			hub := frame.NewHub()
			a, b := newEthPeer(t, hub, 1, false), newEthPeer(t, hub, 2, false)
			bad := a.newCQ(129, tt.log)
			qa := a.newFrameQPOn(0x300, bad)
			qb := b.newFrameQP(0x300)
			b.steer(7, b.mac, qb.num)
			f := append(append(append([]byte{}, b.mac[:]...), a.mac[:]...), 0x08, 0)
			qa.prepare(prm.WQESend, 0, 0, [][]byte{inlineSegment(string(f))})
			for range 1 << tt.log {
				if qa.sent < 1<<sendLog-2 {
					qa.prepare(prm.WQESend, 0, 0, [][]byte{inlineSegment(string(f))})
				}
			}
			tt.fault(t, bad)
			qa.ring()
			e := a.waitEvent(asyncEQ, prm.EventCQError)
			assert.EqualValues(t, bad.num, prm.EQECQErrCQN.Get(e))
			assert.Equal(t, tt.syndrome, prm.EQECQErrSyn.Get(e))
			e = a.waitEvent(asyncEQ, prm.EventWQCatastrophic)
			assert.EqualValues(t, qa.num, prm.EQEQPN.Get(e))
			assert.EqualValues(t, prm.QPError, a.qpState(qa.num))
			a.requireCQ(bad, tt.status)
			sent := a.framesSent()
			qa.ring()
			assert.Equal(t, sent, a.framesSent(), "a QP in Error sends nothing")
			s, _ := a.exec(prm.CmdRTS2RTS, a.in.IOVA, qa.num, 0, 0)
			assert.Equal(t, prm.BadQPState, s)
			a.imm(prm.Cmd2RST, 0, qa.num, 2)
			a.imm(prm.CmdHW2SWCQ, 0, bad.num, 1)
		})
	}
}

// framesSent returns the number of frames that the adapter has sent by its port 1.
func (p *ethPeer) framesSent() uint64 {
	p.t.Helper()
	b := p.query(prm.CmdDumpEthStats, 1, 0)
	return binary.BigEndian.Uint64(b[prm.EthSendFrames+prm.EthUntagged*prm.EthTriple:])
}
