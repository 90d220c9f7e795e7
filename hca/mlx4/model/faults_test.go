package model_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

func TestFaults(t *testing.T) {
	m := &countedDevice{Model: newModel(t, direct.NewLink(), model.Config{})}
	d := newDriver(t, m)
	d.start()

	m.FailCommand(prm.CmdQueryPort, prm.InternalErr, 2)
	for _, want := range []prm.Status{prm.InternalErr, prm.InternalErr, prm.OK} {
		s, _ := d.exec(prm.CmdQueryPort, 0, 1, 0, d.out.IOVA)
		require.Equal(t, want, s)
	}

	d.imm(prm.CmdInitPort, 0, 1, 0)
	d.waitEvent(asyncEQ, prm.EventPortChange)
	require.NoError(t, m.SetLink(1, false))
	e := d.waitEvent(asyncEQ, prm.EventPortChange)
	require.EqualValues(t, prm.PortChangeDown, prm.EQESubtype.Get(e))
	require.NoError(t, m.SetLink(1, true))
	e = d.waitEvent(asyncEQ, prm.EventPortChange)
	require.EqualValues(t, prm.PortChangeActive, prm.EQESubtype.Get(e))
	for range 2 { // one follows each change to active
		d.waitEvent(asyncEQ, prm.EventPortMgmtChange)
	}
	require.Error(t, m.SetLink(2, true), "there is no second port")

	// An event that finds the completion EQ full is reported by the other one.
	q := d.newCQ(128, 4)
	q.arm(prm.ArmAny)
	d.imm(prm.CmdMapEQ, 1<<prm.EventEQOverflow|1<<prm.EventLocalCatas, asyncEQ, 0) // which Linux does not
	m.OverflowEQ(compEQ, 1)
	x := d.newQP(0x240, prm.ServiceUD, q)
	x.start()
	x.post(prm.WQENop, 0)
	requireCQE(t, q.wait(), x.num, true, prm.WQENop)
	d.waitEvent(asyncEQ, prm.EventEQOverflow)

	require.Zero(t, d.read(prm.RegCatastrophic))
	m.FailDevice()
	d.waitEvent(asyncEQ, prm.EventLocalCatas)
	require.NotZero(t, d.read(prm.RegCatastrophic))
	x.post(prm.WQENop, 0)
	d.write(prm.RegHCR+24, 1<<23|uint32(prm.CmdQueryFW))
	require.NotZero(t, d.read(prm.RegHCR+24)&(1<<23), "no command completes")
	require.Nil(t, q.poll(), "no doorbell is executed")

	d.events = false
	d.armEQ(d.eqs[asyncEQ])
	before := m.raised.Load()
	m.LoseInterrupts(0, 1)
	m.FailDevice()
	require.Equal(t, before, m.raised.Load(), "the interrupt is lost")
	d.armEQ(d.eqs[asyncEQ])
	require.Greater(t, m.raised.Load(), before, "the next one is not")
	d.write(prm.RegOwnership, 0)
	d.reset()
	require.Zero(t, d.read(prm.RegCatastrophic))

	m.HangCommand(prm.CmdQueryFW)
	d.write(prm.RegHCR+24, 1<<23|uint32(prm.CmdQueryFW))
	require.NotZero(t, d.read(prm.RegHCR+24)&(1<<23), "the command is pending")
	d.write(prm.RegHCR+24, 0)
	require.NotZero(t, d.read(prm.RegHCR+24)&(1<<23), "writes do not disturb it")
	d.write(prm.RegOwnership, 0)
	d.start()
}

// A countedDevice is a model whose interrupts are counted before they are delivered.
type countedDevice struct {
	*model.Model
	raised atomic.Int32
}

// Attach sets the host, which counts.
func (d *countedDevice) Attach(h bus.Host) { d.Model.Attach(countingHost{h, d}) }

type countingHost struct {
	bus.Host
	d *countedDevice
}

// Interrupt counts an interrupt, and delivers it.
func (h countingHost) Interrupt(vector int) {
	h.d.raised.Add(1)
	h.Host.Interrupt(vector)
}

func TestQuirks(t *testing.T) {
	l := direct.NewLink()
	for _, quirk := range []bool{false, true} {
		m := newModel(t, l, model.Config{Quirks: model.Quirks{FailEmptyReads: quirk, ClaimWindows2B: quirk}})
		a := newPeer(t, m, prm.ServiceRC)
		c := a.query(prm.CmdQueryDevCap, 0, 0)
		require.Equal(t, quirk, prm.CapBMMEFlags.Get(c)>>prm.BMMEWindow2B&1 != 0)
		lid := prm.EQEMgmtLID.Get(a.waitEvent(asyncEQ, prm.EventPortMgmtChange))
		b := a.newQP(0x241, prm.ServiceRC, a.cq)
		a.qp.connect(uint16(lid), b.num)
		b.connect(uint16(lid), a.qp.num)
		a.qp.post(prm.WQERead, 0, remoteSegment(a.mr.key, a.mr.start))
		e := a.cq.wait()
		if quirk {
			require.EqualValues(t, prm.SynLocalQPOp, prm.CQESyndrome.Get(e))
		} else {
			requireCQE(t, e, a.qp.num, true, prm.WQERead)
		}
	}
}

// Receive WQEs that are posted in Error complete as flushed, without a doorbell.
func TestReceivesInError(t *testing.T) {
	a, _ := newPair(t, prm.ServiceRC)
	a.qp.modify(prm.Cmd2ERR, 0)
	for range 3 {
		a.qp.postRecv(dataSegment(8, a.mr.key, a.mr.start))
		require.EqualValues(t, prm.SynFlushed, prm.CQESyndrome.Get(a.cq.wait()))
	}
}
