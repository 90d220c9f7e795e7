package model_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// flameAt is the offset in the BAR of a page's BlueFlame registers: they are behind all pages of doorbells.
const (
	flameAt   = 4<<20 + 128*prm.UARPageSize
	flameHalf = 256 // the registers have two buffers
)

// flame returns the pieces of a BlueFlame write of a WQE for a QP.
func flame(wqe []byte, qpn uint32) (pieces []uint64) {
	b := slices.Clone(wqe)
	prm.CtrlBFQPN.Put(b, uint64(qpn))
	for ; len(b) > 0; b = b[8:] {
		pieces = append(pieces, binary.LittleEndian.Uint64(b))
	}
	return pieces
}

// requireInline waits for the message that an inline WQE has sent.
func requireInline(t *testing.T, a, b *peer, text string) {
	t.Helper()
	e := b.cq.wait()
	requireCQE(t, e, b.qp.num, false, prm.CQERecvSend)
	require.EqualValues(t, len(text), prm.CQEByteCount.Get(e))
	require.Equal(t, text, string(b.mr.Bytes[:len(text)]))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
}

// TestBlueFlame writes WQEs to the BlueFlame registers instead of a doorbell: in both buffers, complete, in part, with
// pieces in wrong order, and for other QPs.
func TestBlueFlame(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	write := func(half int, pieces []uint64) {
		for i, v := range pieces {
			a.uar.Write64(uint64(flameAt+half*flameHalf+8*i), v)
		}
	}
	prepare := func(text string) []byte {
		b.qp.postRecv(dataSegment(64, b.mr.key, b.mr.start))
		return a.qp.prepare(prm.WQESend, 0, 0, [][]byte{inlineSegment(text)})
	}
	for i, text := range []string{"a", "second buffer", "first buffer again, and longer"} {
		write(i%2, flame(prepare(text), a.qp.num))
		requireInline(t, a, b, text)
	}

	p := flame(prepare("in part"), a.qp.num)
	write(0, p[:len(p)-1])
	a.uar.Write64(flameAt+8*uint64(len(p)), 0)            // behind the missing piece
	a.uar.Write32(flameAt+8*uint64(len(p)-1), 0xffffffff) // of a wrong size
	assert.Nil(t, b.cq.poll(), "the WQE is not complete")
	write(1, flame(make([]byte, prm.CtrlSegment), 0xffffff)) // no such QP
	assert.Nil(t, b.cq.poll())
	write(0, p)
	requireInline(t, a, b, "in part")

	// Another WQE begins before the last one is complete: only the order of the pieces counts.
	p = flame(prepare("interrupted"), a.qp.num)
	write(0, p[:1])
	write(1, p)
	requireInline(t, a, b, "interrupted")
}

// TestBlueFlameOfFailedDevice writes a WQE to the BlueFlame registers after a catastrophic error, and rings a doorbell:
// the adapter executes neither.
func TestBlueFlameOfFailedDevice(t *testing.T) {
	m := newModel(t, direct.NewLink(), model.Config{})
	p := newPeer(t, m, prm.ServiceUD)
	p.qp.start()
	nop := p.qp.prepare(prm.WQENop, 0, 0, nil)
	m.FailDevice()
	for i, v := range flame(nop, p.qp.num) {
		p.uar.Write64(uint64(flameAt+8*i), v)
	}
	p.qp.ring()
	assert.Nil(t, p.cq.poll(), "a nop would be complete by now")
}

// TestNoBlueFlame checks the capability.
func TestNoBlueFlame(t *testing.T) {
	for _, none := range []bool{false, true} {
		d := newDriver(t, newModel(t, direct.NewLink(), model.Config{NoBlueFlame: none}))
		d.start()
		assert.Equal(t, !none, prm.CapBlueFlame.Has(d.query(prm.CmdQueryDevCap, 0, 0)))
	}
}

// TestForeignPage rings doorbells in a page that is not the one of the queues: nothing is sent, and no queue is armed.
func TestForeignPage(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	b.qp.postRecv(dataSegment(64, b.mr.key, b.mr.start))
	wqe := a.qp.prepare(prm.WQESend, 0, 0, [][]byte{inlineSegment("own page")})
	const foreign = 129 * prm.UARPageSize
	var send, arm [8]byte
	binary.BigEndian.PutUint32(send[:], a.qp.num<<8)
	a.uar.Write32(foreign+prm.UARSendDoorbell, binary.LittleEndian.Uint32(send[:]))
	for i, v := range flame(wqe, a.qp.num) {
		a.uar.Write64(uint64(flameAt+prm.UARPageSize+8*i), v)
	}
	prm.CQDoorbellCommand.Put(arm[:], prm.ArmAny)
	prm.CQDoorbellCQN.Put(arm[:], uint64(a.cq.num))
	a.uar.Write64(foreign+prm.UARCQDoorbell, binary.LittleEndian.Uint64(arm[:]))
	out := a.query(prm.CmdQueryCQ, a.cq.num, 0)
	require.EqualValues(t, prm.CQFired, prm.CQCState.Get(out), "not armed")
	require.Nil(t, b.cq.poll())
	a.qp.ring()
	requireInline(t, a, b, "own page")
}
