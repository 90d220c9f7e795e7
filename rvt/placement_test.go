package rvt

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// persistentMemory records what is made persistent.
type persistentMemory struct {
	ci.Memory
	ranges [][2]uint64
	err    error
}

func (m *persistentMemory) Persist(off, n uint64) error {
	m.ranges = append(m.ranges, [2]uint64{off, n})
	return m.err
}

// word returns packet n as an ATOMIC WRITE of v at off.
func (x *responderRig) word(n int, off, v uint64) Packet {
	p := x.remote(wire.OpAtomicWrite, n, off, 8)
	b := binary.NativeEndian.AppendUint64(nil, v)
	p.Len, p.Payload = 8, [][]byte{b[:3], b[3:]}
	return p
}

// flush returns packet n as a FLUSH of 8 bytes at off.
func (x *responderRig) flush(n int, types, sel uint8, off uint64) Packet {
	p := x.remote(wire.OpFlush, n, off, 8)
	p.FlushTypes, p.FlushSel = types, sel
	return p
}

// requireEmpty checks that the only packet sent is the answer of a READ of no bytes.
func (x *responderRig) requireEmpty(n int, msn uint32) {
	x.t.Helper()
	p := x.oneSent()
	assert.Equal(x.t, Packet{Service: wire.RC, Op: wire.OpReadResponse, Start: true, End: true, MigReq: true,
		PKey: 0xffff, DestQP: 8, PSN: psnAdd(halfPSN, uint32(n)), N: 1, MTU: 1024, Syndrome: plainACK, MSN: msn,
		Route: p.Route}, p)
}

// TestResponderAtomicWrite checks that the bytes are stored once, and that a duplicate is answered and not executed.
func TestResponderAtomicWrite(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	w := x.word(0, 16, 0x1122334455667788)
	x.request(w)
	x.requireEmpty(0, 1)
	assert.EqualValues(t, 0x1122334455667788, binary.NativeEndian.Uint64(x.buf[16:]))
	binary.NativeEndian.PutUint64(x.buf[16:], 5)
	x.request(w)
	x.requireEmpty(0, 1)
	assert.EqualValues(t, 5, binary.NativeEndian.Uint64(x.buf[16:]))
	x.request(x.remote(wire.OpFetchAdd, 0, 16, 0)) // a duplicate of another kind: there was none
	assert.Empty(t, x.takeSent())
}

// TestResponderFlush checks what each type and selectivity makes persistent, and that a duplicate does nothing.
func TestResponderFlush(t *testing.T) {
	for name, tt := range map[string]struct {
		types, sel uint8
		far        bool
		want       [][2]uint64
	}{
		"global":             {types: wire.FlushGlobal},
		"persistent":         {types: wire.FlushPersistent, want: [][2]uint64{{96, 8}}},
		"both":               {types: 3, want: [][2]uint64{{96, 8}}},
		"region":             {types: wire.FlushPersistent, sel: wire.FlushRegion, want: [][2]uint64{{64, 128}}},
		"by copies":          {types: wire.FlushPersistent, far: true, want: [][2]uint64{{96, 8}}},
		"region, far":        {types: 3, sel: wire.FlushRegion, far: true, want: [][2]uint64{{64, 128}}},
		"region, everywhere": {types: wire.FlushGlobal, sel: wire.FlushRegion},
	} {
		t.Run(name, func(t *testing.T) {
			x := newResponderRig(t, wire.RC)
			m := &persistentMemory{Memory: ci.Bytes(x.buf)}
			if tt.far {
				m.Memory = &farMemory{addr: 0x1000, b: x.buf}
			}
			mr, err := x.pd.RegisterMR(ci.MRCreate{Memory: m, Offset: 64, Length: 128, Access: ci.FlushRights})
			require.NoError(t, err)
			x.mr = mr.Region()
			p := x.flush(0, tt.types, tt.sel, 32)
			if tt.sel == wire.FlushRegion {
				p.VA, p.DMALen = 0, 0
			}
			x.request(p)
			x.requireEmpty(0, 1)
			x.request(p)
			x.requireEmpty(0, 1)
			assert.Equal(t, tt.want, m.ranges)
		})
	}
}

