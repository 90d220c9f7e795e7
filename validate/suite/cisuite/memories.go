package cisuite

import (
	"encoding/binary"
	"fmt"
	"sync"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// spreadMemory is memory in pieces, of which each begins at a multiple of stride in b. Copies are not split.
type spreadMemory struct {
	b             []byte
	piece, stride uint64
	viewed        uint64 // bytes that have views, from the beginning on
}

func (m spreadMemory) Addr() uint64 { return ci.Bytes(m.b).Addr() }

func (m spreadMemory) Len() uint64 { return uint64(len(m.b)) / m.stride * m.piece }

func (m spreadMemory) Slice(off, n uint64) []byte {
	if off >= m.viewed {
		return nil
	}
	in := off % m.piece
	at := off/m.piece*m.stride + in
	n = min(n, m.piece-in, m.viewed-off)
	return m.b[at : at+n : at+n]
}

func (m spreadMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.copy(len(p), off, func(b []byte, at int) { copy(p[at:], b) })
}

func (m spreadMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.copy(len(p), off, func(b []byte, at int) { copy(b, p[at:]) })
}

// copy calls f with each byte of the storage of n bytes at off.
func (m spreadMemory) copy(n int, off int64, f func(b []byte, at int)) (int, error) {
	for i := range n {
		x := uint64(off) + uint64(i)
		at := x/m.piece*m.stride + x%m.piece
		f(m.b[at:at+1], i)
	}
	return n, nil
}

func (m spreadMemory) Pin() (func(), error) { return func() {}, nil }

// all returns the bytes of the memory in order.
func (m spreadMemory) all() []byte {
	b := make([]byte, m.Len())
	_, _ = m.ReadAt(b, 0) // which does not fail
	return b
}

// The case adds to words of memory in extents of 15 bytes, with 17 bytes between two. A word that is in an extent is
// incremented. One that crosses the end of an extent is as well, or is rejected and remains as it was. Bytes between
// the extents are never changed.
var _ = atomicCases.Add("atomic.pieces", "words inside of an extent of memory, and across two", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	m := spreadMemory{b: kit.Pages(4096, 4096), piece: 15, stride: 32, viewed: 60}
	m.b = m.b[:128]
	for i := range m.b {
		m.b[i] = byte(i)
	}
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess | ci.RemoteAtomic})
	if err != nil {
		kit.WantRefused(t, mr, err, "PD.RegisterMR of memory in extents", ci.InvalidParameter)
		t.Skip("memory in extents is rejected")
	}
	r := kit.Own(t, mr, "MR").Region()
	for _, off := range kit.Variants(t, "offset", []uint64{0, 8}) {
		before, between := m.all(), append([]byte(nil), m.b...)
		want := binary.NativeEndian.Uint64(before[off:])
		wr := p.Request(ci.OpFetchAdd, 8, r.Remote(off))
		wr.Atomic.Compare = 0x0101010101010101
		if off == 0 {
			p.WantStatus("fetch-and-add to a word inside of an extent", wr, ci.WCSuccess)
		} else if p.Try(wr) != ci.WCSuccess {
			wr.Atomic.Compare = 0
		}
		binary.NativeEndian.PutUint64(before[off:], want+wr.Atomic.Compare)
		kit.SameBytes(t, "memory after a fetch-and-add", m.all(), before)
		for i := range m.b {
			if i%32 >= 15 {
				kit.Equal(t, fmt.Sprintf("byte %d, between two extents", i), m.b[i], between[i])
			}
		}
	}
}, ibta9_4_11)

// ownAtomics is memory without a direct view that executes atomics itself.
type ownAtomics struct {
	kit.CopyMemory
	mu *sync.Mutex
}

func (m ownAtomics) FetchAdd(off, add uint64) (uint64, error) {
	return m.swap(off, func(old uint64) uint64 { return old + add })
}

