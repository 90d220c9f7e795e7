package rings

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
	"ciddk/rvt"
)

// The objects as the consumer has them, and the resolver that returns the engine's objects.
type (
	faceAV struct {
		ci.AV
		av rvt.AV
	}
	faceMW struct {
		ci.MW
		mw rvt.MW
	}
	faceMR struct {
		ci.MR
		mr rvt.MR
	}
	faces struct{}
)

func (faces) AV(a ci.AV) *rvt.AV { return &a.(*faceAV).av }
func (faces) MW(m ci.MW) *rvt.MW { return &m.(*faceMW).mw }
func (faces) MR(m ci.MR) *rvt.MR { return &m.(*faceMR).mr }

func drawSGL(t *rapid.T, most int) []ci.SGE {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ci.SGE {
		return ci.SGE{Addr: rapid.Uint64().Draw(t, "addr"), Length: rapid.Uint32Max(maxMessage/maxSGE).Draw(t, "len"),
			LKey: ci.Key(rapid.Uint32().Draw(t, "lkey"))}
	}), 0, most).Draw(t, "sgl")
}

const goodFlags = ci.SendFence | ci.SendSignaled | ci.SendSolicited | ci.SendLocal | ci.SendIPChecksum |
	ci.SendL4Checksum | 0xffff0000

// drawSend returns a random request, and the work that the queue must return for it.
func drawSend(t *rapid.T, sge, inline int) (ci.SendWR, rvt.Work) {
	wr := ci.SendWR{ID: rapid.Uint64().Draw(t, "id"), Op: ci.SendOp(rapid.IntRange(0, int(ci.OpFlush)).Draw(t, "op")),
		Flags: ci.SendFlags(rapid.Uint32().Draw(t, "flags")) & goodFlags}
	w := rvt.Work{ID: wr.ID, Op: wr.Op, Flags: wr.Flags}
	if rapid.Bool().Draw(t, "inline?") && (wr.Op == ci.OpSend || wr.Op == ci.OpWrite ||
		wr.Op == ci.OpAtomicWrite) {
		if wr.Op == ci.OpAtomicWrite {
			inline = ci.AtomicWriteSize
		}
		wr.Inline = rapid.SliceOfN(rapid.Byte(), 0, inline).Draw(t, "inline")
		if wr.Inline == nil {
			wr.Inline = []byte{}
		}
		w.IsInl, w.Inline = true, wr.Inline
	} else {
		wr.SGL = drawSGL(t, sge)
		w.SGL = wr.SGL
	}
	datagram := func() {
		if !rapid.Bool().Draw(t, "datagram") {
			return
		}
		av := new(faceAV)
		wr.To = ci.Dest{AV: av, QPN: ci.QPN(rapid.Uint32Max(0xffffff).Draw(t, "qpn")),
			QKey:      ci.QKey(rapid.Uint32().Draw(t, "qkey")),
			PKeyIndex: rapid.Uint16().Draw(t, "pkey")}
		w.AV, w.DestQP = &av.av, wr.To.QPN
		w.QKey, w.PKeyIx = wr.To.QKey, wr.To.PKeyIndex
	}
	number := rapid.Uint32().Draw(t, "imm")
	remote := ci.Remote{Addr: rapid.Uint64().Draw(t, "va"), RKey: ci.Key(rapid.Uint32().Draw(t, "rkey"))}
	mw, mr := new(faceMW), new(faceMR)
	switch wr.Op {
	case ci.OpSend:
		datagram()
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 1:
			wr.Flags |= ci.SendImmediate
			wr.Imm, w.Imm = number, number
		case 2:
			wr.Flags |= ci.SendInvalidate
			wr.Inv, w.Inv = ci.Key(number), ci.Key(number)
		case 3:
			wr.Ext = &ci.SendExt{Raw: ci.Raw{DLID: 7, EtherType: uint16(number)}}
			w.Ext = &rvt.WorkExt{Raw: wr.Ext.Raw}
		}
		w.Flags = wr.Flags
	case ci.OpWrite:
		wr.Remote, w.Remote = remote, remote
		if rapid.Bool().Draw(t, "imm?") {
			wr.Flags |= ci.SendImmediate
			w.Flags, wr.Imm, w.Imm = wr.Flags, number, number
		}
	case ci.OpFlush:
		wr.Remote, w.Remote = remote, remote
		wr.SGL, w.SGL = nil, nil
		w.Flush = ci.Flush{Types: ci.Access(rapid.IntRange(1, 3).Draw(t, "types")) * ci.FlushGlobal,
			Region: rapid.Bool().Draw(t, "region"), Length: number}
		wr.Ext = &ci.SendExt{Flush: w.Flush}
	case ci.OpRead, ci.OpAtomicWrite:
		wr.Remote, w.Remote = remote, remote
	case ci.OpCompareSwap, ci.OpFetchAdd:
		wr.Remote, w.Remote = remote, remote
		wr.Atomic = ci.Atomic{Compare: rapid.Uint64().Draw(t, "compare"), Swap: rapid.Uint64().Draw(t, "swap")}
		w.Compare, w.Swap = wr.Atomic.Compare, wr.Atomic.Swap
	case ci.OpLocalInv:
		wr.Inv, w.Inv = ci.Key(number), ci.Key(number)
	case ci.OpLSO:
		datagram()
		wr.Ext = &ci.SendExt{LSO: ci.LSO{Header: []byte{1, 2, byte(number)}, MSS: 1 + int(number>>8)}}
		w.Ext = &rvt.WorkExt{LSO: wr.Ext.LSO}
	case ci.OpFastReg:
		f := ci.FastReg{MR: mr, Pages: rapid.SliceOfN(rapid.Uint64(), 1, 5).Draw(t, "pages"), PageShift: 12,
			Offset: number & 0xfff,
			Length: remote.Addr, IOVA: remote.Addr + 1, Key: remote.RKey, Access: ci.LocalWrite}
		wr.Ext = &ci.SendExt{FastReg: f}
		f.MR = nil
		w.Ext = &rvt.WorkExt{MR: &mr.mr, FastReg: f}
	case ci.OpBindMW:
		bind := ci.MWBind{Key: remote.RKey, Addr: remote.Addr, Length: uint64(number), Access: ci.RemoteRead}
		w.Ext = &rvt.WorkExt{MW: &mw.mw, MR: &mr.mr, Bind: bind}
		bind.MW, bind.MR = mw, mr
		wr.Ext = &ci.SendExt{Bind: bind}
	}
	return wr, w
}

