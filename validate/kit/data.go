package kit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// blank is the byte that Blank writes.
const blank = 0xee

// MessageSizes returns lengths up to most at which segmentation is likely to go wrong: 0, 1, around one and two packets
// of mtu bytes, and the powers of two.
func MessageSizes(mtu, most int) []int {
	sizes := []int{0, 1, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1}
	for n := 2; n <= most; n *= 2 {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	return slices.DeleteFunc(sizes, func(n int) bool { return n > most })
}

// PathMTU returns the payload of a full packet between the ends, in bytes.
func (e *End) PathMTU() int { return e.Config.MTU.Bytes() }

// Random fills p with random bytes that follow from the case's seed, and returns p.
func Random(t *validate.T, p []byte) []byte {
	r := t.Rand()
	for i := 0; i < len(p); i += 8 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], r.Uint64())
		copy(p[i:], w[:])
	}
	return p
}

// Blank fills the buffer with a byte that WantOnly recognizes as not written.
func (b *Buf) Blank() {
	for i := range b.Bytes {
		b.Bytes[i] = blank
	}
}

// WantOnly fails the case unless the bytes at off are want and all others are as Blank left them.
func (b *Buf) WantOnly(t *validate.T, where string, off int, want []byte) {
	SameBytes(t, where, b.Bytes[off:off+len(want)], want)
	for i, c := range b.Bytes {
		if c != blank && (i < off || i >= off+len(want)) {
			t.Fail(validate.Failure{
				Where:    where,
				Expected: onlyWritten(off, len(want)),
				Got:      fmt.Sprintf("byte %d of the buffer is %#02x", i, c),
			})
		}
	}
}

// onlyWritten describes a buffer of which only n bytes at off may be written.
func onlyWritten(off, n int) string {
	switch n {
	case 0:
		return "nothing written to the buffer"
	case 1:
		return fmt.Sprintf("nothing written to the buffer, except byte %d", off)
	}
	return fmt.Sprintf("nothing written to the buffer, except bytes %d to %d", off, off+n-1)
}

// WaitFlushed waits for the next completions. They must have these ids, in order, and be flushed.
func (c *CQ) WaitFlushed(ids ...uint64) {
	for i, wc := range c.Wait(len(ids)) {
		if wc.ID != ids[i] || wc.Status != ci.WCFlushErr {
			c.T.Fail(validate.Failure{
				Where:    fmt.Sprintf("completion %d of %d after the error", i+1, len(ids)),
				Expected: fmt.Sprintf("request %d: %s", ids[i], ci.WCFlushErr.String()), Got: Completions([]ci.WC{wc}),
			})
		}
	}
}

// The ids of the requests that WantDrained posts.
const (
	sendMark = 0x656e6401
	recvMark = 0x656e6402
)

// WantDrained fails the case if a QP in Error has completions left. It posts a request to each queue, which must be
// flushed with no completion before it. This detects duplicate and late completions without a delay.
func (e *End) WantDrained() {
	e.QP.Send(ci.SendWR{ID: sendMark, Op: ci.OpSend, To: e.Dest})
	e.CQ.WaitFlushed(sendMark)
	if e.Config.SRQ == nil {
		e.QP.Recv(ci.RecvWR{ID: recvMark})
		e.RecvCQ.WaitFlushed(recvMark)
	}
}

// Becomes waits until the QP is in the state. A completion may be visible shortly before the state changes.
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
			t.Fail(validate.Failure{
				Where: fmt.Sprintf("state of QP %#x", uint32(q.Num())), Expected: want.String(), Got: got.String(),
			})
		}
	}
}

// WantTaken checks the result of posting a list: want requests were accepted, and the error has one of the statuses, or
// is nil if there is none.
func WantTaken(t *validate.T, where string, n int, err error, want int, status ...ci.Status) {
	if len(status) == 0 {
		OK(t, err, where)
	} else {
		WantExactly(t, err, where, status...)
	}
	Equal(t, where+": requests accepted", n, want)
}

// WantRecv checks each field of the completion of a successful receive. Fields of want that are zero must be zero.
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
	True(t, got.Context == want.Context, where+": Context", "the context given at creation", "%v", got.Context)
}

// WaitWord waits until the aligned word at off has the value want. It is for memory that a peer writes without a
// completion on this side.
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
			t.Fail(validate.Failure{
				Where:    fmt.Sprintf("word at byte %d of the target, read with sync/atomic", off),
				Expected: fmt.Sprintf("%#x", want), Got: fmt.Sprintf("%#x by the deadline", got),
			})
		}
	}
}

// Options returns the configuration that the constructors of pairs use for these adapters, for cases that create ends
// themselves.
func Options(a, b *CA, opts ...Option) Config { return config(opts, a, b) }

// Another returns a connected pair on p's adapters with its own options and PDs. The service is that of p unless an
// option sets it.
func (p *Pair) Another(opts ...Option) *Pair {
	n := p.AnotherInReset(opts...)
	n.Connect()
	return n
}

// AnotherInReset is like Another but leaves the QPs in Reset.
func (p *Pair) AnotherInReset(opts ...Option) *Pair {
	a, b := p.A.QP.CA, p.B.QP.CA
	c := config(append([]Option{Type(p.A.Config.Type), OwnPD}, opts...), a, b)
	return &Pair{A: a.End(c), B: b.End(c)}
}

// Connect takes both ends from Reset to RTS. The ends of a datagram pair get address vectors for each other.
func (p *Pair) Connect() {
	Connect(p.A.QP, p.B.QP)
	p.Address()
}

// Address creates the address vectors of a datagram pair whose QPs a case takes to RTS itself.
func (p *Pair) Address() {
	if p.A.Config.Type == ci.UD {
		p.A.address(p.B)
		p.B.address(p.A)
	}
}