// TestResponderRefusesPlacement checks requests that end the connection.
func TestResponderRefusesPlacement(t *testing.T) {
	word := func(change func(x *responderRig, p *Packet)) func(*responderRig) Packet {
		return func(x *responderRig) Packet {
			p := x.word(0, 16, 1)
			change(x, &p)
			return p
		}
	}
	flush := func(types, sel uint8, change func(x *responderRig, p *Packet)) func(*responderRig) Packet {
		return func(x *responderRig) Packet {
			p := x.flush(0, types, sel, 0)
			change(x, &p)
			return p
		}
	}
	nothing := func(*responderRig, *Packet) {}
	for name, tt := range map[string]struct {
		p   func(x *responderRig) Packet
		nak wire.Syndrome
	}{
		"misaligned": {word(func(_ *responderRig, p *Packet) { p.VA += 4 }), wire.NAKInvalidRequest},
		"4 bytes": {word(func(_ *responderRig, p *Packet) { p.Len, p.DMALen, p.Payload = 4, 4, p.Payload[1:] }),
			wire.NAKInvalidRequest},
		"length of 16": {word(func(_ *responderRig, p *Packet) { p.DMALen = 16 }), wire.NAKInvalidRequest},
		"wrong key":    {word(func(_ *responderRig, p *Packet) { p.RKey++ }), wire.NAKRemoteAccess},
		"outside":      {word(func(_ *responderRig, p *Packet) { p.VA += 1 << 16 }), wire.NAKRemoteAccess},
		"no right to write": {word(func(x *responderRig, _ *Packet) { x.e.attr.Access = ci.RemoteAtomic }),
			wire.NAKInvalidRequest},
		"no resources": {word(func(x *responderRig, _ *Packet) { x.r.attr.RespRes = 0 }), wire.NAKInvalidRequest},
		"no capability": {word(func(x *responderRig, _ *Packet) { x.h.attr.Caps &^= ci.CapAtomicWrite }),
			wire.NAKInvalidRequest},
		"flush: no type":           {flush(0, 0, nothing), wire.NAKInvalidRequest},
		"flush: undefined type":    {flush(5, 0, nothing), wire.NAKInvalidRequest},
		"flush: undefined level":   {flush(1, 2, nothing), wire.NAKInvalidRequest},
		"flush: region's right":    {flush(2, 0, nothing), wire.NAKRemoteAccess},
		"flush: one of two rights": {flush(3, 1, nothing), wire.NAKRemoteAccess},
		"flush: no key": {flush(1, 1, func(_ *responderRig, p *Packet) { p.RKey = noKey }),
			wire.NAKRemoteAccess},
		"flush: outside": {flush(1, 0, func(_ *responderRig, p *Packet) { p.DMALen = 1<<16 + 1 }),
			wire.NAKRemoteAccess},
		"flush: QP's right": {flush(1, 0, func(x *responderRig, _ *Packet) { x.e.attr.Access = 0 }),
			wire.NAKInvalidRequest},
		"flush: no resources": {flush(1, 0, func(x *responderRig, _ *Packet) { x.r.attr.RespRes = 0 }),
			wire.NAKInvalidRequest},
		"flush: no capability": {flush(1, 0, func(x *responderRig, _ *Packet) { x.h.attr.Caps &^= ci.CapFlush }),
			wire.NAKInvalidRequest},
		"flush: inside a message": {flush(1, 0, func(x *responderRig, _ *Packet) { x.r.in = true }),
			wire.NAKInvalidRequest},
		"flush: storage is at fault": {func(x *responderRig) Packet {
			m := &persistentMemory{Memory: ci.Bytes(x.buf), err: errors.New("lost")}
			mr, err := x.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.FlushPersistent})
			require.NoError(x.t, err)
			x.mr = mr.Region()
			return x.flush(0, wire.FlushPersistent, 0, 0)
		}, wire.NAKRemoteAccess},
	} {
		t.Run(name, func(t *testing.T) {
			x := newResponderRig(t, wire.RC)
			mr, err := x.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(x.buf), Access: allRights | ci.FlushGlobal})
			require.NoError(t, err)
			x.mr = mr.Region()
			x.request(tt.p(x))
			x.requireAck(0, tt.nak)
			assert.Equal(t, 1, x.errors)
			assert.Zero(t, binary.NativeEndian.Uint64(x.buf[16:]))
		})
	}
}