// same compares works. Objects must be identical. Empty and nil lists are equal.
func same(t require.TestingT, want, got *rvt.Work) {
	require.Same(t, want.AV, got.AV)
	a, b := *want, *got
	a.AV, b.AV = nil, nil
	require.Equal(t, append([]ci.SGE{}, a.SGL...), append([]ci.SGE{}, b.SGL...))
	require.Equal(t, append([]byte{}, a.Inline...), append([]byte{}, b.Inline...))
	a.SGL, b.SGL = nil, nil
	a.Inline, b.Inline = nil, nil
	require.Equal(t, a.Ext == nil, b.Ext == nil)
	if a.Ext != nil {
		require.Same(t, a.Ext.MR, b.Ext.MR)
		require.Same(t, a.Ext.MW, b.Ext.MW)
		x, y := *a.Ext, *b.Ext
		x.MR, y.MR = nil, nil
		x.MW, y.MW = nil, nil
		require.Equal(t, append([]uint64{}, x.FastReg.Pages...), append([]uint64{}, y.FastReg.Pages...))
		require.Equal(t, append([]byte{}, x.LSO.Header...), append([]byte{}, y.LSO.Header...))
		x.FastReg.Pages, y.FastReg.Pages = nil, nil
		x.LSO.Header, y.LSO.Header = nil, nil
		require.Equal(t, x, y)
	}
	a.Ext, b.Ext = nil, nil
	require.Equal(t, a, b)
}

func TestSendRingModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		depth := rapid.IntRange(1, 20).Draw(t, "depth")
		sge, inline := rapid.IntRange(0, 4).Draw(t, "sge"), rapid.IntRange(0, 100).Draw(t, "max inline")
		r, err := RXE{}.SendRing(depth, sge, inline, nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Depth(), depth)
		var posted, decoded []rvt.Work // posted and not decoded; decoded and not retired
		t.Repeat(map[string]func(*rapid.T){
			"post": func(t *rapid.T) {
				n := rapid.IntRange(0, 5).Draw(t, "n")
				wrs, works := make([]ci.SendWR, n), make([]rvt.Work, n)
				for i := range wrs {
					wrs[i], works[i] = drawSend(t, sge, inline)
				}
				got := r.Post(wrs, faces{})
				require.Equal(t, min(n, r.Depth()-len(posted)-len(decoded)), got)
				posted = append(posted, works[:got]...)
			},
			"next": func(t *rapid.T) {
				w := rvt.Work{SGL: make([]ci.SGE, 0, sge), Imm: 99, Length: 5, Bad: ci.WCGeneralErr}
				ok := r.Next(&w)
				require.Equal(t, len(posted) > 0, ok)
				if ok {
					same(t, &posted[0], &w)
					decoded, posted = append(decoded, posted[0]), posted[1:]
				}
			},
			"retire": func(t *rapid.T) {
				n := rapid.IntRange(0, len(decoded)).Draw(t, "n")
				r.Retire(n)
				decoded = decoded[n:]
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					r.Reset()
					posted, decoded = nil, nil
				}
			},
			"": func(t *rapid.T) { require.Equal(t, len(posted)+len(decoded), r.Len()) },
		})
	})
}

func TestRecvRingModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		depth, sge := rapid.IntRange(1, 20).Draw(t, "depth"), rapid.IntRange(0, 4).Draw(t, "sge")
		r, err := RXE{}.RecvRing(depth, sge, nil)
		require.NoError(t, err)
		var model []ci.RecvWR
		t.Repeat(map[string]func(*rapid.T){
			"post": func(t *rapid.T) {
				wrs := make([]ci.RecvWR, rapid.IntRange(0, 5).Draw(t, "n"))
				for i := range wrs {
					wrs[i] = ci.RecvWR{ID: rapid.Uint64().Draw(t, "id"), SGL: drawSGL(t, sge)}
				}
				n := r.Post(wrs)
				require.Equal(t, min(len(wrs), r.Depth()-len(model)), n)
				model = append(model, wrs[:n]...)
			},
			"next": func(t *rapid.T) {
				w := rvt.RecvWork{SGL: make([]ci.SGE, 0, sge), Bad: true}
				ok := r.Next(&w)
				require.Equal(t, len(model) > 0, ok)
				if ok {
					require.Equal(t, model[0].ID, w.ID)
					require.False(t, w.Bad)
					require.Equal(t, append([]ci.SGE{}, model[0].SGL...), append([]ci.SGE{}, w.SGL...))
					model = model[1:]
				}
			},
			"resize": func(t *rapid.T) {
				d := rapid.IntRange(0, 40).Draw(t, "to")
				err := r.Resize(d)
				if d < 1 || d < len(model) {
					require.ErrorIs(t, err, ci.InvalidMaxWRs)
				} else {
					require.NoError(t, err)
					require.GreaterOrEqual(t, r.Depth(), d)
				}
			},
			"": func(t *rapid.T) { require.Equal(t, len(model), r.Len()) },
		})
	})
}

func drawWC(t *rapid.T) ci.WC {
	ops := []ci.WCOp{ci.WCSend, ci.WCWrite, ci.WCRead, ci.WCCompareSwap, ci.WCFetchAdd, ci.WCBindMW, ci.WCNop,
		ci.WCLSO, ci.WCLocalInv,
		ci.WCFastReg, ci.WCRecv, ci.WCRecvWrite}
	u := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
	return ci.WC{ID: rapid.Uint64().Draw(t, "id"), Context: u("context"), Length: u("len"),
		QPN: ci.QPN(u("qpn")), Imm: u("imm"),
		SrcQP: ci.QPN(u("src")), VendorErr: u("vendor"), EECN: ci.EECN(u("eec")), PKeyIndex: rapid.Uint16().Draw(t,
			"pkey"),
		SLID: ci.LID(rapid.Uint16().Draw(t, "slid")), EtherType: rapid.Uint16().Draw(t, "ether"),
		Flags:  ci.WCFlags(rapid.Uint16Max(31).Draw(t, "flags")),
		Status: ci.WCStatus(rapid.Uint8Max(uint8(ci.WCRemAbortErr)).Draw(t, "status")),
		Op:     rapid.SampledFrom(ops).Draw(t, "op"), SL: ci.SL(rapid.Byte().Draw(t, "sl")),
		PathBits: rapid.Byte().Draw(t, "bits")}
}

func TestCompletionRingModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, err := RXE{}.CompletionRing(rapid.IntRange(1, 20).Draw(t, "size"), nil)
		require.NoError(t, err)
		var model []ci.WC
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				wc := drawWC(t)
				ok := r.Put(&wc)
				require.Equal(t, len(model) < r.Cap(), ok)
				if ok {
					model = append(model, wc)
				}
			},
			"get": func(t *rapid.T) {
				wcs := make([]ci.WC, rapid.IntRange(0, 5).Draw(t, "n"))
				n := r.Get(wcs)
				require.Equal(t, min(len(wcs), len(model)), n)
				require.Equal(t, append([]ci.WC{}, model[:n]...), append([]ci.WC{}, wcs[:n]...))
				model = model[n:]
			},
			"resize": func(t *rapid.T) {
				n := rapid.IntRange(0, 40).Draw(t, "to")
				err := r.Resize(n)
				switch {
				case n < 1:
					require.ErrorIs(t, err, ci.InvalidCQSize)
				case n < len(model):
					require.ErrorIs(t, err, ci.Overflow)
				default:
					require.NoError(t, err)
					require.GreaterOrEqual(t, r.Cap(), n)
				}
			},
			"": func(t *rapid.T) { require.Equal(t, len(model), r.Len()) },
		})
	})
}

