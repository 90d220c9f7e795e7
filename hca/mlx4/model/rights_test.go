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

// TestResponderRights lets operations fail that the QP of the responder does not allow, though the region does.
func TestResponderRights(t *testing.T) {
	for _, tt := range []struct {
		right  *prm.Field
		opcode uint64
	}{
		{&prm.QPCRemoteRead, prm.WQERead}, {&prm.QPCRemoteWrite, prm.WQEWrite}, {&prm.QPCRemoteAtomic, prm.WQEFetchAdd},
	} {
		a, b := newPeers(t, prm.ServiceRC)
		tt.right.Put(b.qp.context, 0)
		a.qp.connect(2, b.qp.num)
		b.qp.connect(1, a.qp.num)
		segments := [][]byte{remoteSegment(b.mr.key, b.mr.start)}
		if tt.opcode == prm.WQEFetchAdd {
			segments = append(segments, atomicSegment(1, 0))
		}
		a.qp.post(tt.opcode, 0, append(segments, dataSegment(8, a.mr.key, a.mr.start))...)
		e := a.cq.wait()
		assert.EqualValues(t, prm.CQEOpcodeError, prm.CQEOpcode.Get(e), tt.right.Name)
		assert.Contains(t, []uint64{uint64(prm.SynRemoteInvalid), uint64(prm.SynRemoteAccess)},
			prm.CQESyndrome.Get(e), tt.right.Name)
	}
}

// TestOptionalParameters changes a QP in RTS: what the mask does not have stays as it was.
func TestOptionalParameters(t *testing.T) {
	p := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), prm.ServiceUD)
	p.qp.start()
	key := func() uint64 {
		return prm.QPCQKey.Get(p.query(prm.CmdQueryQP, p.qp.num, 0)[prm.QPContext.Off:])
	}
	require.EqualValues(t, 0x1234, key())
	prm.QPCQKey.Put(p.qp.context, 0x5678)
	p.qp.modify(prm.CmdRTS2RTS, prm.OptPKeyIndex|prm.OptRNRTimeout)
	require.EqualValues(t, 0x1234, key())
	p.qp.modify(prm.CmdRTS2RTS, prm.OptQKey)
	require.EqualValues(t, 0x5678, key())
}

// newMRWith registers memory of any size with fields that set replaces.
func (d *driver) newMRWith(size int, set ...any) *memoryRegion {
	d.t.Helper()
	m := d.newMR((size + 4095) &^ 4095)
	at := prm.MPTMTTLow.Get(d.query(prm.CmdQueryMPT, m.index, 0))
	d.imm(prm.CmdHW2SWMPT, 0, m.index, 1)
	d.with(prm.CmdSW2HWMPT, m.index, 0, func(b []byte) {
		prm.MPTOwner.Put(b, prm.MPTOwnerSW)
		for _, f := range []prm.Field{prm.MPTMemory, prm.MPTRegion, prm.MPTLocalRead, prm.MPTLocalWrite} {
			f.Put(b, 1)
		}
		prm.MPTIndex.Put(b, uint64(m.index|0xa5<<24))
		prm.MPTPD.Put(b, testPD)
		prm.MPTStart.Put(b, m.start)
		prm.MPTLength.Put(b, uint64(size))
		prm.MPTMTTLow.Put(b, at)
		prm.MPTLogPage.Put(b, 12)
		for i := 0; i < len(set); i += 2 {
			f := set[i].(prm.Field)
			f.Put(b, uint64(set[i+1].(int)))
		}
	})
	return m
}

// TestRightsOfFrames sends and receives frames with memory that a QP of raw frames may not use: of another protection
// domain, beyond either end of the region, and without the right to write.
func TestRightsOfFrames(t *testing.T) {
	const size, length = 1000, 100 // not whole pages: the page of the region goes on
	for _, tt := range []struct {
		name     string
		at       uint64 // offset of the segment
		set      []any
		canSend  bool
		canWrite bool
	}{
		{"the region", 0, nil, true, true},
		{"its end", size - length, nil, true, true},
		{"beyond its end", size - length + 1, nil, false, false},
		{"behind it", size + 1, nil, false, false},
		{"before it", ^uint64(0), nil, false, false},
		{"another domain", 0, []any{prm.MPTPD, testPD + 1}, false, false},
		{"read only", 0, []any{prm.MPTLocalWrite, 0}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hub := frame.NewHub()
			a, b := newEthPeer(t, hub, 1, false), newEthPeer(t, hub, 2, false)
			qa, qb := a.newFrameQP(0x300), b.newFrameQP(0x300)
			b.steer(7, b.mac, qb.num)
			mine, theirs := a.newMRWith(size, tt.set...), b.newMRWith(size, tt.set...)
			f := make([]byte, length)
			copy(f, b.mac[:])
			copy(f[6:], a.mac[:])
			if tt.canSend {
				copy(mine.Bytes[tt.at:], f)
			}
			qb.postRecv(dataSegment(length, theirs.key, theirs.start+tt.at))
			qa.post(prm.WQESend, 0, dataSegment(length, mine.key, mine.start+tt.at))
			e := a.cq.wait()
			if !tt.canSend {
				require.EqualValues(t, prm.SynLocalProtection, prm.CQESyndrome.Get(e))
				copy(a.mr.Bytes, f)
				qa.post(prm.WQESend, 0, dataSegment(length, a.mr.key, a.mr.start))
				e = a.cq.wait()
			}
			requireCQE(t, e, qa.num, true, prm.WQESend)
			e = b.cq.wait()
			if !tt.canWrite {
				require.EqualValues(t, prm.SynLocalProtection, prm.CQESyndrome.Get(e))
				require.Equal(t, make([]byte, len(theirs.Bytes)), theirs.Bytes, "nothing is written")
				return
			}
			requireCQE(t, e, qb.num, false, prm.CQERecvSend)
			require.Equal(t, f, theirs.Bytes[tt.at:tt.at+length])
		})
	}
}

// TestFramesBeforeRTR sends frames to a QP in Init, which takes none of them.
func TestFramesBeforeRTR(t *testing.T) {
	hub := frame.NewHub()
	a, b := newEthPeer(t, hub, 1, false), newEthPeer(t, hub, 2, false)
	qa := a.newFrameQP(0x300)
	qb := b.newQP(0x300, prm.ServiceMLX, b.cq)
	prm.PathLinkType.Put(prm.QPCPrimary.Bytes(qb.context, prm.PathSize), prm.PathLinkEthernet)
	qb.modify(prm.CmdRST2INIT, 0)
	b.steer(7, b.mac, qb.num)
	for range 2 {
		qb.postRecv(dataSegment(200, b.mr.key, b.mr.start))
	}
	other := b.newFrameQP(0x301)
	b.steer(8, ethMAC(9), other.num)
	other.postRecv(dataSegment(200, b.mr.key, b.mr.start+200))
	send := func(to [6]byte, kind byte) {
		f := string(to[:]) + string(a.mac[:]) + string([]byte{0x88, kind, 0})
		qa.post(prm.WQESend, 0, inlineSegment(f))
		requireCQE(t, a.cq.wait(), qa.num, true, prm.WQESend)
	}
	send(b.mac, 1)
	send(ethMAC(9), 3) // follows the first one
	requireCQE(t, b.cq.wait(), other.num, false, prm.CQERecvSend)
	qb.modify(prm.CmdINIT2RTR, 0)
	send(b.mac, 2)
	requireCQE(t, b.cq.wait(), qb.num, false, prm.CQERecvSend)
	require.EqualValues(t, 2, b.mr.Bytes[13])
	require.Nil(t, b.cq.poll())
}
