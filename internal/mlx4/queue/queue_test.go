package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// encode returns the WQE of a request, with the first word as SendRing.Commit writes it.
func encode(t *testing.T, wr *ci.SendWR, x *Extra) []byte {
	t.Helper()
	r, err := NewSendRing(make([]byte, 4<<9), 2, 9, 4)
	require.NoError(t, err)
	slot := r.Next()
	opcode, units := EncodeSend(slot, wr, x)
	r.Commit(wr, opcode, units)
	require.EqualValues(t, units, prm.CtrlSize.Get(slot))
	require.Zero(t, prm.CtrlOwner.Get(slot), "the first round")
	require.EqualValues(t, opcode&^bigLSO, prm.CtrlOpcode.Get(slot))
	return slot[:units*prm.CtrlSegment]
}

func sges(n int) (list []ci.SGE) {
	for i := range n {
		list = append(list, ci.SGE{Addr: 0x1122334455660000 + uint64(i), Length: uint32(100 * i), LKey: ci.Key(7 + i)})
	}
	return list
}

// requireData checks the data segments of sges.
func requireData(t *testing.T, b []byte, n int) {
	t.Helper()
	require.Len(t, b, n*prm.DataSegment)
	for i, s := range sges(n) {
		d := b[i*prm.DataSegment:]
		want := uint64(s.Length)
		if want == 0 {
			want = uint64(prm.ZeroLengthCount)
		}
		assert.Equal(t, want, prm.DataCount.Get(d))
		assert.EqualValues(t, s.LKey, prm.DataKey.Get(d))
		assert.Equal(t, s.Addr, prm.DataAddress.Get(d))
	}
}

// TestSend checks the sends of connections against the layouts.
func TestSend(t *testing.T) {
	b := encode(t, &ci.SendWR{Op: ci.OpSend, SGL: sges(3), Flags: ci.SendSignaled | ci.SendSolicited | ci.SendFence},
		&Extra{})
	assert.EqualValues(t, prm.WQESend, prm.CtrlOpcode.Get(b))
	assert.EqualValues(t, prm.CompletionAlways, prm.CtrlCompletion.Get(b))
	assert.True(t, prm.CtrlSolicited.Has(b) && prm.CtrlFence.Has(b))
	requireData(t, b[prm.CtrlSegment:], 3)

	b = encode(t, &ci.SendWR{Op: ci.OpSend, Flags: ci.SendImmediate, Imm: 0x01020304}, &Extra{})
	assert.EqualValues(t, prm.WQESendImm, prm.CtrlOpcode.Get(b))
	assert.EqualValues(t, 0x01020304, prm.CtrlImmediate.Get(b))
	assert.False(t, prm.CtrlCompletion.Has(b) || prm.CtrlSolicited.Has(b) || prm.CtrlFence.Has(b))
	assert.Len(t, b, prm.CtrlSegment)

	b = encode(t, &ci.SendWR{Op: ci.OpSend, Flags: ci.SendInvalidate, Inv: 0x99}, &Extra{Signal: true})
	assert.EqualValues(t, prm.WQESendInv, prm.CtrlOpcode.Get(b))
	assert.EqualValues(t, 0x99, prm.CtrlImmediate.Get(b))
	assert.EqualValues(t, prm.CompletionAlways, prm.CtrlCompletion.Get(b), "all requests of the queue are signaled")
}