// TestResponderManyFlushes checks that as many FLUSHes may wait as READs: their answers take the same memory.
func TestResponderManyFlushes(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	mr, err := x.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(x.buf), Access: ci.FlushGlobal})
	require.NoError(t, err)
	x.mr = mr.Region()
	x.run(func(t *turn) {
		for n := range x.r.resources() + 1 {
			p := x.flush(n, wire.FlushGlobal, 0, 0)
			x.r.request(t, &p)
		}
	})
	assert.True(t, x.r.failed)
	assert.Equal(t, psnAdd(halfPSN, uint32(x.r.resources())), x.r.nakPSN)
}

// TestPersistentRegions checks that only regions of persistent memory, and of an adapter with the capability, have the
// right.
func TestPersistentRegions(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.h.attr.Caps |= ci.CapSharedMR | ci.CapModifyMR
	register := func(m ci.Memory, a ci.Access) (ci.MR, error) {
		return x.pd.RegisterMR(ci.MRCreate{Memory: m, Access: a})
	}
	plain, persistent := ci.Bytes(x.buf), &persistentMemory{Memory: ci.Bytes(x.buf)}
	far := &farMemory{addr: 0x1000, b: x.buf}
	for _, m := range []ci.Memory{plain, far} {
		_, err := register(m, ci.FlushPersistent)
		require.ErrorIs(t, err, ci.InvalidParameter)
	}
	old, err := register(plain, ci.LocalWrite)
	require.NoError(t, err)
	_, err = x.pd.RegisterSMR(old, 0, ci.FlushPersistent)
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.ErrorIs(t, old.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.FlushPersistent}), ci.InvalidParameter)
	require.NoError(t, old.Modify(ci.MRFieldAccess|ci.MRFieldMemory, nil,
		ci.MRCreate{Memory: persistent, Access: ci.FlushPersistent}))
	shared, err := x.pd.RegisterSMR(old, 0, ci.FlushPersistent)
	require.NoError(t, err)
	assert.NotZero(t, shared.Region().RKey)
	for caps, right := range map[ci.Caps]ci.Access{ci.CapFlush: ci.FlushGlobal,
		ci.CapFlushPersistent: ci.FlushPersistent} {
		x.h.attr.Caps &^= caps
		_, err = register(persistent, right)
		require.ErrorIs(t, err, ci.Unsupported)
		x.h.attr.Caps |= caps
	}
}

// placements are requests, and the packets that they become.
var placements = map[string]struct {
	wr   func(x *requesterRig) ci.SendWR
	want Packet
	op   ci.WCOp
}{
	"atomic write": {func(x *requesterRig) ci.SendWR {
		return ci.SendWR{Op: ci.OpAtomicWrite, SGL: []ci.SGE{x.mr.SGE(0, 8)}, Remote: ci.Remote{Addr: 24, RKey: 5}}
	}, Packet{Op: wire.OpAtomicWrite, VA: 24, RKey: 5, DMALen: 8, Len: 8, Payload: [][]byte{[]byte("abcdefgh")}},
		ci.WCAtomicWrite},
	"inline": {func(*requesterRig) ci.SendWR {
		return ci.SendWR{Op: ci.OpAtomicWrite, Inline: []byte("12345678"), Remote: ci.Remote{Addr: 24, RKey: 5}}
	}, Packet{Op: wire.OpAtomicWrite, VA: 24, RKey: 5, DMALen: 8, Len: 8, Payload: [][]byte{[]byte("12345678")}},
		ci.WCAtomicWrite},
	"flush": {func(*requesterRig) ci.SendWR {
		return ci.SendWR{Op: ci.OpFlush, Remote: ci.Remote{Addr: 24, RKey: 5},
			Ext: &ci.SendExt{Flush: ci.Flush{Types: ci.FlushGlobal, Length: 1 << 31}}}
	}, Packet{Op: wire.OpFlush, VA: 24, RKey: 5, DMALen: 1 << 31, FlushTypes: 1}, ci.WCFlush},
	"flush of a region": {func(*requesterRig) ci.SendWR {
		return ci.SendWR{Op: ci.OpFlush, Remote: ci.Remote{RKey: 5},
			Ext: &ci.SendExt{Flush: ci.Flush{Types: ci.FlushRights, Region: true}}}
	}, Packet{Op: wire.OpFlush, RKey: 5, FlushTypes: 3, FlushSel: 1}, ci.WCFlush},
}

