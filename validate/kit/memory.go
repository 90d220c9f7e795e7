package kit

import (
	"fmt"
	"io"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
)

// Reconnect takes both QPs through Reset to RTS again, with new PSNs, and discards the completions in their CQs. It is
// for cases that break a connection more than once.
func (p *Pair) Reconnect() {
	for _, e := range []*End{p.A, p.B} {
		e.QP.To(ci.QPReset)
		e.PSN = ci.PSN(e.QP.CA.T.Rand().Uint32() & 0xffffff)
	}
	p.A.drop()
	p.B.drop()
	Connect(p.A.QP, p.B.QP)
}

// drop polls both CQs until they are empty.
func (e *End) drop() {
	var wc [16]ci.WC
	for _, q := range []*CQ{e.CQ, e.RecvCQ} {
		for {
			n, err := q.Poll(wc[:])
			setup(e.QP.CA.T, err, "CQ.Poll")
			if n == 0 {
				break
			}
		}
	}
}

// probeID is the id of the requests of Try.
const probeID = 0x70726f62

// Try posts one request to A's send queue and returns the status of its completion. If the request broke the
// connection, Try connects the pair again. It sets wr.ID and makes the request signaled.
func (p *Pair) Try(wr ci.SendWR) ci.WCStatus {
	t := p.A.QP.CA.T
	wr.ID, wr.Flags = probeID, wr.Flags|ci.SendSignaled
	p.A.Send(wr)
	wc := p.A.CQ.Wait(1)[0]
	Equal(t, "WC.ID of the only request outstanding", wc.ID, uint64(probeID))
	if wc.Status != ci.WCSuccess {
		p.Reconnect()
	}
	return wc.Status
}

// Request returns an RDMA request or atomic of A with the first n bytes of its buffer (8 for atomics).
func (p *Pair) Request(op ci.SendOp, n int, to ci.Remote) ci.SendWR {
	wr := ci.SendWR{Op: op, Remote: to}
	switch {
	case op == ci.OpCompareSwap || op == ci.OpFetchAdd:
		wr.SGL = p.A.Buf.SGL(0, 8)
	case n > 0:
		wr.SGL = p.A.Buf.SGL(0, n)
	}
	return wr
}

// WantReach fails the case unless A's RDMA request of n bytes succeeds.
func (p *Pair) WantReach(where string, op ci.SendOp, n int, to ci.Remote) {
	p.WantStatus(where, p.Request(op, n, to), ci.WCSuccess)
}

// WantDenied fails the case unless A's RDMA request of n bytes ends with WCRemAccessErr.
func (p *Pair) WantDenied(where string, op ci.SendOp, n int, to ci.Remote) {
	p.WantStatus(where, p.Request(op, n, to), ci.WCRemAccessErr)
}

// WantStatus fails the case unless a request of A ends with one of the statuses.
func (p *Pair) WantStatus(where string, wr ci.SendWR, want ...ci.WCStatus) {
	if got := p.Try(wr); !slices.Contains(want, got) {
		p.A.QP.CA.T.Fail(validate.Failure{
			Where: where, Expected: oneOf(want), Got: got.String(), Doubt: DoubtOf(got, want...),
		})
	}
}

// WantWrite fails the case unless A can write to the remote memory. at is the peer's own view of that memory.
func (p *Pair) WantWrite(where string, to ci.Remote, at []byte) {
	t := p.A.QP.CA.T
	src := Random(t, p.A.Buf.Bytes[:len(at)])
	p.WantReach("RDMA WRITE to "+where, ci.OpWrite, len(at), to)
	p.Fence()
	SameBytes(t, where, at, src)
}

// WantUntouched fails the case unless A's write of len(at) bytes is denied and at does not change.
func (p *Pair) WantUntouched(where string, to ci.Remote, at []byte) {
	t := p.A.QP.CA.T
	old := append([]byte(nil), at...)
	for i := range at {
		p.A.Buf.Bytes[i] = ^at[i]
	}
	p.WantDenied("RDMA WRITE to "+where, ci.OpWrite, len(at), to)
	p.Fence()
	SameBytes(t, where, at, old)
}

