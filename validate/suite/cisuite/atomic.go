package cisuite

import (
	"encoding/binary"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// atomicCases are the cases of compare-and-swap and fetch-and-add. (IBTA 9.4.5, 10.7.2.3.)
var atomicCases = &validate.Area{Feature: validate.FeatureAtomic, Needs: validate.Needs{Atomics: ci.AtomicLocal}}

var ciAtomic02 = atomicCases.Must("CI-Atomic-02", "IBTA 10.7.2", "AtomicGlobal",
	"If AtomicGlobal is claimed, remote atomics and sync/atomic operations of the host lose no update of each "+
		"other.")

var _ = atomicCases.Case(validate.Case{
	ID:      "atomic.with-host",
	Title:   "fetch-and-add of 4 QPs and of this processor",
	Feature: validate.FeatureAtomic,
	Needs:   validate.Needs{Atomics: ci.AtomicGlobal},
	Timeout: 20 * time.Second, // on a busy machine the adapter and the processor seldom run at the same time
	Run:     addsWithHost,
}, ciAtomic02)

var _ = atomicCases.Case(validate.Case{
	ID:      "atomic.swap-with-host",
	Title:   "compare-and-swap of 4 QPs and of this processor",
	Feature: validate.FeatureAtomic,
	Needs:   validate.Needs{Atomics: ci.AtomicGlobal},
	Timeout: 20 * time.Second, // on a busy machine the adapter and the processor seldom run at the same time
	Run:     swapsWithHost,
}, ciAtomic02)

// wordAt returns the word at an offset of a buffer, in host byte order.
func wordAt(b *kit.Buf, off int) uint64 { return binary.NativeEndian.Uint64(b.Bytes[off:]) }

func setWord(b *kit.Buf, off int, v uint64) { binary.NativeEndian.PutUint64(b.Bytes[off:], v) }

// atomicOp returns a signaled atomic on the word at roff of B's buffer. Its result is written to offset off of A's
// buffer.
func atomicOp(p *kit.Pair, op ci.SendOp, id uint64, off, roff int, compare, swap uint64) ci.SendWR {
	w := p.A.RDMA(op, id, off, 8, p.B, roff)
	w.Atomic = ci.Atomic{Compare: compare, Swap: swap}
	return w
}

var ibta9_4_10 = atomicCases.Must("IBTA-9.4-10", "IBTA 9.4.5", "CmpSwap",
	"A compare-and-swap stores the new value exactly if the word equals the compare value. It returns the "+
		"original value of the word.")

var _ = atomicCases.Add("atomic.cas",
	"compare-and-swap with an equal and a different compare value", func(t *validate.T) {
		p := kit.RC(t)
		for i, x := range kit.Variants(t, "", []struct{ word, compare, swap, after uint64 }{
			{5, 5, 9, 9},
			{5, 6, 9, 5},
			{0x0102030405060708, 0x0102030405060708, 0xf1f2f3f4f5f6f7f8, 0xf1f2f3f4f5f6f7f8},
			{0x0102030405060708, 0x0807060504030201, 1, 0x0102030405060708},
			{1 << 32, 0, 7, 1 << 32}, // all 64 bits are compared
			{0, 0, ^uint64(0), ^uint64(0)},
		}) {
			p.A.Buf.Blank()
			p.B.Buf.Blank()
			setWord(p.B.Buf, 64, x.word)
			p.A.Send(atomicOp(p, ci.OpCompareSwap, 1, 128, 64, x.compare, x.swap))
			p.A.CQ.WaitOK(1)
			settle(p)
			where := fmt.Sprintf("CAS %d of word %#x, compare %#x, swap %#x: ", i+1, x.word, x.compare, x.swap)
			kit.Equal(t, where+"original value", wordAt(p.A.Buf, 128), x.word)
			kit.Equal(t, where+"word", wordAt(p.B.Buf, 64), x.after)
			kit.Equal(t, where+"word before it", wordAt(p.B.Buf, 56), 0xeeeeeeeeeeeeeeee)
			kit.Equal(t, where+"word after it", wordAt(p.B.Buf, 72), 0xeeeeeeeeeeeeeeee)
			kit.Equal(t, where+"word after the result", wordAt(p.A.Buf, 136), 0xeeeeeeeeeeeeeeee)
		}
	}, ibta9_4_10)

var ibta9_4_11 = atomicCases.Must("IBTA-9.4-11", "IBTA 9.4.5", "FetchAdd",
	"A fetch-and-add adds modulo 2^64 and returns the original value of the word.")

var _ = atomicCases.Add("atomic.faa", "fetch-and-add, also with overflow", func(t *validate.T) {
	p := kit.RC(t)
	for i, x := range kit.Variants(t, "",
		[]struct{ word, add uint64 }{{0, 1}, {7, 0}, {0xffffffff, 1}, {^uint64(0), 2}, {10, ^uint64(0)},
			{1 << 63, 1 << 63}}) {
		p.A.Buf.Blank()
		setWord(p.B.Buf, 8, x.word)
		w := atomicOp(p, ci.OpFetchAdd, 1, 0, 8, x.add, 0x5555)
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		settle(p)
		where := fmt.Sprintf("FAA %d of %#x to %#x: ", i+1, x.add, x.word)
		p.A.Buf.WantOnly(t, where+"original value", 0, binary.NativeEndian.AppendUint64(nil, x.word))
		kit.Equal(t, where+"word", wordAt(p.B.Buf, 8), x.word+x.add)
	}
}, ibta9_4_11)

var _ = atomicCases.Add("atomic.native-order", "byte order in memory", func(t *validate.T) {
	p := kit.RC(t)
	setWord(p.B.Buf, 0, 0x0102030405060700)
	p.A.Send(atomicOp(p, ci.OpFetchAdd, 1, 0, 0, 8, 0),
		atomicOp(p, ci.OpCompareSwap, 2, 8, 0, 0x0102030405060708, 0x1112131415161718))
	p.A.CQ.WaitOK(1, 2)
	settle(p)
	image := func(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
	kit.SameBytes(t, "result of the fetch-and-add in memory", p.A.Buf.Bytes[:8], image(0x0102030405060700))
	kit.SameBytes(t, "result of the compare-and-swap in memory", p.A.Buf.Bytes[8:16], image(0x0102030405060708))
	kit.SameBytes(t, "word of the peer in memory", p.B.Buf.Bytes[:8], image(0x1112131415161718))
}, atomicCases.Must("CI-Atomic-01", "CI memory model", "package ci, Atomic; D-59",
	"Operands and results of atomics are in memory in the byte order of the host, at both ends."))

var _ = atomicCases.Add("atomic.wc", "the completion", func(t *validate.T) {
	p := kit.RC(t)
	p.A.Send(atomicOp(p, ci.OpFetchAdd, 1, 0, 0, 1, 0), atomicOp(p, ci.OpCompareSwap, 2, 0, 0, 1, 5))
	wcs := p.A.CQ.WaitOK(1, 2)
	for i, want := range kit.Variants(t, "", []ci.WCOp{ci.WCFetchAdd, ci.WCCompareSwap}) {
		kit.Equal(t, "Op of an atomic's completion", wcs[i].Op, want)
		kit.Equal(t, "Length of an atomic's completion", wcs[i].Length, 8)
	}
}, atomicCases.Must("CI-Atomic-03", "IBTA 11.4.2.1", "ci_poll_cq (59)",
	"The completion of an atomic has its operation and a length of 8."))

var ibta9_4_13 = atomicCases.Must("IBTA-9.4-13", "IBTA 9.4.5", "alignment",
	"An atomic at an address that is not a multiple of 8 completes with remote invalid request and changes "+
		"nothing.")

var _ = atomicCases.Add("atomic.misaligned", "addresses that are not a multiple of 8", func(t *validate.T) {
	first := kit.RC(t)
	for i, off := range kit.Variants(t, "offset", []int{1, 4, 7}) {
		p := first
		if i > 0 {
			p = first.More(false)
		}
		p.B.Buf.Blank()
		n, err := p.A.PostSend([]ci.SendWR{atomicOp(p, ci.OpFetchAdd, 1, 0, off, 1, 0)})
		if ci.StatusOf(err) == ci.InvalidParameter && n == 0 {
			t.Note("the request is rejected when it is posted")
			p.A.Exchange(p.B, 20)
			continue
		}
		kit.WantTaken(t, "QP.PostSend", n, err, 1)
		p.A.CQ.WaitStatus(1, ci.WCRemInvalidReqErr) // not an access error: IBTA 9.4.5, D-75
		p.A.Becomes(ci.QPError)
		p.B.Becomes(ci.QPError)
		p.B.Buf.WantOnly(t, "target of the rejected atomic", 0, nil)
	}
}, ibta9_4_13)

var _ = atomicCases.Add("atomic.after-write", "an atomic after a WRITE of the word", func(t *validate.T) {
	p := kit.RC(t)
	for i := range uint64(10) {
		setWord(p.A.Buf, 0, 1000*i)
		p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, 8, p.B, 0), atomicOp(p, ci.OpFetchAdd, 2, 8, 0, i, 0),
			p.A.RDMA(ci.OpRead, 3, 16, 8, p.B, 0))
		p.A.CQ.WaitOK(1, 2, 3)
		kit.Equal(t, "original value after a WRITE", wordAt(p.A.Buf, 8), 1000*i)
		kit.Equal(t, "result of a READ after an atomic", wordAt(p.A.Buf, 16), 1001*i)
	}
}, atomicCases.Must("IBTA-9.4-14", "IBTA 9.7.5", "duplicates",
	"An atomic is executed in the order of its queue, after the WRITEs before it."))