// TestRequesterPlacement checks the packet, that only the answer of a READ of no bytes completes the request, that an
// acknowledgement of a later packet shows its loss, and that it counts as a READ.
func TestRequesterPlacement(t *testing.T) {
	for name, tt := range placements {
		t.Run(name, func(t *testing.T) {
			x := newRequesterRig(t, wire.RC, Hints{})
			copy(x.buf, "abcdefgh")
			x.e.attr.InitDepth = 1
			x.post(tt.wr(x), tt.wr(x))
			want := tt.want
			got := x.oneSent()
			want.Service, want.MigReq = wire.RC, true
			want.PKey, want.DestQP = 0xffff, 8
			want.Start, want.End, want.Ack = true, true, true
			want.PSN, want.N = halfPSN, 1
			want.MTU, want.Route = 1024, got.Route
			assert.Equal(t, want, got)

			x.ack(0, wire.ACK(0)) // the answer is lost
			assert.Equal(t, want, x.oneSent())
			assert.Empty(t, x.poll())
			x.response(x.packet(wire.OpReadResponse, 0))
			wcs := x.poll()
			require.Len(t, wcs, 1)
			assert.Equal(t, []any{ci.WCSuccess, tt.op}, []any{wcs[0].Status, wcs[0].Op})
			assert.Equal(t, psnAdd(halfPSN, 1), x.oneSent().PSN, "the second one waited")

			bad := x.packet(wire.OpReadResponse, 1)
			bad.Len, bad.Payload = 8, [][]byte{make([]byte, 8)}
			x.response(bad)
			assert.Equal(t, []ci.WCStatus{ci.WCBadRespErr}, x.statuses())
		})
	}
}

// TestRequesterPlacementFails checks requests that end without a packet.
func TestRequesterPlacementFails(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(x *requesterRig, w *ci.SendWR)
		want   ci.WCStatus
	}{
		"7 bytes":   {func(_ *requesterRig, w *ci.SendWR) { w.SGL[0].Length = 7 }, ci.WCLocalLenErr},
		"9 bytes":   {func(_ *requesterRig, w *ci.SendWR) { w.SGL[0].Length = 9 }, ci.WCLocalLenErr},
		"wrong key": {func(_ *requesterRig, w *ci.SendWR) { w.SGL[0].LKey++ }, ci.WCLocalProtErr},
		"no depth":  {func(x *requesterRig, _ *ci.SendWR) { x.e.attr.InitDepth = 0 }, ci.WCLocalOpErr},
		"not known": {func(_ *requesterRig, w *ci.SendWR) { w.Op = ci.OpFlush + 1 }, ci.WCLocalOpErr},
		"flush, too": {func(x *requesterRig, w *ci.SendWR) { w.Op, x.e.attr.InitDepth = ci.OpFlush, 0 },
			ci.WCLocalOpErr},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRequesterRig(t, wire.RC, Hints{})
			w := placements["atomic write"].wr(x)
			tt.change(x, &w)
			x.post(w)
			assert.Equal(t, []ci.WCStatus{tt.want}, x.statuses())
			assert.Empty(t, x.takeSent())
		})
	}
}

// TestAtomicWriteByCopies stores to memory that this process cannot address.
func TestAtomicWriteByCopies(t *testing.T) {
	r := newMemRig(t, nil)
	far := atomicMemory{&farMemory{addr: 0x1000, b: make([]byte, 64)}}
	far.b[8] = 7
	m, err := r.pd.RegisterMR(ci.MRCreate{Memory: far, Access: ci.LocalWrite})
	require.NoError(t, err)
	var h holds
	at := r.at(&h, r.pd, m.Region(), 8, 16)
	word := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	require.NoError(t, at.atomicWrite(&word))
	assert.Equal(t, word[:], far.b[8:16])
	require.ErrorIs(t, at.advance(4).atomicWrite(&word), errMisaligned)
	h.release()
	r.destroy(m)
	r.close()
}