// TestLayout compares a queue with the offsets and numbers of the Linux ABI, written out by hand.
func TestLayout(t *testing.T) {
	t.Parallel()
	b := alignedBytes(queueSize(sendGeometry(3, 2, 0)))
	require.Len(t, b, 384+4*256)
	r := newSendRing(b, 3, 2, 0)
	n := r.Post([]ci.SendWR{{ID: 0x1122, Op: ci.OpWrite, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 0x01020304,
		Remote: ci.Remote{Addr: 0xabcdef, RKey: 0x77}, SGL: []ci.SGE{{Addr: 1, Length: 2, LKey: 3},
			{Addr: 4, Length: 5, LKey: 6}}}}, faces{})
	require.Equal(t, 1, n)
	u32 := func(off int) uint32 { return ne.Uint32(b[off:]) }
	assert.EqualValues(t, 8, u32(0))
	assert.EqualValues(t, 3, u32(4))
	assert.EqualValues(t, 1, u32(128), "producer")
	assert.EqualValues(t, 0, u32(256), "consumer")
	e := 384
	assert.EqualValues(t, 0x1122, ne.Uint64(b[e:]))
	assert.EqualValues(t, 1, u32(e+12), "WRITE with immediate")
	assert.EqualValues(t, 2, u32(e+16), "signaled")
	assert.Equal(t, []byte{1, 2, 3, 4}, b[e+20:e+24])
	assert.EqualValues(t, 0xabcdef, ne.Uint64(b[e+24:]))
	assert.EqualValues(t, 0x77, u32(e+32))
	assert.EqualValues(t, 7, u32(e+184), "length")
	assert.EqualValues(t, 2, u32(e+196), "entries")
	assert.EqualValues(t, 4, ne.Uint64(b[e+224:]))
	assert.EqualValues(t, 5, u32(e+232))
	assert.EqualValues(t, 6, u32(e+236))
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		depth, sge, bytes int
		ub                *ci.UserBuffer
		want              ci.Status
	}{
		{"least", 0, 0, 0, nil, ci.Success},
		{"negative depth", -1, 1, 0, nil, ci.InvalidMaxWRs},
		{"huge depth", maxDepth + 1, 1, 0, nil, ci.InvalidMaxWRs},
		{"huge sge", 1, maxSGE + 1, 0, nil, ci.InvalidMaxSGE},
		{"negative sge", 1, -1, 0, nil, ci.InvalidMaxSGE},
		{"huge inline", 1, 1, maxInline + 1, nil, ci.InvalidParameter},
		{"user process", 1, 1, 0, &ci.UserBuffer{Command: 1}, ci.Unsupported},
		{"user process without a library", 1, 1, 0, &ci.UserBuffer{}, ci.Success},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := RXE{}.SendRing(c.depth, c.sge, c.bytes, c.ub)
			assert.Equal(t, c.want, ci.StatusOf(err))
			if c.bytes == 0 {
				_, err = RXE{}.RecvRing(c.depth, c.sge, c.ub)
				assert.Equal(t, c.want, ci.StatusOf(err))
			}
		})
	}
	_, err := RXE{}.CompletionRing(0, nil)
	require.ErrorIs(t, err, ci.InvalidCQSize)
	_, err = RXE{}.CompletionRing(1, &ci.UserBuffer{Command: 1})
	require.ErrorIs(t, err, ci.Unsupported)
}

// TestRetireLetsGo checks that a free slot holds no object, so that a destroyed region or window can be collected.
func TestRetireLetsGo(t *testing.T) {
	t.Parallel()
	r := newSendRing(alignedBytes(queueSize(sendGeometry(3, 1, 0))), 3, 1, 0)
	wrs := []ci.SendWR{{Op: ci.OpSend, To: ci.Dest{AV: new(faceAV)}},
		{Op: ci.OpBindMW, Ext: &ci.SendExt{Bind: ci.MWBind{MW: new(faceMW), MR: new(faceMR)}}}}
	require.Equal(t, 2, r.Post(wrs, faces{}))
	var w rvt.Work
	require.True(t, r.Next(&w))
	require.True(t, r.Next(&w))
	r.Retire(2)
	s := r.side.Load()
	for i := range s.av {
		assert.Nil(t, s.av[i], fmt.Sprint("slot ", i))
		if s.ext[i] != nil {
			assert.Nil(t, s.ext[i].MR)
			assert.Nil(t, s.ext[i].MW)
		}
	}
	q := newCompletionRing(alignedBytes(queueSize(geometry(3, wcSize))), 3)
	require.True(t, q.Put(&ci.WC{Context: t}))
	require.Equal(t, 1, q.Get(make([]ci.WC, 2)))
	assert.Nil(t, q.contexts[0])
}
