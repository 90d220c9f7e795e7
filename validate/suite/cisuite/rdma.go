package cisuite

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// rdmaCases are the cases of RDMA WRITE and READ on reliable connections. (IBTA 9.4.3, 9.4.4, 9.5, 9.7.)
var rdmaCases = &validate.Area{Feature: validate.FeatureRC}

var ibta9_4_01 = rdmaCases.Must("IBTA-9.4-01", "IBTA 9.4.3", "RDMA WRITE",
	"An RDMA WRITE of any length writes its bytes to the given address, and nothing else is written.")

var _ = rdmaCases.Add("rdma.write.sizes", "writes of 0 bytes to 1 MiB, around packet boundaries", func(t *validate.T) {
	maxSize := int(min(1<<20, t.Attr().MaxMRSize, t.Attr().Ports[0].MaxMsgSize))
	p := kit.RC(t, kit.Size(maxSize))
	kit.Random(t, p.A.Buf.Bytes)
	p.B.Buf.Blank()
	for i, n := range kit.Variants(t, "bytes", kit.MessageSizes(p.A.PathMTU(), maxSize)) {
		id, at := uint64(i+1), (i*13)%(maxSize-n+1)
		p.A.Send(p.A.RDMA(ci.OpWrite, id, maxSize-n, n, p.B, at))
		p.A.CQ.WaitOK(id)
		p.B.Recv(p.B.RecvWR(id, 0, 0)) // after an empty message the target may be read
		p.A.Send(p.A.SendWR(id, 0, 0))
		p.A.CQ.WaitOK(id)
		p.B.RecvCQ.WaitOK(id)
		where := fmt.Sprintf("target of a write of %d bytes", n)
		if n <= 4096 || n == maxSize {
			p.B.Buf.WantOnly(t, where, at, p.A.Buf.Bytes[maxSize-n:])
		} else {
			kit.SameBytes(t, where, p.B.Buf.Bytes[at:at+n], p.A.Buf.Bytes[maxSize-n:])
		}
		for j := at; j < at+n; j++ {
			p.B.Buf.Bytes[j] = 0xee
		}
	}
}, ibta9_4_01)

// settle sends an empty message after the requests that A has posted and waits for it at B. Then B may read what was
// written.
func settle(p *kit.Pair) {
	const id = 0x736574
	p.B.Recv(ci.RecvWR{ID: id})
	p.A.Send(ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled})
	p.A.CQ.WaitOK(id)
	p.B.RecvCQ.WaitOK(id)
}

var _ = rdmaCases.Add("rdma.write.gather", "a write gathered from uneven segments", func(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10))
	kit.Random(t, p.A.Buf.Bytes)
	for _, n := range kit.Variants(t, "bytes", []int{64, p.A.PathMTU() + 17, 5000}) {
		off, length := pieces(n)
		w := ci.SendWR{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled, Remote: p.B.Buf.Remote(333)}
		var want []byte
		for k := range min(len(off), p.A.Config.Caps.SendSGE) {
			w.SGL = append(w.SGL, p.A.Buf.SGE(uint64(off[k]), uint32(length[k])))
			want = append(want, p.A.Buf.Bytes[off[k]:off[k]+length[k]]...)
		}
		p.B.Buf.Blank()
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		settle(p)
		p.B.Buf.WantOnly(t, fmt.Sprintf("target of a write from segments of %d bytes", length), 333, want)
	}
}, ibta9_4_01, ciPostSend01)

var _ = rdmaCases.Add("rdma.write.silent", "a write uses no receive", func(t *validate.T) {
	p := kit.RC(t)
	p.B.Buf.Blank()
	kit.Random(t, p.A.Buf.Bytes[:3000])
	p.B.Recv(p.B.RecvWR(1, 8192, 64), p.B.RecvWR(2, 9000, 64))
	for i := range 5 {
		p.A.Send(p.A.RDMA(ci.OpWrite, uint64(i), 0, 600*i, p.B, 0))
		p.A.CQ.WaitOK(uint64(i))
	}
	p.B.RecvCQ.Empty()
	for id := uint64(1); id <= 2; id++ { // both receives are still posted
		p.A.Send(p.A.SendWR(id, 0, 5))
		p.A.CQ.WaitOK(id)
		kit.Equal(t, "Op of a receive after the writes", p.B.RecvCQ.WaitOK(id)[0].Op, ci.WCRecv)
	}
	p.B.RecvCQ.Empty()
}, rdmaCases.Must("IBTA-9.4-02", "IBTA 9.4.3", "RDMA WRITE",
	"An RDMA WRITE without immediate data uses no receive and causes no completion at its target."))