func (m ownAtomics) CompareSwap(off, compare, swap uint64) (uint64, error) {
	return m.swap(off, func(old uint64) uint64 {
		if old == compare {
			return swap
		}
		return old
	})
}

func (m ownAtomics) swap(off uint64, f func(uint64) uint64) (uint64, error) {
	if off+8 > uint64(len(m.B)) {
		return 0, errGone
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := binary.NativeEndian.Uint64(m.B[off:])
	binary.NativeEndian.PutUint64(m.B[off:], f(old))
	return old, nil
}

var _ = atomicCases.Add("atomic.bounds",
	"the first and last words of regions and windows of uneven lengths, and the bytes behind them", atomicBounds,
	ibta9_4_11)

func atomicBounds(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	const room = 64
	// try executes atomics on the words of the first n bytes of b, which are reached at r.
	try := func(what string, r ci.Remote, b []byte, n int) {
		kit.Random(t, b)
		want := append([]byte(nil), b...)
		last := n/8*8 - 8
		for _, off := range []int{0, last} {
			at := ci.Remote{Addr: r.Addr + uint64(off), RKey: r.RKey}
			old := binary.NativeEndian.Uint64(want[off:])
			for _, x := range []struct {
				op            ci.SendOp
				compare, swap uint64
				after         uint64
			}{{ci.OpFetchAdd, 1<<40 + 3, 0, old + 1<<40 + 3}, {ci.OpCompareSwap, old, 5, old + 1<<40 + 3},
				{ci.OpCompareSwap, old + 1<<40 + 3, ^old, ^old}} {
				wr := p.Request(x.op, 8, at)
				wr.Atomic = ci.Atomic{Compare: x.compare, Swap: x.swap}
				before := binary.NativeEndian.Uint64(want[off:])
				where := fmt.Sprintf("%v of the word at %d of %s", x.op, off, what)
				p.WantStatus(where, wr, ci.WCSuccess)
				kit.Equal(t, "result of "+where, binary.NativeEndian.Uint64(p.A.Buf.Bytes), before)
				binary.NativeEndian.PutUint64(want[off:], x.after)
				kit.SameBytes(t, "memory after "+where, b, want)
			}
		}
		for _, op := range []ci.SendOp{ci.OpFetchAdd, ci.OpCompareSwap} {
			p.WantDenied(fmt.Sprintf("%v of a word that is not all in %s", op, what), op, 8,
				ci.Remote{Addr: r.Addr + uint64(last) + 8, RKey: r.RKey})
		}
		kit.SameBytes(t, "memory after atomics behind the end of "+what, b, want)
	}
	for _, n := range kit.Variants(t, "bytes", []int{8, 15, 24, 28}) {
		for _, isOwn := range []bool{false, true} {
			b := kit.Pages(room, 4096)
			m, what := ci.Memory(ci.Bytes(b[:n])), fmt.Sprintf("a region of %d bytes", n)
			if isOwn {
				m, what = ownAtomics{kit.CopyMemory{B: b[:n]}, new(sync.Mutex)}, what+" with atomics of its own"
			}
			mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess | ci.RemoteAtomic})
			if isOwn && err != nil {
				kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
				continue
			}
			kit.OK(t, err, "PD.RegisterMR")
			try(what, kit.Own(t, mr, "MR").Region().Remote(0), b, n)
		}
		if !t.Claims().Has(ci.CapMW1) {
			continue
		}
		b := p.B.CA.Buf(p.B.PD, room, bindable|ci.RemoteAtomic)
		key := rebind(t, p.B, p.B.CA.MW(p.B.PD, ci.MWType1),
			ci.MWBind{MR: b.MR, Addr: b.Addr, Length: uint64(n), Access: ci.RemoteAtomic})
		try(fmt.Sprintf("a window of %d bytes", n), ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes, n)
	}
}

