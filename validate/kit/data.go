package kit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// blank is what Blank writes: no pattern of Random is made of it alone.
const blank = 0xee

// MessageSizes are the lengths at which segmentation goes wrong: 0, 1, around one and two packets of mtu bytes, and the powers of two up to most.
func MessageSizes(mtu, most int) []int {
	sizes := []int{0, 1, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1}
	for n := 2; n <= most; n *= 2 {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	return slices.DeleteFunc(sizes, func(n int) bool { return n > most })
}

// PathMTU is the payload of a full packet between the ends, in bytes.
func (e *End) PathMTU() int { return e.Config.MTU.Bytes() }

// Random fills p with bytes that follow from the case's seed, eight at a time.
func Random(t *validate.T, p []byte) []byte {
	r := t.Rand()
	for i := 0; i < len(p); i += 8 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], r.Uint64())
		copy(p[i:], w[:])
	}
	return p
}

// Blank fills a buffer so that WantOnly sees what was written to it.
func (b *Buf) Blank() {
	for i := range b.Bytes {
		b.Bytes[i] = blank
	}
}

// WantOnly expects want at off, and everything else as Blank left it.
func (b *Buf) WantOnly(t *validate.T, where string, off int, want []byte) {
	SameBytes(t, where, b.Bytes[off:off+len(want)], want)
	for i, c := range b.Bytes {
		if c != blank && (i < off || i >= off+len(want)) {
			t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("nothing written outside of bytes %d to %d", off, off+len(want)),
				Got: fmt.Sprintf("byte %d of the buffer is %#02x", i, c)})
		}
	}
}

// WaitFlushed gives the next completions, which must be of these requests, in order, and flushed.
func (q *CQ) WaitFlushed(ids ...uint64) {
	for i, wc := range q.Wait(len(ids)) {
		if wc.ID != ids[i] || wc.Status != ci.WCFlushErr {
			q.T.Fail(validate.Failure{Where: fmt.Sprintf("completion %d of %d behind the error", i+1, len(ids)),
				Expected: fmt.Sprintf("request %d: %s", ids[i], ci.WCFlushErr.String()), Got: Completions([]ci.WC{wc})})
		}
	}
}

// Marks that Drained posts.
const (
	sendMark = 0x656e6401
	recvMark = 0x656e6402
)

// WantDrained expects that a QP in Error has no completion left: a request posted to each queue comes back flushed, and nothing before it. So
// completions that come twice, or late, are seen without waiting.
func (e *End) WantDrained() {
	e.QP.Send(ci.SendWR{ID: sendMark, Op: ci.OpSend, To: e.Dest})
	e.CQ.WaitFlushed(sendMark)
	if e.Config.SRQ == nil {
		e.QP.Recv(ci.RecvWR{ID: recvMark})
		e.RecvCQ.WaitFlushed(recvMark)
	}
}

// Becomes waits until the QP is in the state: a completion may be seen a moment before the state that goes with it.
func (q *QP) Becomes(want ci.QPState) {
	t := q.CA.T
	deadline := time.NewTimer(t.Remaining())
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for {
		got := q.State()
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fail(validate.Failure{Where: fmt.Sprintf("state of QP %#x", uint32(q.Num())), Expected: want.String(), Got: got.String()})
		}
	}
}

// WantTaken expects what a post of a list answered: so many requests taken, and for a list not taken whole one of the statuses.
func WantTaken(t *validate.T, where string, n int, err error, want int, status ...ci.Status) {
	if len(status) == 0 {
		OK(t, err, where)
	} else {
		WantExactly(t, err, where, status...)
	}
	Equal(t, "requests taken by "+where, n, want)
}

// WantRecv expects a successful receive, field by field, as far as the service defines them. Fields of want that are zero must be zero.
func WantRecv(t *validate.T, where string, got, want ci.WC) {
	Equal(t, where+": ID", got.ID, want.ID)
	Equal(t, where+": Status", got.Status.String(), ci.WCSuccess.String())
	Equal(t, where+": Op", got.Op, want.Op)
	Equal(t, where+": Length", got.Length, want.Length)
	Equal(t, where+": QPN", got.QPN, want.QPN)
	Equal(t, where+": Flags", got.Flags&^ci.WCChecksumOK, want.Flags)
	if want.Flags&(ci.WCImmediate|ci.WCInvalidated) != 0 {
		Equal(t, where+": Imm", fmt.Sprintf("%#x", got.Imm), fmt.Sprintf("%#x", want.Imm))
	}
	True(t, got.Context == want.Context, where+": Context", "the context given at create", "%v", got.Context)
}

// WaitWord spins on the aligned word at off until it has the value wanted: for memory that a peer writes without a completion here.
func (b *Buf) WaitWord(t *validate.T, off int, want uint64) {
	deadline := time.NewTimer(t.Remaining())
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for {
		got := LoadWord(b.Bytes[off:])
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fail(validate.Failure{Where: fmt.Sprintf("word at byte %d of the target, read with sync/atomic", off),
				Expected: fmt.Sprintf("%#x", want), Got: fmt.Sprintf("%#x by the deadline", got)})
		}
	}
}

// Options completes a configuration for ends on these adapters, as the constructors of pairs do: for cases that build their own.
func Options(a, b *CA, opts ...Option) Config { return config(opts, a, b) }

// Another makes a pair on p's adapters with options of its own, PDs of its own too, connected. The service is p's if no option names another.
func (p *Pair) Another(opts ...Option) *Pair {
	n := p.AnotherInReset(opts...)
	n.Connect()
	return n
}

// AnotherInReset is Another with the QPs left in Reset.
func (p *Pair) AnotherInReset(opts ...Option) *Pair {
	a, b := p.A.QP.CA, p.B.QP.CA
	c := config(append([]Option{Type(p.A.Config.Type)}, opts...), a, b)
	return &Pair{A: a.End(c), B: b.End(c)}
}

// Connect takes both ends from Reset to RTS, with address vectors for each other where the service has them.
func (p *Pair) Connect() {
	Connect(p.A.QP, p.B.QP)
	p.Address()
}

// Address makes the address vectors of a datagram pair that a case takes to RTS itself.
func (p *Pair) Address() {
	if p.A.Config.Type == ci.UD {
		p.A.address(p.B)
		p.B.address(p.A)
	}
}