var ibta9_4_03 = rdmaCases.Must("IBTA-9.4-03", "IBTA 9.4.3", "RDMA WRITE with immediate",
	"An RDMA WRITE with immediate data uses one receive. Its completion has the number of bytes written, and its "+
		"segments are not written.")

var _ = rdmaCases.Add("rdma.write.immediate", "a write with immediate data uses one receive", func(t *validate.T) {
	p := kit.RC(t)
	kit.Random(t, p.A.Buf.Bytes)
	mtu := p.A.PathMTU()
	for i, n := range kit.Variants(t, "bytes", []int{0, 1, 100, mtu, mtu + 1, 3*mtu + 5}) {
		id, imm := uint64(i+1), 0x01020304*uint32(i+1)
		w := p.A.RDMA(ci.OpWrite, id, 0, n, p.B, 1024)
		w.Flags |= ci.SendImmediate
		w.Imm = imm
		p.B.Buf.Blank()
		p.B.Recv(p.B.RecvWR(id, 0, 64)) // shorter than some of the writes, since its segments are not used
		p.A.Send(w)
		p.A.CQ.WaitOK(id)
		wc := p.B.RecvCQ.WaitOK(id)[0]
		where := fmt.Sprintf("receive used by a write of %d bytes with immediate data", n)
		kit.Equal(t, where+": Op", wc.Op, ci.WCRecvWrite)
		kit.Equal(t, where+": Length", wc.Length, uint32(n))
		kit.Equal(t, where+": Imm", fmt.Sprintf("%08x", wc.Imm), fmt.Sprintf("%08x", imm))
		kit.Equal(t, where+": Flags", wc.Flags, ci.WCImmediate)
		p.B.Buf.WantOnly(t, "target of a write with immediate data", 1024, p.A.Buf.Bytes[:n])
	}
	w := p.A.RDMA(ci.OpWrite, 50, 0, 0, p.B, 0)
	w.Flags |= ci.SendImmediate
	p.B.Recv(ci.RecvWR{ID: 50}) // without segments
	p.A.Send(w)
	p.A.CQ.WaitOK(50)
	p.B.RecvCQ.WaitOK(50)
}, ibta9_4_03)

var ciMemory01 = rdmaCases.Must("CI-Memory-01", "CI memory model", "package ci, Memory model",
	"When the new last word of a WRITE is visible to a load of sync/atomic, the whole WRITE is visible.")

var _ = rdmaCases.Add("rdma.write.last-word", "wait for the last word of a write", func(t *validate.T) {
	const n = 8192
	p := kit.RC(t, kit.Size(n))
	for round := 1; round <= 30; round++ {
		msg := p.A.Buf.Bytes
		for i := 0; i < n; i += 8 {
			kit.StoreWord(msg[i:], uint64(round)<<32|uint64(i))
		}
		p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, n, p.B, 0))
		p.B.Buf.WaitWord(t, n-8, uint64(round)<<32|(n-8))
		for i := 0; i < n; i += 8 {
			if got, want := kit.LoadWord(p.B.Buf.Bytes[i:]), uint64(round)<<32|uint64(i); got != want {
				t.Failf(fmt.Sprintf("word at byte %d of a write whose last word is visible", i),
					fmt.Sprintf("%#x", want), "%#x", got)
			}
		}
		p.A.CQ.WaitOK(1)
	}
}, ciMemory01)

