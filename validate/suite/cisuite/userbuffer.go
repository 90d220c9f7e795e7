package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = unknownCases.Needing(validate.Needs{Caps: ci.CapUser}).Add("args.user-buffer",
	"verbs with nothing to return to a user library", argsUserBuffer,
	unknownCases.Must("CI-User-01", "CI context", "ci, UserBuffer; ci_umv_buf",
		"A verb that succeeds and has nothing to return to the user library sets Status to 0 and Out to an empty "+
			"slice. The driver does not change Command, and a query returns no UserBuffer."))

// userBuffers makes the UserBuffers of a process without a user library, and expects that verbs answer them.
type userBuffers struct {
	t    *validate.T
	last *ci.UserBuffer
}

// next returns a UserBuffer whose caller expects an answer, and has preset a failure.
func (u *userBuffers) next() *ci.UserBuffer {
	u.last = &ci.UserBuffer{Status: -1, Out: make([]byte, 16)}
	return u.last
}

// answered expects that a verb succeeded and returned nothing in the last UserBuffer.
func (u *userBuffers) answered(err error, verb string) {
	kit.OK(u.t, err, verb+" of a process")
	kit.Equal(u.t, verb+": UserBuffer.Status", u.last.Status, 0)
	kit.Equal(u.t, verb+": length of UserBuffer.Out", len(u.last.Out), 0)
	kit.Equal(u.t, verb+": UserBuffer.Command", u.last.Command, 0)
}

func argsUserBuffer(t *validate.T) {
	ca := kit.Open(t)
	u := &userBuffers{t: t}
	user, err := ca.OpenUser(process{}, u.next())
	u.answered(err, "CA.OpenUser")
	t.Cleanup(func() { kit.OK(t, user.Destroy(), "UserCA.Destroy") })
	pd, err := user.AllocatePD(ci.PDNormal, u.next())
	u.answered(err, "UserCA.AllocatePD")
	kit.Own(t, pd, "PD of a process")
	if t.Claims().Has(ci.CapVendorCall) {
		v := t.VendorCall()
		op := ci.VendorOp{Command: v.Command, Data: make([]byte, max(len(v.In), len(v.Want)))}
		copy(op.Data, v.In)
		u.answered(user.VendorCall(&op, u.next()), "UserCA.VendorCall")
	}
	cq := u.cq(pd)
	u.qp(ca, pd, cq, ci.RC)
	if t.Claims().Has(ci.CapUD) {
		u.qp(ca, pd, cq, ci.UD)
	}
	u.srq(pd)
	u.windows(pd)
	u.av(ca, pd)
}

// cq creates a CQ and resizes it.
func (u *userBuffers) cq(pd ci.PD) ci.CQ {
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4, User: u.next()})
	u.answered(err, "PD.CreateCQ")
	kit.Own(u.t, cq, "CQ of a process")
	if u.t.Claims().Has(ci.CapResizeCQ) {
		_, err := cq.Resize(ci.CQResize{Size: 8, User: u.next()})
		u.answered(err, "CQ.Resize")
	}
	return cq
}

// qp creates a QP, changes its state and attaches it to a group if it can.
func (u *userBuffers) qp(ca *kit.CA, pd ci.PD, cq ci.CQ, typ ci.QPType) {
	q, err := pd.CreateQP(ci.QPCreate{Type: typ, SendCQ: cq, RecvCQ: cq, User: u.next(),
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}})
	u.answered(err, "PD.CreateQP")
	kit.Own(u.t, q, "QP of a process")
	set, a := ci.QPFieldState|ci.QPFieldPort|ci.QPFieldPKeyIndex, ci.QPAttr{State: ci.QPInit, Port: ca.Port.Num}
	if set |= ci.QPFieldAccess; typ == ci.UD {
		set ^= ci.QPFieldAccess | ci.QPFieldQKey
	}
	a.User = u.next()
	u.answered(q.Modify(set, a), "QP.Modify to Init")
	got, err := q.Query()
	kit.OK(u.t, err, "QP.Query")
	kit.True(u.t, got.User == nil, "QPAttr.User of QP.Query", "nil", "%v", got.User)
	a.User = u.next()
	u.answered(q.Modify(set&^ci.QPFieldState, a), "QP.Modify in Init")
	if typ == ci.UD && u.t.Claims().Has(ci.CapMulticast) {
		m, err := q.AttachMcast(ci.McastAttach{GID: groupGID(ca), LID: mlid1, User: u.next()})
		u.answered(err, "QP.AttachMcast")
		kit.Destroy(u.t, m, "Mcast of a process")
	}
	a = ci.QPAttr{State: ci.QPReset, User: u.next()}
	u.answered(q.Modify(ci.QPFieldState, a), "QP.Modify to Reset")
}

// srq creates an SRQ, and changes its limit and its size.
func (u *userBuffers) srq(pd ci.PD) {
	if !u.t.Claims().Has(ci.CapSRQ) {
		return
	}
	s, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1, User: u.next()}})
	u.answered(err, "PD.CreateSRQ")
	kit.Own(u.t, s, "SRQ of a process")
	u.answered(s.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 2, User: u.next()}), "SRQ.Modify of the limit")
	if u.t.Claims().Has(ci.CapModifySRQDepth) {
		u.answered(s.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 8, User: u.next()}), "SRQ.Modify of the size")
	}
	got, err := s.Query()
	kit.OK(u.t, err, "SRQ.Query")
	kit.True(u.t, got.User == nil, "SRQAttr.User of SRQ.Query", "nil", "%v", got.User)
}

// windows creates a window of each type that the driver claims.
func (u *userBuffers) windows(pd ci.PD) {
	for typ, claim := range map[ci.MWType]ci.Caps{ci.MWType1: ci.CapMW1, ci.MWType2: ci.CapMW2} {
		if u.t.Claims().Has(claim) {
			w, err := pd.CreateMW(ci.MWCreate{Type: typ, User: u.next()})
			u.answered(err, fmt.Sprintf("PD.CreateMW of type %d", typ))
			kit.Destroy(u.t, w, "MW of a process")
		}
	}
}

// av creates an address vector and changes it.
func (u *userBuffers) av(ca *kit.CA, pd ci.PD) {
	if !u.t.Claims().Has(ci.CapAV) {
		return
	}
	a := ca.AddressOf(ca)
	a.User = u.next()
	av, err := pd.CreateAV(a)
	u.answered(err, "PD.CreateAV")
	kit.Own(u.t, av, "AV of a process")
	a.User = u.next()
	u.answered(av.Modify(a), "AV.Modify")
	got, _, err := av.Query()
	kit.OK(u.t, err, "AV.Query")
	kit.True(u.t, got.User == nil, "AVAttr.User of AV.Query", "nil", "%v", got.User)
}
