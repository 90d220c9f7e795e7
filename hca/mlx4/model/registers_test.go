package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// TestRegisterValues writes values that mean nothing to registers: nothing is released, and nothing is reset.
func TestRegisterValues(t *testing.T) {
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.start()
	require.Zero(t, d.read(prm.RegOwnership), "a reset has released it")
	d.write(prm.RegOwnership, prm.OwnershipFree+1)
	require.NotZero(t, d.read(prm.RegOwnership), "the ownership is taken")
	require.Zero(t, d.read(prm.RegSemaphore))
	d.write(prm.RegSemaphore, prm.SemaphoreFree+1)
	require.NotZero(t, d.read(prm.RegSemaphore), "the semaphore is taken")
	for _, v := range []uint32{0, 2, prm.ResetValue << 8, ^uint32(0)} {
		d.write(prm.RegReset, v)
		d.imm(prm.CmdNOP, 0, 0x1f, 0)
	}
}

// TestDoorbellWidths writes the send doorbell of a QP with other widths than 32 bits, which the adapter ignores.
func TestDoorbellWidths(t *testing.T) {
	const uar = 128 * prm.UARPageSize // the page of the QP's context
	m := newModel(t, direct.NewLink(), model.Config{})
	p := newPeer(t, m, prm.ServiceUD)
	p.qp.start()
	p.qp.prepare(prm.WQENop, 0, 0, nil)
	for _, size := range []int{1, 2, 8} {
		m.WriteBAR(prm.BARDoorbells, uar+prm.UARSendDoorbell, size, 0x400200) // QP 0x240, in little endian
		require.Nil(t, p.cq.poll(), "%d bytes", size)
	}
	m.WriteBAR(prm.BARDoorbells, uar+prm.UARSendDoorbell, 4, 0x400200)
	requireCQE(t, p.cq.wait(), p.qp.num, true, prm.WQENop)
}