// The case has a goroutine wait for the last word of each WRITE. WRITEs begin and end at odd and even words. The
// goroutine sees a word that is stored behind the last one only if it looks in that moment, so there are many WRITEs:
// as many as a busy machine executes in a short time.
var _ = rdmaCases.Add("rdma.write.last-word.spin",
	"short writes to memory that a goroutine reads without a pause", func(t *validate.T) {
		const rounds, most = 300, 50 * time.Millisecond
		p := kit.RC(t, kit.Size(4096))
		round := uint64(0)
		for _, x := range kit.Variants(t, "", []struct{ off, n int }{{0, 16}, {8, 16}, {0, 24}, {8, 40}}) {
			msg, to := p.A.Buf.Bytes[:x.n], p.B.Buf.Bytes[x.off:x.off+x.n]
			first, began := round+1, time.Now()
			var seen, torn atomic.Uint64
			var isOver atomic.Bool
			done := make(chan struct{})
			t.Go(func() {
				defer close(done)
				for r := first; r < first+rounds; r++ {
					for i := 0; kit.LoadWord(to[x.n-8:]) != r; i++ {
						if isOver.Load() {
							return
						}
						if i%1024 == 1023 {
							runtime.Gosched()
						}
					}
					for i := x.n - 16; i >= 0; i -= 8 {
						if kit.LoadWord(to[i:]) != r {
							torn.Store(r)
						}
					}
					seen.Store(r)
				}
			})
			for i := 0; i < rounds && time.Since(began) < most; i++ {
				round++
				for i := 0; i < x.n; i += 8 {
					kit.StoreWord(msg[i:], round)
				}
				p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, x.n, p.B, x.off))
				p.A.CQ.WaitOK(1)
				for seen.Load() < round && t.Context().Err() == nil {
					runtime.Gosched()
				}
			}
			isOver.Store(true)
			<-done
			kit.True(t, torn.Load() == 0, fmt.Sprintf("words of a WRITE of %d bytes whose last word is visible", x.n),
				"all of the same WRITE", "another one before the last, in WRITE %d", torn.Load())
		}
	}, ciMemory01)

var ibta9_4_04 = rdmaCases.Must("IBTA-9.4-04", "IBTA 9.4.4", "RDMA READ",
	"An RDMA READ of any length returns the bytes at the given address, and nothing else is written.")

var _ = rdmaCases.Add("rdma.read.sizes", "reads of 0 bytes to 1 MiB, around packet boundaries", func(t *validate.T) {
	maxSize := int(min(1<<20, t.Attr().MaxMRSize, t.Attr().Ports[0].MaxMsgSize))
	p := kit.RC(t, kit.Size(maxSize))
	kit.Random(t, p.B.Buf.Bytes)
	p.A.Buf.Blank()
	for i, n := range kit.Variants(t, "bytes", kit.MessageSizes(p.A.PathMTU(), maxSize)) {
		id, at := uint64(i+1), (i*13)%(maxSize-n+1)
		p.A.Send(p.A.RDMA(ci.OpRead, id, at, n, p.B, maxSize-n))
		wc := p.A.CQ.WaitOK(id)[0]
		where := fmt.Sprintf("read of %d bytes", n)
		kit.Equal(t, where+": Length", wc.Length, uint32(n))
		if n <= 4096 || n == maxSize {
			p.A.Buf.WantOnly(t, where, at, p.B.Buf.Bytes[maxSize-n:])
		} else {
			kit.SameBytes(t, where, p.A.Buf.Bytes[at:at+n], p.B.Buf.Bytes[maxSize-n:])
		}
		for j := at; j < at+n; j++ {
			p.A.Buf.Bytes[j] = 0xee
		}
	}
}, ibta9_4_04)

var _ = rdmaCases.Add("rdma.read.scatter", "a read into uneven segments", func(t *validate.T) {
	sges := min(4, t.Attr().MaxReadSGEs)
	p := kit.RC(t, kit.Size(16<<10), kit.SGEs(sges))
	kit.Random(t, p.B.Buf.Bytes)
	for _, n := range kit.Variants(t, "bytes", []int{64, p.A.PathMTU() + 17, 5000}) {
		off, length := pieces(n)
		w := ci.SendWR{ID: 1, Op: ci.OpRead, Flags: ci.SendSignaled, Remote: p.B.Buf.Remote(77)}
		p.A.Buf.Blank()
		want := append([]byte(nil), p.A.Buf.Bytes...)
		from := p.B.Buf.Bytes[77:]
		for k := range sges {
			w.SGL = append(w.SGL, p.A.Buf.SGE(uint64(off[k]), uint32(length[k])))
			from = from[copy(want[off[k]:off[k]+length[k]], from):]
		}
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		kit.SameBytes(t, fmt.Sprintf("buffer of a read into segments of %d bytes", length), p.A.Buf.Bytes, want)
	}
}, rdmaCases.Must("IBTA-9.4-05", "IBTA 9.4.4", "RDMA READ",
	"The bytes of a READ fill its segments in their order. Empty ones are skipped."))

