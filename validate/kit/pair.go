package kit

import (
	"ciddk/ci"
	"ciddk/validate"
)

// End is one side of a pair, with everything that is needed to transfer data. CQ serves the send queue, RecvCQ the
// receive queue.
type End struct {
	*QP
	CQ     *CQ
	RecvCQ *CQ
	Buf    *Buf
	AV     ci.AV   // address vector for the other end, of a datagram pair
	Dest   ci.Dest // the other end, of a datagram pair
}

// Pair is two ends in RTS. A is on the HCA under test. B is on the second HCA, or on the same one in loopback.
type Pair struct{ A, B *End }

// RC returns a pair of reliable connection.
func RC(t *validate.T, opts ...Option) *Pair { return NewPair(t, append(opts, Type(ci.RC))...) }

// UC returns a pair of unreliable connection. The case needs ci.CapUC.
func UC(t *validate.T, opts ...Option) *Pair { return NewPair(t, append(opts, Type(ci.UC))...) }

// UD returns two datagram QPs with address vectors for each other. The case needs ci.CapUD and ci.CapAV.
func UD(t *validate.T, opts ...Option) *Pair { return NewPair(t, append(opts, Type(ci.UD))...) }

// NewPair returns a pair of the service that the options set.
func NewPair(t *validate.T, opts ...Option) *Pair {
	p := NewPairInReset(t, opts...)
	Connect(p.A.QP, p.B.QP)
	if p.A.Config.Type == ci.UD {
		p.A.address(p.B)
		p.B.address(p.A)
	}
	return p
}

// NewPairInReset is like NewPair but leaves the QPs in Reset.
func NewPairInReset(t *validate.T, opts ...Option) *Pair {
	a, b := OpenPair(t)
	c := config(opts, a, b)
	return newPair(a.End(c), b.End(c))
}

// newPair joins two ends and sets their names in descriptions.
func newPair(a, b *End) *Pair {
	a.role, b.role = "A, the driver's end", "B, the peer"
	return &Pair{A: a, B: b}
}

// More returns another connected pair on the same CAs and PDs, with the same options as p. If shareCQ is set, it uses
// p's CQs.
func (p *Pair) More(shareCQ bool) *Pair {
	n := newPair(p.A.again(shareCQ), p.B.again(shareCQ))
	Connect(n.A.QP, n.B.QP)
	if n.A.Config.Type == ci.UD {
		n.A.address(n.B)
		n.B.address(n.A)
	}
	return n
}

// fewPDs is the number of PDs below which ends of a CA share one.
const fewPDs = 8

// EndPD returns a PD for an end. On an adapter with few PDs, ends without Config.OwnPD share one.
func (ca *CA) EndPD(c Config) ci.PD {
	if n := ca.Attr.MaxPDs; c.OwnPD || n == 0 || n >= fewPDs {
		return ca.PD()
	}
	if ca.pd == nil {
		ca.pd = ca.PD()
	}
	return ca.pd
}

// End creates one side: a PD, two CQs, a QP in Reset and a buffer.
func (ca *CA) End(c Config) *End {
	pd := ca.EndPD(c)
	return ca.end(pd, ca.CQ(pd, 2*c.Caps.SendDepth), ca.CQ(pd, ca.completions(c)), c)
}

// completions returns the size of a queue for the receives of a QP, or of a shared receive queue.
func (ca *CA) completions(c Config) int {
	return min(2*max(c.Caps.RecvDepth, validate.QueueDepth), max(ca.Attr.MaxCQEs, 2*c.Caps.RecvDepth))
}

func (ca *CA) end(pd ci.PD, send, recv *CQ, c Config) *End {
	e := &End{CQ: send, RecvCQ: recv}
	e.QP = ca.qp(pd, send, recv, c)
	e.Buf = ca.Buf(pd, c.Size, c.BufAccess)
	return e
}

func (e *End) again(shareCQ bool) *End {
	if shareCQ {
		return e.CA.end(e.PD, e.CQ, e.RecvCQ, e.Config)
	}
	c := e.Config
	return e.CA.end(e.PD, e.CA.CQ(e.PD, 2*c.Caps.SendDepth), e.CA.CQ(e.PD, e.CA.completions(c)), c)
}

func (e *End) address(peer *End) {
	t := e.QP.CA.T
	av, err := e.PD.CreateAV(e.QP.CA.AddressOf(peer.QP.CA))
	e.AV = created(t, av, err, "PD.CreateAV", "AV")
	e.Dest = ci.Dest{AV: e.AV, QPN: peer.Num(), QKey: peer.Config.QKey}
}

// SendWR returns a signaled SEND of n bytes of the end's buffer from off. On a datagram pair it goes to the other end.
func (e *End) SendWR(id uint64, off, n int) ci.SendWR {
	return ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: e.Buf.SGL(off, n), To: e.Dest}
}

// RDMA returns a signaled request of op with n bytes of the end's buffer from off, for offset roff of the peer's
// buffer.
func (e *End) RDMA(op ci.SendOp, id uint64, off, n int, peer *End, roff int) ci.SendWR {
	return ci.SendWR{
		ID: id, Op: op, Flags: ci.SendSignaled, SGL: e.Buf.SGL(off, n), Remote: peer.Buf.Remote(uint64(roff)),
	}
}

// RecvWR returns a receive into n bytes of the end's buffer from off. On a datagram pair, the message starts 40 bytes
// later.
func (e *End) RecvWR(id uint64, off, n int) ci.RecvWR {
	return ci.RecvWR{ID: id, SGL: e.Buf.SGL(off, n)}
}

// SendWRs returns n signaled SENDs of one byte each, with ids from 1.
func (e *End) SendWRs(n int) []ci.SendWR {
	out := make([]ci.SendWR, n)
	for i := range out {
		out[i] = e.SendWR(uint64(i+1), i%len(e.Buf.Bytes), 1)
	}
	return out
}

// RecvWRs returns n receives of size bytes each, side by side from the start of the buffer, with ids from 1.
func (e *End) RecvWRs(n, size int) []ci.RecvWR {
	out := make([]ci.RecvWR, n)
	for i := range out {
		out[i] = e.RecvWR(uint64(i+1), i*size, size)
	}
	return out
}

// Exchange sends n bytes from one end to the other and checks that they arrive, to test that a connection works. Both
// ends' queues must be empty. It uses the upper half of the buffers.
func (e *End) Exchange(peer *End, n int) {
	t := e.QP.CA.T
	from, to := len(e.Buf.Bytes)/2, len(peer.Buf.Bytes)/2
	pad := 0
	if e.Config.Type == ci.UD {
		pad = 40
	}
	want := append([]byte(nil), e.Buf.Fill(t, from, n)...)
	clear(peer.Buf.Bytes[to : to+pad+n])
	const id = 0x65786368
	peer.Recv(peer.RecvWR(id, to, pad+n))
	e.Send(e.SendWR(id, from, n))
	e.CQ.WaitOK(id)
	wc := peer.RecvCQ.WaitOK(id)[0]
	Equal(t, "length of the message received", wc.Length, uint32(pad+n))
	SameBytes(t, "message received", peer.Buf.Bytes[to+pad:to+pad+n], want)
}
