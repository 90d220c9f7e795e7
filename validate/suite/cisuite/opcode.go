package cisuite

import (
	"fmt"
	"slices"
	"strings"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// opForm is an operation of the table of legal operations (IBTA 11.4.1.1, tables 95 and 96; docs/sas, Operations).
type opForm struct {
	name  string // part of the case IDs
	title string
	op    ci.SendOp
	flags ci.SendFlags
	rc    bool // legal on RC
	uc    bool
	ud    bool       // legal on UD and QP1
	caps  ci.Caps    // one of them is enough
	atom  bool       // needs atomic operations
	want  ci.WCOp    // operation of its completion, if plain
	plain bool       // executed by these cases; the areas of memory execute the others
	recv  ci.WCOp    // operation of the completed receive, 0 if it uses none
	wcf   ci.WCFlags // flags of that receive
}

var opForms = []opForm{
	{name: "send", title: "OpSend", op: ci.OpSend, rc: true, uc: true, ud: true, want: ci.WCSend, plain: true,
		recv: ci.WCRecv},
	{name: "send-imm", title: "OpSend with SendImmediate", op: ci.OpSend, flags: ci.SendImmediate, rc: true, uc: true,
		ud: true, want: ci.WCSend, plain: true, recv: ci.WCRecv, wcf: ci.WCImmediate},
	{name: "send-inv", title: "OpSend with SendInvalidate", op: ci.OpSend, flags: ci.SendInvalidate, rc: true,
		caps: ci.CapSendInvalidate},
	{name: "write", title: "OpWrite", op: ci.OpWrite, rc: true, uc: true, want: ci.WCWrite, plain: true},
	{name: "write-imm", title: "OpWrite with SendImmediate", op: ci.OpWrite, flags: ci.SendImmediate, rc: true,
		uc: true, want: ci.WCWrite, plain: true, recv: ci.WCRecvWrite, wcf: ci.WCImmediate},
	{name: "read", title: "OpRead", op: ci.OpRead, rc: true, want: ci.WCRead, plain: true},
	{name: "cas", title: "OpCompareSwap", op: ci.OpCompareSwap, rc: true, want: ci.WCCompareSwap, plain: true,
		atom: true},
	{name: "faa", title: "OpFetchAdd", op: ci.OpFetchAdd, rc: true, want: ci.WCFetchAdd, plain: true, atom: true},
	{name: "lso", title: "OpLSO", op: ci.OpLSO, ud: true, caps: ci.CapLSO},
	{name: "nop", title: "OpNop", op: ci.OpNop, rc: true, uc: true, ud: true, want: ci.WCNop, plain: true},
	{name: "local-inv", title: "OpLocalInv", op: ci.OpLocalInv, rc: true, uc: true,
		caps: ci.CapFastReg | ci.CapMW2},
	{name: "fast-reg", title: "OpFastReg", op: ci.OpFastReg, rc: true, uc: true, caps: ci.CapFastReg},
	{name: "bind-mw", title: "OpBindMW", op: ci.OpBindMW, rc: true, uc: true, caps: ci.CapMW2},
	{name: "atomic-write", title: "OpAtomicWrite", op: ci.OpAtomicWrite, rc: true, caps: ci.CapAtomicWrite},
	{name: "flush", title: "OpFlush", op: ci.OpFlush, rc: true, caps: ci.CapFlush},
	{name: "unknown", title: "unknown operation 200", op: 200},
}

// opcodeCases are one case for each operation on each service.
var opcodeCases = &validate.Area{Feature: validate.FeatureRC, Needs: validate.Needs{Caps: ci.CapSendInvalidate}}

var ciOpcode01 = opcodeCases.Must("CI-Opcode-01", "IBTA 11.4.1.1", "tables 95 and 96; ci_post_send (55)",
	"PostSend accepts each operation that the service of the QP supports, and its completion has the operation's "+
		"code.")

var ciOpcode02 = opcodeCases.Must("CI-Opcode-02", "IBTA 11.4.1.1", "tables 95 and 96; ci_post_send (55)",
	"PostSend of an operation that the service of the QP does not support fails with InvalidWRType, posts "+
		"nothing and has no other effect.")

var ciOpcode03 = opcodeCases.Must("CI-Opcode-03", "CI claims", "docs/sas, Operations",
	"PostSend of an operation that the service supports and whose capability is not claimed fails with "+
		"Unsupported.")

var ciOpcode04 = opcodeCases.Must("CI-Opcode-04", "IBTA 11.4.1.1", "docs/sas, Operations, Options",
	"PostSend with both immediate data and invalidation in one request fails with InvalidParameter.")

var ciPostRecv02 = opcodeCases.Must("CI-PostRecv-02", "IBTA 10.2.9", "ci_post_recv (56)",
	"PostRecv on a QP with a shared receive queue fails with InvalidWRType.")

// opRow is an operation on a service.
type opRow struct {
	service
	opForm
}

// opRows returns each operation on each service, except those that the area of special QPs tests on QP1.
func opRows() []opRow {
	var out []opRow
	qp1 := service{"qp1", ci.QP1, validate.FeatureSpecial, ci.CapSpecialQP | ci.CapAV}
	for _, s := range append(slices.Clone(services), qp1) {
		for _, f := range opForms {
			if s.typ != ci.QP1 || !f.legal(s.typ) {
				out = append(out, opRow{s, f})
			}
		}
	}
	return out
}

var _ = validate.Matrix(opcodeCases, opRows(), func(r opRow) (validate.Case, []*req.Requirement) {
	f, typ, name := r.opForm, r.typ, strings.ToUpper(r.service.name)
	c := validate.Case{
		ID:      "opcode." + r.service.name + "." + f.name,
		Feature: r.feature,
		Needs:   validate.Needs{Caps: r.service.caps},
	}
	switch {
	case !f.legal(typ):
		c.Title = f.title + " on " + name + ", which does not support it"
		c.Run = func(t *validate.T) { f.illegal(t, typ) }
		return c, []*req.Requirement{ciOpcode02, req.SAS2_1_23}
	case f.plain:
		c.Title = f.title + " on " + name
		if f.atom {
			c.Needs.Atomics = ci.AtomicLocal
		}
		c.Run = func(t *validate.T) { f.taken(t, typ) }
		return c, []*req.Requirement{ciOpcode01}
	}
	c.Title = f.title + " on " + name + ", claimed or not claimed"
	c.Run = func(t *validate.T) { f.claimed(t, typ) }
	return c, []*req.Requirement{ciOpcode03}
})

var _ = opcodeCases.Add("opcode.rc.imm-and-inv", "immediate data and invalidation in one send", immAndInv,
	ciOpcode04)

var _ = opcodeCases.Of(validate.FeatureSRQ).Needing(validate.Needs{Caps: ci.CapSRQ}).Add("opcode.recv.srq",
	"PostRecv on a QP with an SRQ", recvWithSRQ, ciPostRecv02)

func (f opForm) legal(typ ci.QPType) bool {
	switch typ {
	case ci.RC:
		return f.rc
	case ci.UC:
		return f.uc
	case ci.QP1:
		return f.ud && f.op != ci.OpLSO
	}
	return f.ud
}

// request returns a request of this form, as complete as possible without further objects.
func (f opForm) request(p *kit.Pair, id uint64) ci.SendWR {
	w := p.A.RDMA(f.op, id, 0, 8, p.B, 64)
	w.Flags |= f.flags
	w.To, w.Ext = p.A.Dest, &ci.SendExt{Flush: ci.Flush{Types: ci.FlushGlobal}}
	w.Imm, w.Inv = 0x01020304, p.B.Buf.RKey
	if f.op == ci.OpLSO {
		w.Ext.LSO = ci.LSO{Header: make([]byte, 16), MSS: 256}
	}
	return w
}

// pairOf returns a connected pair of the service. A QP1 is that of the adapter's port.
func pairOf(t *validate.T, typ ci.QPType) *kit.Pair {
	if typ != ci.QP1 {
		return kit.NewPair(t, kit.Type(typ))
	}
	p := kit.UD(t)
	pd := p.A.PD
	c := ci.QPCreate{Type: ci.QP1, QPCaps: p.A.Config.Caps, SendCQ: p.A.CQ.CQ, RecvCQ: p.A.RecvCQ.CQ}
	qp, err := pd.CreateSpecialQP(p.A.QP.CA.Port.Num, c)
	end := t.Setup()
	kit.OK(t, err, "PD.CreateSpecialQP of QP1")
	end()
	kit.Own(t, qp, "QP1")
	n := *p.A
	n.QP = &kit.QP{
		QP:     qp,
		CA:     p.A.QP.CA,
		PD:     pd,
		SendCQ: p.A.CQ,
		RecvCQ: p.A.RecvCQ,
		Events: p.A.QP.Events,
		Config: p.A.Config,
	}
	n.QP.Config.Type = ci.QP1
	n.QP.Config.QKey = 0x80010000
	n.QP.Init()
	n.QP.RTR(nil)
	n.QP.RTS()
	n.Dest.QKey = 0x80010000
	return &kit.Pair{A: &n, B: p.B}
}

func (f opForm) taken(t *validate.T, typ ci.QPType) {
	p := pairOf(t, typ)
	p.B.Recv(p.B.RecvWR(1, 1000, 100))
	n, err := p.A.PostSend([]ci.SendWR{f.request(p, 1)})
	kit.WantTaken(t, fmt.Sprintf("QP.PostSend of %s on %s", f.title, typ), n, err, 1)
	kit.Equal(t, "Op of the send", p.A.CQ.WaitOK(1)[0].Op, f.want)
	if f.recv == 0 { // the next send uses the receive
		p.A.Send(p.A.SendWR(2, 0, 3))
		p.A.CQ.WaitOK(2)
		kit.Equal(t, "Op of the receive, which a later send uses", p.B.RecvCQ.WaitOK(1)[0].Op, ci.WCRecv)
		return
	}
	wc := p.B.RecvCQ.WaitOK(1)[0]
	kit.Equal(t, "Op of the receive", wc.Op, f.recv)
	kit.Equal(t, "Flags of the receive", wc.Flags&ci.WCImmediate, f.wcf)
}

func (f opForm) illegal(t *validate.T, typ ci.QPType) {
	p := pairOf(t, typ)
	where := fmt.Sprintf("QP.PostSend of %s on %s", f.title, typ)
	n, err := p.A.PostSend([]ci.SendWR{f.request(p, 1)})
	kit.WantTaken(t, where, n, err, 0, ci.InvalidWRType)
	beside := ci.SendWR{ID: 2, Op: ci.OpNop, Flags: ci.SendSignaled}
	if typ != ci.QP1 { // an adapter without OpNop has this case, too
		p.B.Recv(p.B.RecvWR(1, 1000, 100))
		beside = p.A.SendWR(2, 0, 3)
	}
	n, err = p.A.PostSend([]ci.SendWR{beside, f.request(p, 3), beside})
	kit.WantTaken(t, where+" as the second of three", n, err, 1, ci.InvalidWRType)
	p.A.CQ.WaitOK(2)
	if typ != ci.QP1 {
		p.B.RecvCQ.WaitOK(1)
	}
	p.A.CQ.Empty()
	p.A.WantState(ci.QPRTS)
	if typ != ci.QP1 {
		p.A.Exchange(p.B, 20)
	}
}

// claimed compares the result with the claim: without it PostSend must fail with Unsupported. With it, claims.works.*
// tests whether the operation works.
func (f opForm) claimed(t *validate.T, typ ci.QPType) {
	p := pairOf(t, typ)
	n, err := p.A.PostSend([]ci.SendWR{f.request(p, 1)})
	where := fmt.Sprintf("QP.PostSend of %s on %s", f.title, typ)
	isClaimed := t.Claims()&f.caps != 0
	kit.Claim(t, oneOf(t, f.caps), err, where)
	if !isClaimed {
		kit.Equal(t, "requests accepted by "+where, n, 0)
		p.A.Exchange(p.B, 20)
	}
	kit.True(t, ci.StatusOf(err) != ci.InvalidWRType, where,
		"not InvalidWRType, since the service supports the operation", "%s", kit.Describe(err))
	if isClaimed {
		t.Skip("claimed: claims.works.* tests whether it works")
	}
}

func immAndInv(t *validate.T) {
	p := kit.RC(t)
	w := p.A.SendWR(1, 0, 8)
	w.Flags |= ci.SendImmediate | ci.SendInvalidate
	w.Inv = p.B.Buf.RKey
	n, err := p.A.PostSend([]ci.SendWR{w})
	kit.WantTaken(t, "PostSend with immediate data and invalidation", n, err, 0, ci.InvalidParameter)
	p.A.Exchange(p.B, 1)
}

func recvWithSRQ(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	end := t.Setup()
	kit.OK(t, err, "PD.CreateSRQ")
	end()
	kit.Own(t, srq, "SRQ")
	cq := ca.CQ(pd, 16)
	qp := ca.QP(pd, cq, cq, kit.WithSRQ(srq))
	b := ca.Buf(pd, 64, kit.AllAccess)
	qp.Init()
	n, err := qp.PostRecv([]ci.RecvWR{{ID: 1, SGL: b.SGL(0, 8)}})
	kit.WantTaken(t, "PostRecv on a QP with an SRQ", n, err, 0, ci.InvalidWRType)
	cq.Empty()
}