// TestRemote checks RDMA and atomics.
func TestRemote(t *testing.T) {
	to := ci.Remote{Addr: 0xa1a2a3a4a5a6a7a8, RKey: 0x123456}
	for _, x := range []struct {
		wr     ci.SendWR
		opcode uint64
	}{
		{ci.SendWR{Op: ci.OpWrite, SGL: sges(2)}, prm.WQEWrite},
		{ci.SendWR{Op: ci.OpWrite, SGL: sges(2), Flags: ci.SendImmediate, Imm: 5}, prm.WQEWriteImm},
		{ci.SendWR{Op: ci.OpRead, SGL: sges(2)}, prm.WQERead},
	} {
		x.wr.Remote = to
		b := encode(t, &x.wr, &Extra{})
		assert.Equal(t, x.opcode, prm.CtrlOpcode.Get(b))
		r := b[prm.CtrlSegment:]
		assert.Equal(t, to.Addr, prm.RemoteAddress.Get(r))
		assert.EqualValues(t, to.RKey, prm.RemoteKey.Get(r))
		requireData(t, r[prm.RemoteSegment:], 2)
	}
	at := ci.Atomic{Compare: 11, Swap: 22}
	b := encode(t, &ci.SendWR{Op: ci.OpCompareSwap, Remote: to, Atomic: at, SGL: sges(1)}, &Extra{})
	s := b[prm.CtrlSegment+prm.RemoteSegment:]
	assert.EqualValues(t, prm.WQECompareSwap, prm.CtrlOpcode.Get(b))
	assert.Equal(t, []uint64{22, 11}, []uint64{prm.AtomicSwap.Get(s), prm.AtomicCompare.Get(s)})
	b = encode(t, &ci.SendWR{Op: ci.OpFetchAdd, Remote: to, Atomic: at, SGL: sges(1)}, &Extra{})
	s = b[prm.CtrlSegment+prm.RemoteSegment:]
	assert.EqualValues(t, prm.WQEFetchAdd, prm.CtrlOpcode.Get(b))
	assert.Equal(t, []uint64{11, 0}, []uint64{prm.AtomicSwap.Get(s), prm.AtomicCompare.Get(s)})
	requireData(t, s[prm.AtomicSegment:], 1)
}

// TestDatagram checks the datagram segment.
func TestDatagram(t *testing.T) {
	av := ci.AVAttr{Port: 2, SL: 5, PathBits: 3, StaticRate: 2, DLID: 0x1234, Global: true, GRH: ci.GRH{
		DGID: ci.GID{1, 2, 15: 16}, SGIDIndex: 4, FlowLabel: 0x54321, HopLimit: 9, TrafficClass: 0x77}}
	a := NewAddress(&av, 0x4242, false, [6]byte{})
	wr := ci.SendWR{Op: ci.OpSend, SGL: sges(1), To: ci.Dest{QPN: 0x123456, QKey: 0x80010000}}
	d := encode(t, &wr, &Extra{Address: &a})[prm.CtrlSegment:]
	for name, x := range map[string]struct {
		f    prm.Field
		want uint64
	}{
		"port": {prm.AVPort, 2}, "PD": {prm.AVPD, 0x4242}, "GRH": {prm.AVGRH, 1}, "path bits": {prm.AVPathBits, 3},
		"LID": {prm.AVRemoteLID, 0x1234}, "GID index": {prm.AVGIDIndex, 4}, "rate": {prm.AVRate, 7},
		"hop limit": {prm.AVHopLimit, 9}, "SL": {prm.AVSL, 5}, "class": {prm.AVClass, 0x77},
		"flow label": {prm.AVFlowLabel, 0x54321}, "QPN": {prm.DatagramQPN,
			0x123456}, "Q_Key": {prm.DatagramQKey, 0x80010000},
	} {
		assert.Equal(t, x.want, x.f.Get(d), name)
	}
	assert.Equal(t, av.GRH.DGID[:], prm.AVGID.Bytes(d, prm.GIDSize))
	requireData(t, d[prm.DatagramSegment:], 1)

	mac := [6]byte{2, 4, 6, 8, 10, 12}
	a = NewAddress(&av, 1, true, mac)
	d = encode(t, &wr, &Extra{Address: &a})[prm.CtrlSegment:]
	assert.EqualValues(t, 0x020406080a0c, prm.DatagramMAC.Get(d))
	assert.Equal(t, mac, a.MAC())
	assert.EqualValues(t, 10, prm.AVSL.Get(d), "the priority is in the upper bits")
	assert.Zero(t, prm.AVRemoteLID.Get(d))
}