var ibta9_4_06 = rdmaCases.Must("IBTA-9.4-06", "IBTA 9.4.4", "initiator depth",
	"Reads beyond the QP's initiator depth wait for earlier ones, and none of them fails. Those of a QP with "+
		"depth 0 complete as well, with a local operation error if the adapter does not execute them.")

var _ = rdmaCases.Add("rdma.read.depth", "16 reads with initiator depth 1", func(t *validate.T) {
	const n, size = 16, 1500
	p := kit.RC(t, kit.Depth(n), kit.Reads(1, 1))
	kit.Random(t, p.B.Buf.Bytes[:n*size])
	var wrs []ci.SendWR
	for i := range n {
		wrs = append(wrs, p.A.RDMA(ci.OpRead, uint64(i+1), i*size, size, p.B, i*size))
	}
	p.A.Send(wrs...)
	p.A.CQ.WaitOK(ids(1, n)...)
	kit.SameBytes(t, "bytes of 16 reads", p.A.Buf.Bytes[:n*size], p.B.Buf.Bytes[:n*size])
	p.A.WantState(ci.QPRTS)
}, ibta9_4_06)

var _ = rdmaCases.Add("rdma.read.many", "reads with the largest depth of both ends", func(t *validate.T) {
	a := t.Attr()
	deep := uint8(min(a.MaxInitDepthPerQP, a.MaxRespResPerQP, 255))
	n := 2*int(deep) + 1
	n = min(n, a.MaxWRs, 128)
	const size = 300
	p := kit.RC(t, kit.Depth(n), kit.Reads(deep, deep), kit.Size(n*size))
	kit.Random(t, p.B.Buf.Bytes)
	var wrs []ci.SendWR
	for i := range n {
		wrs = append(wrs, p.A.RDMA(ci.OpRead, uint64(i+1), i*size, size, p.B, (n-1-i)*size))
	}
	p.A.Send(wrs...)
	p.A.CQ.WaitOK(ids(1, uint64(n))...)
	for i := range n {
		kit.SameBytes(t, fmt.Sprintf("read %d of %d", i+1, n), p.A.Buf.Bytes[i*size:(i+1)*size],
			p.B.Buf.Bytes[(n-1-i)*size:(n-i)*size])
	}
}, ibta9_4_06, ibta9_4_04)

var _ = rdmaCases.Add("rdma.zero", "writes and reads of no bytes with keys that do not exist", func(t *validate.T) {
	p := kit.RC(t)
	for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpWrite, ci.OpRead}) {
		for _, sgl := range [][]ci.SGE{nil, p.A.Buf.SGL(0, 0)} {
			p.A.Send(ci.SendWR{
				ID:     1,
				Op:     op,
				Flags:  ci.SendSignaled,
				SGL:    sgl,
				Remote: ci.Remote{Addr: 0xdead0000, RKey: p.B.Buf.RKey ^ 0x123400},
			})
			p.A.CQ.WaitOK(1)
		}
	}
	p.A.Exchange(p.B, 10)
}, rdmaCases.Must("IBTA-9.4-07", "IBTA 9.7.4", "R_Key check",
	"The key and address of an RDMA request of no bytes are not checked."))

