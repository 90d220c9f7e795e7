package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// newEQWith makes an EQ of 2^log entries that the test does not arm.
func (d *driver) newEQWith(num uint32, log int, set ...any) *eventQueue {
	d.t.Helper()
	q := &eventQueue{num: num, mem: d.alloc(4096)}
	at := d.mtts(q.mem)
	d.with(prm.CmdSW2HWEQ, num, 0, func(b []byte) {
		prm.EQCLogSize.Put(b, uint64(log))
		prm.EQCVector.Put(b, 2)
		prm.EQCMTTLow.Put(b, at)
		for i := 0; i < len(set); i += 2 {
			f := set[i].(prm.Field)
			f.Put(b, uint64(set[i+1].(int)))
		}
	})
	return q
}

// complete makes n completions of the QP, each with an event.
func (p *peer) complete(n int) {
	p.t.Helper()
	for range n {
		p.cq.arm(prm.ArmAny)
		p.qp.post(prm.WQENop, 0)
		requireCQE(p.t, p.cq.wait(), p.qp.num, true, prm.WQENop)
		p.requireFired()
	}
}

// requireFired waits until the CQ has raised its event.
func (p *peer) requireFired() {
	p.t.Helper()
	for prm.CQCState.Get(p.query(prm.CmdQueryCQ, p.cq.num, 0)) != prm.CQFired {
	}
}

// eqPeer returns an adapter whose QP completes on a CQ of an EQ that set describes.
func eqPeer(t *testing.T, log int, set ...any) (*peer, *countedDevice, *eventQueue) {
	m := &countedDevice{Model: newModel(t, direct.NewLink(), model.Config{})}
	d := newDriver(t, m)
	d.start()
	const num = 12
	q := d.newEQWith(num, log, set...)
	p := &peer{driver: d}
	p.cq = d.newCQOn(num)
	p.qp = d.newQP(0x240, prm.ServiceUD, p.cq)
	p.qp.start()
	return p, m, q
}

// newCQOn makes a CQ with an EQ.
func (d *driver) newCQOn(eqn uint32) *completionQueue {
	q := d.newCQ(129, 6)
	d.imm(prm.CmdHW2SWCQ, 0, q.num, 1)
	d.with(prm.CmdSW2HWCQ, q.num, 0, func(b []byte) {
		prm.CQCLogSize.Put(b, uint64(q.log))
		prm.CQCEQN.Put(b, uint64(eqn))
		prm.CQCUAR.Put(b, 128)
		prm.CQCMTTLow.Put(b, q.mtt)
		prm.CQCDoorbell.Put(b, q.rec.IOVA)
	})
	return q
}

// eqValue returns a field of the context of an EQ.
func (p *peer) eqValue(q *eventQueue, f *prm.Field) uint64 {
	p.t.Helper()
	return f.Get(p.query(prm.CmdQueryEQ, q.num, 0))
}

// TestEQStates checks interrupts and state of an EQ that has to be armed, and of one that always is.
func TestEQStates(t *testing.T) {
	p, _, q := eqPeer(t, 4, prm.EQCState, int(prm.EQFired))
	p.complete(2)
	require.EqualValues(t, prm.EQFired, p.eqValue(q, &prm.EQCState))
	require.EqualValues(t, 2, p.eqValue(q, &prm.EQCProducer))
	q.consumer = 2
	p.armEQ(q)
	require.EqualValues(t, prm.EQArmed, p.eqValue(q, &prm.EQCState))
	p.complete(1)
	require.EqualValues(t, prm.EQFired, p.eqValue(q, &prm.EQCState), "one interrupt for an arming")

	p, _, q = eqPeer(t, 4, prm.EQCState, int(prm.EQAlwaysArmed))
	p.complete(2)
	require.EqualValues(t, prm.EQAlwaysArmed, p.eqValue(q, &prm.EQCState))
	q.consumer = 2
	p.armEQ(q)
	require.EqualValues(t, prm.EQAlwaysArmed, p.eqValue(q, &prm.EQCState), "arming changes nothing")
}

// TestEQOverrun fills an EQ whose driver takes nothing. It loses the events beyond its size, unless it ignores
// overruns.
func TestEQOverrun(t *testing.T) {
	for ignore, want := range []uint64{2, 5} {
		p, _, q := eqPeer(t, 1, prm.EQCIgnoreFull, ignore)
		p.complete(5)
		require.Equal(t, want, p.eqValue(q, &prm.EQCProducer), "ignore %d", ignore)
		status := p.eqValue(q, &prm.EQCStatus)
		require.Equal(t, ignore == 0, status == prm.EQStatusFailed, "ignore %d", ignore)
	}
}

// TestUnmapOfOtherEQ unmaps the types of events of one EQ by the number of another. They stay where they were.
func TestUnmapOfOtherEQ(t *testing.T) {
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.start()
	d.imm(prm.CmdMapEQ, 0x3d1f46fe, compEQ|prm.EQUnmap, 0)
	d.imm(prm.CmdNOP, 0, 0x1f, 0) // completes by an event
}