var ibta9_4_12 = atomicCases.Must("IBTA-9.4-12", "IBTA 9.4.5", "atomicity",
	"Atomics of many QPs on one word lose no update, and each returns a different original value.")

var _ = atomicCases.Add("atomic.concurrent", "fetch-and-add of 4 QPs on one word", func(t *validate.T) {
	const qps, each = 4, 60
	first := kit.RC(t, kit.Depth(each))
	pairs := []*kit.Pair{first}
	for len(pairs) < qps {
		pairs = append(pairs, first.More(false))
	}
	for _, p := range pairs { // all requests are outstanding at the same time
		var wrs []ci.SendWR
		for k := range each {
			w := atomicOp(p, ci.OpFetchAdd, uint64(k+1), 8*k, 0, 1, 0)
			w.Remote = first.B.Buf.Remote(0)
			wrs = append(wrs, w)
		}
		p.A.Send(wrs...)
	}
	seen := map[uint64]bool{}
	for i, p := range pairs {
		p.A.CQ.WaitOK(ids(1, each)...)
		last := uint64(0)
		for k := range each {
			v := wordAt(p.A.Buf, 8*k)
			kit.True(t, v < qps*each && !seen[v], fmt.Sprintf("original value %d of QP %d", k+1, i+1),
				"a value below 240 that no other atomic returned", "%d", v)
			kit.True(t, k == 0 || v > last, fmt.Sprintf("original value %d of QP %d", k+1, i+1),
				fmt.Sprintf("more than %d, that of the atomic before it", last), "%d", v)
			seen[v], last = true, v
		}
	}
	settle(first)
	kit.Equal(t, "word after 240 increments by 4 QPs", kit.LoadWord(first.B.Buf.Bytes), qps*each)
}, ibta9_4_12)