// TestLargeSend checks the LSO segment, and the bits for checksums.
func TestLargeSend(t *testing.T) {
	a := NewAddress(&ci.AVAttr{Port: 1, DLID: 3}, 1, false, [6]byte{})
	for _, n := range []int{1, 12, 13, 60, 61, 124} {
		header := make([]byte, n)
		for i := range header {
			header[i] = byte(i + 1)
		}
		wr := &ci.SendWR{Op: ci.OpLSO, SGL: sges(2), Flags: ci.SendSignaled, To: ci.Dest{QPN: 9},
			Ext: &ci.SendExt{LSO: ci.LSO{Header: header, MSS: 0xabcd}}}
		require.True(t, IsLSO(wr))
		b := encode(t, wr, &Extra{Address: &a})
		assert.EqualValues(t, prm.WQELSO, prm.CtrlOpcode.Get(b))
		assert.Equal(t, n > 60, prm.CtrlBigLSO.Has(b), "%d bytes", n)
		assert.False(t, prm.CtrlIPChecksum.Has(b) || prm.CtrlL4Checksum.Has(b))
		assert.EqualValues(t, 9, prm.DatagramQPN.Get(b[prm.CtrlSegment:]))
		s := b[prm.CtrlSegment+prm.DatagramSegment:]
		assert.EqualValues(t, 0xabcd, prm.LSOSegmentSize.Get(s))
		assert.EqualValues(t, n, prm.LSOHeaderSize.Get(s))
		assert.Equal(t, header, s[4:4+n])
		at := (4 + n + 15) &^ 15
		assert.LessOrEqual(t, at, MaxLSO)
		assert.Equal(t, make([]byte, at-4-n), s[4+n:at])
		requireData(t, s[at:], 2)
	}
	for _, l := range []ci.LSO{{}, {Header: make([]byte, 125), MSS: 1}, {Header: make([]byte, 1)},
		{Header: make([]byte, 1), MSS: 1 << 16}, {Header: make([]byte, 1), MSS: -1}} {
		assert.False(t, IsLSO(&ci.SendWR{Ext: &ci.SendExt{LSO: l}}))
	}
	assert.False(t, IsLSO(&ci.SendWR{}))
	for _, flags := range []ci.SendFlags{ci.SendIPChecksum, ci.SendL4Checksum} {
		b := encode(t, &ci.SendWR{Op: ci.OpSend, Flags: flags}, &Extra{Address: &a})
		assert.Equal(t, flags == ci.SendIPChecksum, prm.CtrlIPChecksum.Has(b))
		assert.Equal(t, flags == ci.SendL4Checksum, prm.CtrlL4Checksum.Has(b))
	}
}

// TestMemoryOperations checks fast registration, bind and invalidation.
func TestMemoryOperations(t *testing.T) {
	f := ci.FastReg{PageShift: 12, Offset: 8, Length: 5000, IOVA: 0x7000_0000_0008, Key: 0x4455,
		Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteAtomic}
	b := encode(t, &ci.SendWR{Op: ci.OpFastReg, Ext: &ci.SendExt{FastReg: f}}, &Extra{List: 0x9000})
	s := b[prm.CtrlSegment:]
	assert.EqualValues(t, prm.WQEFastRegister, prm.CtrlOpcode.Get(b))
	assert.True(t, prm.CtrlStrong.Has(b))
	assert.True(t, prm.FastRegAtomic.Has(s) && prm.FastRegRemoteWrite.Has(s) && prm.FastRegLocalWrite.Has(s) &&
		prm.FastRegLocalRead.Has(s) && !prm.FastRegRemoteRead.Has(s))
	assert.Equal(t, []uint64{0x4455, 0x9000, f.IOVA, 5000, 8, 12}, []uint64{prm.FastRegKey.Get(s),
		prm.FastRegList.Get(s),
		prm.FastRegStart.Get(s), prm.FastRegLength.Get(s), prm.FastRegOffset.Get(s), prm.FastRegLogPage.Get(s)})

	w := ci.MWBind{Addr: 0x5000, Length: 77, Access: ci.RemoteRead}
	b = encode(t, &ci.SendWR{Op: ci.OpBindMW, Ext: &ci.SendExt{Bind: w}}, &Extra{Window: 3, Region: 4, Type2: true})
	s = b[prm.CtrlSegment:]
	assert.EqualValues(t, prm.WQEBind, prm.CtrlOpcode.Get(b))
	assert.True(t, prm.BindRemoteRead.Has(s) && prm.BindType2.Has(s) && !prm.BindRemoteWrite.Has(s))
	assert.Equal(t, []uint64{3, 4, 0x5000, 77}, []uint64{prm.BindNewKey.Get(s), prm.BindLKey.Get(s),
		prm.BindAddress.Get(s), prm.BindLength.Get(s)})

	b = encode(t, &ci.SendWR{Op: ci.OpLocalInv, Inv: 0x1200}, &Extra{})
	assert.EqualValues(t, prm.WQELocalInv, prm.CtrlOpcode.Get(b))
	assert.EqualValues(t, 0x1200, prm.LocalInvKey.Get(b[prm.CtrlSegment:]))
	b = encode(t, &ci.SendWR{Op: ci.OpNop}, &Extra{})
	assert.EqualValues(t, prm.WQENop, prm.CtrlOpcode.Get(b))
	assert.Len(t, b, prm.CtrlSegment)
}