// Fence sends an empty message from A to B. After it, A's earlier writes are visible in B's memory: by the memory
// model, only a completion at B orders them.
func (p *Pair) Fence() {
	const id = 0x666e6365
	p.B.Recv(ci.RecvWR{ID: id})
	p.A.Send(ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled})
	p.A.CQ.WaitOK(id)
	p.B.RecvCQ.WaitOK(id)
}

// Pages returns n zero bytes that begin at a multiple of align, a power of two.
func Pages(n, align int) []byte {
	b := make([]byte, n+align)
	skip := int(-ci.Bytes(b).Addr() & uint64(align-1))
	return b[skip : skip+n : skip+n]
}

// CopyMemory is memory without a slice, like that of another process. A driver can only use ReadAt and WriteAt.
type CopyMemory struct{ B []byte }

// Addr implements ci.Memory.
func (c CopyMemory) Addr() uint64 { return ci.Bytes(c.B).Addr() }

// Len implements ci.Memory.
func (c CopyMemory) Len() uint64 { return uint64(len(c.B)) }

// Slice implements ci.Memory. It always returns nil.
func (CopyMemory) Slice(uint64, uint64) []byte { return nil }

// ReadAt implements ci.Memory.
func (c CopyMemory) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, c.B[min(off, int64(len(c.B))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements ci.Memory.
func (c CopyMemory) WriteAt(p []byte, off int64) (int, error) {
	n := copy(c.B[min(off, int64(len(c.B))):], p)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Pin implements ci.Memory. It does nothing, because memory of Go does not move.
func (CopyMemory) Pin() (func(), error) { return func() {}, nil }

// PiecedMemory is memory in pieces of Piece bytes, in the sense that a slice never crosses from one piece to the next.
type PiecedMemory struct {
	ci.Memory
	Piece uint64
}

// Slice implements ci.Memory. The result ends at a piece's end at the latest.
func (p PiecedMemory) Slice(off, n uint64) []byte {
	return p.Memory.Slice(off, min(n, p.Piece-off%p.Piece))
}

// DMA maps b into the DMA space of the CA.
func (ca *CA) DMA(b []byte) ci.DMA {
	d, err := ca.MapDMA(ci.Bytes(b))
	return created(ca.T, d, err, fmt.Sprintf("CA.MapDMA of %d bytes", len(b)), "DMA")
}

// PageList splits ranges into pages. It returns nil if a range does not consist of whole pages.
func PageList(ranges []ci.DMARange, size uint64) []uint64 {
	var out []uint64
	for _, r := range ranges {
		if (r.Addr|r.Size)&(size-1) != 0 {
			return nil
		}
		for off := uint64(0); off < r.Size; off += size {
			out = append(out, r.Addr+off)
		}
	}
	return out
}

// MW creates an unbound window.
func (ca *CA) MW(pd ci.PD, typ ci.MWType) ci.MW {
	mw, err := pd.CreateMW(ci.MWCreate{Type: typ})
	return created(ca.T, mw, err, fmt.Sprintf("PD.CreateMW of type %d", typ), "MW")
}

// SRQ creates a shared receive queue and returns it with its events.
func (ca *CA) SRQ(pd ci.PD, depth, sges int) (ci.SRQ, *Events) {
	ev := NewEvents(ca.T)
	s, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: depth, MaxSGE: sges}, Context: ev, OnEvent: ev.Add})
	return created(ca.T, s, err, fmt.Sprintf("PD.CreateSRQ with %d entries", depth), "SRQ"), ev
}

// AV creates an address vector for a peer, which may be the CA itself.
func (ca *CA) AV(pd ci.PD, peer *CA) ci.AV {
	av, err := pd.CreateAV(ca.AddressOf(peer))
	return created(ca.T, av, err, "PD.CreateAV", "AV")
}

// NewPairOn returns a pair of reliable connection with both ends on one CA, for cases that need a QP in RTS and no
// peer.
func NewPairOn(ca *CA, opts ...Option) *Pair {
	c := config(append(opts, Type(ci.RC)), ca)
	p := newPair(ca.End(c), ca.End(c))
	Connect(p.A.QP, p.B.QP)
	return p
}