var _ = mrCases.Add("mr.memory.spread", "memory in many small extents, and with views of a part", func(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10))
	for _, x := range kit.Variants(t, "", []struct {
		what                  string
		piece, stride, viewed uint64
	}{
		{"extents of a byte", 1, 2, 4000}, {"extents of 7 bytes", 7, 16, 4000},
		{"views of the first 1000 bytes", 500, 512, 1000},
	}) {
		m := spreadMemory{b: kit.Pages(int(4000*x.stride/x.piece+x.stride), 4096), piece: x.piece, stride: x.stride}
		m.viewed = min(x.viewed, m.Len())
		if x.viewed == 4000 {
			m.viewed = m.Len()
		}
		kit.Random(t, m.b)
		mr, err := p.A.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
		if err != nil {
			kit.WantRefused(t, mr, err, "PD.RegisterMR of memory with "+x.what, ci.InvalidParameter)
			t.Note("memory with %s is rejected", x.what)
			continue
		}
		r := kit.Own(t, mr, "MR").Region()
		want := m.all()
		// 256 bytes and more in one segment, and a second segment behind them.
		for i, s := range []struct{ off, n, more int }{{0, 256, 8}, {3, 300, 8}, {0, 3990, 0}, {990, 20, 100},
			{0, 255, 1}} {
			what := fmt.Sprintf("%d bytes at %d of memory with %s, and %d others", s.n, s.off, x.what, s.more)
			wr := ci.SendWR{ID: uint64(i + 1), Op: ci.OpWrite, Flags: ci.SendSignaled, Remote: p.B.Buf.Remote(0),
				SGL: []ci.SGE{r.SGE(uint64(s.off), uint32(s.n))}}
			if s.more > 0 {
				wr.SGL = append(wr.SGL, p.A.Buf.SGE(100, uint32(s.more)))
			}
			p.B.Buf.Blank()
			p.A.Send(wr)
			p.A.CQ.WaitOK(wr.ID)
			p.Fence()
			p.B.Buf.WantOnly(t, what, 0, append(append([]byte(nil), want[s.off:s.off+s.n]...),
				p.A.Buf.Bytes[100:100+s.more]...))
		}
		// The other end reads from the memory, in packets of each size.
		at, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
		kit.OK(t, err, "PD.RegisterMR")
		kit.Own(t, at, "MR")
		for _, s := range []struct{ off, n int }{{0, 3990}, {3, 1}, {501, 3000}, {990, 300}} {
			what := fmt.Sprintf("READ of %d bytes at %d of memory with %s", s.n, s.off, x.what)
			p.A.Buf.Blank()
			p.A.Send(ci.SendWR{ID: 8, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: p.A.Buf.SGL(0, s.n),
				Remote: at.Region().Remote(uint64(s.off))})
			p.A.CQ.WaitOK(8)
			p.A.Buf.WantOnly(t, what, 0, want[s.off:s.off+s.n])
		}
		kit.Destroy(t, at, "MR")
		src := kit.Random(t, p.B.Buf.Bytes[:3000])
		into := ci.SendWR{ID: 9, Op: ci.OpRead, Flags: ci.SendSignaled, Remote: p.B.Buf.Remote(0),
			SGL: []ci.SGE{r.SGE(501, 3000)}}
		p.A.Send(into)
		p.A.CQ.WaitOK(9)
		copy(want[501:], src)
		kit.SameBytes(t, "memory with "+x.what+" after a READ of 3000 bytes into it", m.all(), want)
		back := p.A.Buf.Bytes[:3990]
		clear(p.B.Buf.Bytes)
		p.A.Send(ci.SendWR{ID: 10, Op: ci.OpWrite, Flags: ci.SendSignaled, Remote: p.B.Buf.Remote(0),
			SGL: []ci.SGE{r.SGE(0, 3990)}})
		p.A.CQ.WaitOK(10)
		p.Fence()
		copy(back, p.B.Buf.Bytes[:3990])
		kit.SameBytes(t, "bytes written from memory with "+x.what, back, want[:3990])
		kit.Destroy(t, mr, "MR")
	}
}, ciRegisterMR07)