// TestInline checks inline data of each length: no segment crosses a block, and the data are complete.
func TestInline(t *testing.T) {
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(i)
	}
	for n := range data {
		b := encode(t, &ci.SendWR{Op: ci.OpSend, Inline: data[:n]}, &Extra{})
		assert.Len(t, b, prm.CtrlSegment+InlineSize(prm.CtrlSegment, n))
		got := []byte{}
		for at := prm.CtrlSegment; at < len(b); {
			s := b[at:]
			k := int(prm.InlineCount.Get(s))
			require.True(t, prm.InlineFlag.Has(s) && k > 0)
			end := at + prm.InlineHeader + k
			require.Equal(t, at/prm.InlineBoundary, (end-1)/prm.InlineBoundary, "%d bytes: within a block", n)
			got = append(got, s[prm.InlineHeader:prm.InlineHeader+k]...)
			at = (end + prm.DataSegment - 1) &^ (prm.DataSegment - 1)
		}
		require.Equal(t, data[:n], got)
	}
}

// TestSendRing checks owner bits over several rounds, and which indexes complete.
func TestSendRing(t *testing.T) {
	const log, shift, depth = 2, 6, 3
	buf := make([]byte, 1<<(log+shift))
	r, err := NewSendRing(buf, log, shift, depth)
	require.NoError(t, err)
	for i := range 1 << log {
		require.True(t, prm.CtrlOwner.Has(buf[i<<shift:]), "slots are the driver's")
	}
	for n := range uint32(20) {
		require.Equal(t, depth, r.Room())
		slot := r.Next()
		require.NotEqualValues(t, n>>log&1, prm.CtrlOwner.Get(slot), "not the adapter's yet")
		require.Equal(t, n, r.Commit(&ci.SendWR{ID: uint64(n) + 100}, prm.WQENop, 1))
		require.EqualValues(t, n>>log&1, prm.CtrlOwner.Get(slot))
		_, ok := r.Complete(uint16(n + 1))
		require.False(t, ok, "not posted")
		id, ok := r.Complete(uint16(n))
		require.True(t, ok)
		require.EqualValues(t, n+100, id)
		_, ok = r.Complete(uint16(n))
		require.False(t, ok, "complete already")
	}
	for range depth {
		r.Next()
		r.Commit(&ci.SendWR{ID: 1}, prm.WQENop, 1)
	}
	require.Zero(t, r.Room())
	id, ok := r.Complete(uint16(22))
	require.True(t, ok)
	require.EqualValues(t, 1, id)
	require.Zero(t, r.Outstanding(), "a completion stands for the requests before it")
	_, err = NewSendRing(buf[:100], log, shift, depth)
	require.ErrorIs(t, err, errMemory)
	_, err = NewSendRing(buf, log, shift, 5)
	require.ErrorIs(t, err, errMemory)
}