var _ = rdmaCases.Add("rdma.order.write-send", "a write and a send", func(t *validate.T) {
	const n = 20000
	p := kit.RC(t, kit.Size(2*n))
	for round := range 25 {
		msg := kit.Random(t, p.A.Buf.Bytes[:n])
		p.B.Recv(p.B.RecvWR(1, n, 4))
		w := p.A.RDMA(ci.OpWrite, 1, 0, n, p.B, 0)
		w.Flags = 0
		p.A.Send(w, p.A.SendWR(2, 0, 4))
		p.B.RecvCQ.WaitOK(1) // before the sender's completion
		kit.SameBytes(t, fmt.Sprintf("target of a write after the receive of a later message, round %d", round+1),
			p.B.Buf.Bytes[:n], msg)
		p.A.CQ.WaitOK(2)
	}
}, rdmaCases.Must("IBTA-9.5-01", "IBTA 9.5", "ordering",
	"The data of a WRITE are visible when the receive of a later SEND has been polled."))

var _ = rdmaCases.Add("rdma.order.write-write", "writes to the same place", func(t *validate.T) {
	const n, size = 12, 3000
	p := kit.RC(t)
	for range 5 {
		kit.Random(t, p.A.Buf.Bytes)
		var wrs []ci.SendWR
		for i := range n {
			wrs = append(wrs, p.A.RDMA(ci.OpWrite, uint64(i+1), i*size, size, p.B, 0))
		}
		p.A.Send(wrs...)
		p.A.CQ.WaitOK(ids(1, n)...)
		settle(p)
		kit.SameBytes(t, "target of 12 writes", p.B.Buf.Bytes[:size], p.A.Buf.Bytes[(n-1)*size:n*size])
	}
}, rdmaCases.Must("IBTA-9.5-02", "IBTA 9.5", "ordering",
	"WRITEs of one queue to one place are executed in the order of their posts."))

var _ = rdmaCases.Add("rdma.order.write-read", "a write and a read of its target", func(t *validate.T) {
	const size = 4000
	p := kit.RC(t)
	for range 10 {
		msg := kit.Random(t, p.A.Buf.Bytes[:size])
		p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, size, p.B, 100), p.A.RDMA(ci.OpRead, 2, 2*size, size, p.B, 100))
		p.A.CQ.WaitOK(1, 2)
		kit.SameBytes(t, "data of a read after a write to the same place", p.A.Buf.Bytes[2*size:3*size], msg)
	}
}, rdmaCases.Must("IBTA-9.5-03", "IBTA 9.5", "ordering",
	"A READ returns the data of earlier WRITEs of the same queue."))

var _ = rdmaCases.Add("rdma.rights", "each operation with only the access right that it needs", func(t *validate.T) {
	first := kit.RC(t)
	for _, x := range kit.Variants(t, "", []struct {
		op     ci.SendOp
		right  ci.Access
		region ci.Access // a region for remote reads needs no LocalWrite (IBTA 10.6.3.1)
	}{
		{ci.OpWrite, ci.RemoteWrite, ci.RemoteWrite | ci.LocalWrite},
		{ci.OpRead, ci.RemoteRead, ci.RemoteRead},
		{ci.OpFetchAdd, ci.RemoteAtomic, ci.RemoteAtomic | ci.LocalWrite},
	}) {
		if x.op == ci.OpFetchAdd && t.Attr().Atomicity == ci.AtomicNone {
			continue
		}
		p := first.Another(kit.With(func(c *kit.Config) { c.Access, c.BufAccess = x.right, x.region }), kit.Size(8))
		target := kit.Random(t, append([]byte(nil), p.B.Buf.Bytes...))
		mine := first.A.QP.CA.Buf(p.A.PD, 8, kit.AllAccess)
		w := ci.SendWR{ID: 1, Op: x.op, Flags: ci.SendSignaled, SGL: mine.SGL(0, 8), Remote: p.B.Buf.Remote(0)}
		copy(p.B.Buf.Bytes, target)
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		settle(p)
		if x.op == ci.OpWrite {
			kit.SameBytes(t, "target of a write with only the right for remote write", p.B.Buf.Bytes, mine.Bytes)
		} else {
			kit.SameBytes(t, fmt.Sprintf("result of operation %d with only the access right that it needs", x.op),
				mine.Bytes, target)
		}
	}
}, rdmaCases.Must("CI-Rights-01", "IBTA 10.6.3", "access rights",
	"An operation needs only its own remote access right, on the region and on the QP."))