var _ = atomicCases.Add("atomic.lock", "compare-and-swap of 3 QPs on one word", func(t *validate.T) {
	const qps, each = 3, 25
	first := kit.RC(t)
	pairs := []*kit.Pair{first}
	for len(pairs) < qps {
		pairs = append(pairs, first.More(false))
	}
	// Each QP increments the word by compare-and-swap and retries until it has succeeded 25 times. All swaps of a round
	// are posted before any result is read.
	won, tries := make([]int, qps), 0
	guess := make([]uint64, qps)
	for total := 0; total < qps*each; {
		for i, p := range pairs {
			w := atomicOp(p, ci.OpCompareSwap, 1, 0, 0, guess[i], guess[i]+1)
			w.Remote = first.B.Buf.Remote(0)
			p.A.Send(w)
		}
		for i, p := range pairs {
			p.A.CQ.WaitOK(1)
			old := wordAt(p.A.Buf, 0)
			if old == guess[i] {
				won[i]++
				total++
				guess[i]++
			} else {
				kit.True(t, old > guess[i], "original value of a swap that did not match",
					fmt.Sprintf("more than %d, the last one returned to this QP", guess[i]), "%d", old)
				guess[i] = old
			}
		}
		if tries++; tries > 100*qps*each {
			t.Failf("compare-and-swap by 3 QPs", "at least one increment per 100 rounds",
				"%d of %d increments after %d rounds", total, qps*each, tries)
		}
		settle(first)
		kit.Equal(t, "word", kit.LoadWord(first.B.Buf.Bytes), uint64(total))
	}
	t.Logf("increments by QP: %d in %d rounds", won, tries)
}, ibta9_4_12, ibta9_4_10)

var _ = atomicCases.Add("atomic.depth", "32 atomics at initiator depth 1", func(t *validate.T) {
	const n = 32
	p := kit.RC(t, kit.Depth(n), kit.Reads(1, 1))
	var wrs []ci.SendWR
	for i := range n {
		wrs = append(wrs, atomicOp(p, ci.OpFetchAdd, uint64(i+1), 8*i, 0, 3, 0))
	}
	p.A.Send(wrs...)
	p.A.CQ.WaitOK(ids(1, n)...)
	for i := range n {
		kit.Equal(t, fmt.Sprintf("original value %d", i+1), wordAt(p.A.Buf, 8*i), uint64(3*i))
	}
}, ibta9_4_11, ibta9_4_06)