// TestStamp checks that blocks of a slot that is not in use are invalid before the slot is used again.
func TestStamp(t *testing.T) {
	const log, shift = 2, 8
	buf := make([]byte, 1<<(log+shift))
	r, err := NewSendRing(buf, log, shift, 2)
	require.NoError(t, err)
	wr := &ci.SendWR{Op: ci.OpSend, Inline: make([]byte, 150)}
	for n := range uint16(12) {
		slot := r.Next()
		for at := 64; at < 1<<shift; at += 64 {
			require.EqualValues(t, stamp, load32(slot[at:]), "request %d, block at %d", n, at)
		}
		opcode, units := EncodeSend(slot, wr, &Extra{})
		r.Commit(wr, opcode, units)
		_, ok := r.Complete(n)
		require.True(t, ok)
	}
}

// TestFlame checks the copy for BlueFlame.
func TestFlame(t *testing.T) {
	r, err := NewSendRing(make([]byte, 4<<7), 2, 7, 4)
	require.NoError(t, err)
	wr := &ci.SendWR{Op: ci.OpSend, Inline: make([]byte, 60)}
	opcode, units := EncodeSend(r.Next(), wr, &Extra{})
	n := r.Commit(wr, opcode, units)
	b := r.Flame(nil, n, 0x123456)
	assert.Len(t, b, 128, "whole blocks")
	assert.EqualValues(t, n, prm.CtrlBFIndex.Get(b))
	assert.EqualValues(t, 0x123456, prm.CtrlBFQPN.Get(b))
	assert.EqualValues(t, units, prm.CtrlSize.Get(b))
}

// TestRecv checks receive queues.
func TestRecv(t *testing.T) {
	const log, shift = 1, 6
	buf, record := make([]byte, 1<<(log+shift)), make([]byte, 8)
	r, err := NewRecvRing(buf, record, log, shift, 2)
	require.NoError(t, err)
	_, ok := r.Complete(0)
	require.False(t, ok, "empty")
	for n := range uint16(7) {
		r.Put(&ci.RecvWR{ID: uint64(n) + 5, SGL: sges(3)})
		slot := buf[int(n&1)<<shift:][:1<<shift]
		requireData(t, slot[:3*prm.DataSegment], 3)
		require.EqualValues(t, prm.InvalidKey, prm.DataKey.Get(slot[3*prm.DataSegment:]), "the end of the list")
		require.Equal(t, uint64(n), prm.RQRecordCounter.Get(record), "not published")
		r.Publish()
		require.Equal(t, uint64(n)+1, prm.RQRecordCounter.Get(record))
		_, ok = r.Complete(n + 1)
		require.False(t, ok)
		id, ok := r.Complete(n)
		require.True(t, ok)
		require.EqualValues(t, n+5, id)
	}
}

// TestShared checks the list of a shared queue when slots complete in another order.
func TestShared(t *testing.T) {
	const log, shift = 3, 5
	buf, record := make([]byte, 1<<(log+shift)), make([]byte, 8)
	r, err := NewSharedRing(buf, record, log, shift)
	require.NoError(t, err)
	require.Equal(t, 7, r.Room())
	next := uint16(0) // as the adapter follows the list
	take := func() uint16 {
		n := next
		next = uint16(prm.NextIndex.Get(buf[int(n)<<shift:]))
		return n
	}
	ids := map[uint16]uint64{}
	var held []uint16
	for i := range uint64(100) {
		for r.Room() > 0 {
			r.Put(&ci.RecvWR{ID: i<<8 | uint64(r.Room()), SGL: sges(1)})
			r.Publish()
			n := take()
			ids[n] = i<<8 | uint64(r.Room()+1)
			held = append(held, n)
		}
		require.Len(t, held, 7)
		for range 1 + i%7 { // every second one first
			k := int(i) * 3 % len(held)
			n := held[k]
			held = append(held[:k], held[k+1:]...)
			id, ok := r.Complete(n)
			require.True(t, ok)
			require.Equal(t, ids[n], id)
			_, ok = r.Complete(n)
			require.False(t, ok, "complete already")
		}
	}
	_, ok := r.Complete(8)
	require.False(t, ok, "no such slot")
}
