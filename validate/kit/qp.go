package kit

import (
	"bytes"
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
)

// QP is a queue pair with methods for the steps of its state machine.
type QP struct {
	ci.QP
	CA             *CA
	PD             ci.PD
	SendCQ, RecvCQ *CQ
	Events         *Events
	Config         Config // with all defaults set
	PSN            ci.PSN // first send PSN of this side
	role           string // name in descriptions, for the ends of a pair
}

// QP creates a queue pair in Reset. Its events carry Config.Context, or Events if that is nil.
func (ca *CA) QP(pd ci.PD, send, recv *CQ, opts ...Option) *QP {
	return ca.qp(pd, send, recv, config(opts, ca))
}

func (ca *CA) qp(pd ci.PD, send, recv *CQ, c Config) *QP {
	q := &QP{CA: ca, PD: pd, SendCQ: send, RecvCQ: recv, Events: NewEvents(ca.T), Config: c}
	q.PSN = ci.PSN(ca.T.Rand().Uint32() & 0xffffff)
	recv.unreliable = recv.unreliable || c.Type != ci.RC
	in, err := pd.CreateQP(q.Create())
	q.QP = created(ca.T, in, err, fmt.Sprintf("PD.CreateQP of type %s", c.Type), "QP")
	q.watch()
	return q
}

// Create returns the parameters that the QP was created with.
func (q *QP) Create() ci.QPCreate {
	c := q.Config
	cr := ci.QPCreate{
		QPCaps: c.Caps, Type: c.Type, Flags: c.Flags, SendCQ: q.SendCQ.CQ, RecvCQ: q.RecvCQ.CQ, SRQ: c.SRQ,
		Context: c.Context, OnEvent: q.Events.Add,
	}
	if cr.Context == nil {
		cr.Context = q.Events
	}
	if c.OnEvent != nil {
		cr.OnEvent = c.OnEvent
	}
	return cr
}

// InitAttr returns the fields and attributes of the step from Reset to Init for the QP's service.
func (q *QP) InitAttr() (ci.QPField, ci.QPAttr) {
	a := ci.QPAttr{State: ci.QPInit, Port: q.CA.Port.Num, Access: q.Config.Access, QKey: q.Config.QKey}
	switch q.Config.Type {
	case ci.UD:
		return ci.QPFieldsUDInit, a
	case ci.QP0, ci.QP1:
		return ci.QPFieldsSpecial, a
	case ci.UC:
		a.Access &= ci.LocalWrite | ci.RemoteWrite
	}
	return ci.QPFieldsInit, a
}

// RTRAttr returns the fields and attributes of the step from Init to RTR. The peer is nil for datagram QPs.
func (q *QP) RTRAttr(peer *QP) (ci.QPField, ci.QPAttr) {
	a := ci.QPAttr{State: ci.QPRTR}
	if q.Config.Type != ci.RC && q.Config.Type != ci.UC {
		return ci.QPFieldsUDRTR, a
	}
	a.Primary = ci.Path{AV: q.CA.AddressOf(peer.CA), AckTimeout: q.ackTimeout()}
	a.MTU, a.DestNum, a.RQPSN = q.Config.MTU, peer.Num(), peer.PSN
	if q.Config.Type == ci.UC {
		return ci.QPFieldsUCRTR, a
	}
	a.RespRes, a.MinRNRTimer = *q.Config.RespRes, q.Config.MinRNR
	return ci.QPFieldsRTR, a
}

// RTSAttr returns the fields and attributes of the step from RTR to RTS.
func (q *QP) RTSAttr() (ci.QPField, ci.QPAttr) {
	a := ci.QPAttr{State: ci.QPRTS, SQPSN: q.PSN}
	switch q.Config.Type {
	case ci.RC:
		a.Primary.AckTimeout = q.ackTimeout()
		a.RetryCount, a.RNRRetry, a.InitDepth = *q.Config.Retry, *q.Config.RNRRetry, *q.Config.InitDepth
		return ci.QPFieldsRTS, a
	case ci.UC:
		return ci.QPFieldsUCRTS, a
	}
	return ci.QPFieldsUDRTS, a
}

func (q *QP) ackTimeout() ci.TimeExp {
	if q.Config.NoAckTime {
		return 0
	}
	return q.Config.AckTimeout
}

// Init takes the QP from Reset to Init. A failure is marked Setup, as in the methods below.
func (q *QP) Init() *QP { f, a := q.InitAttr(); return q.step(f, a) }

// RTR takes the QP from Init to RTR. The peer is nil for datagram QPs.
func (q *QP) RTR(peer *QP) *QP { f, a := q.RTRAttr(peer); return q.step(f, a) }

// RTS takes the QP from RTR to RTS.
func (q *QP) RTS() *QP { f, a := q.RTSAttr(); return q.step(f, a) }

func (q *QP) step(f ci.QPField, a ci.QPAttr) *QP {
	setup(q.CA.T, q.Modify(f, a), fmt.Sprintf("QP.Modify of a %s QP to %s", q.Config.Type, a.State))
	return q
}

// To moves the QP to a state that needs no attributes: Reset, Error or SQD.
func (q *QP) To(s ci.QPState) *QP { return q.step(ci.QPFieldState, ci.QPAttr{State: s}) }

// State returns the state that QP.Query returns.
func (q *QP) State() ci.QPState {
	a, err := q.Query()
	OK(q.CA.T, err, "QP.Query")
	return a.State
}

// WantState fails the case unless the QP is in one of the states.
func (q *QP) WantState(want ...ci.QPState) {
	got := q.State()
	if slices.Contains(want, got) {
		return
	}
	q.CA.T.Fail(validate.Failure{
		Where: fmt.Sprintf("state of QP %#x", uint32(q.Num())), Expected: oneOf(want), Got: got.String(),
	})
}

// Send posts requests. The case fails unless all are accepted.
func (q *QP) Send(wrs ...ci.SendWR) {
	n, err := q.PostSend(wrs)
	posted(q.CA.T, "QP.PostSend", n, len(wrs), err)
}

// Recv posts receives. The case fails unless all are accepted.
func (q *QP) Recv(wrs ...ci.RecvWR) {
	n, err := q.PostRecv(wrs)
	posted(q.CA.T, "QP.PostRecv", n, len(wrs), err)
}

func posted(t *validate.T, verb string, n, want int, err error) {
	skipBeyond(t, err, verb)
	if n != want || err != nil {
		t.Fail(validate.Failure{
			Where:    verb,
			Expected: fmt.Sprintf("%d requests accepted", want),
			Got:      fmt.Sprintf("%d accepted, %s", n, Describe(err)),
		})
	}
}

// AddressOf returns the address of a peer for a path or an address vector. The peer may be the CA itself.
func (ca *CA) AddressOf(peer *CA) ci.AVAttr {
	av := ci.AVAttr{Port: ca.Port.Num}
	if ca.Port.Link != ci.LinkEthernet {
		av.DLID = peer.Port.LID
		return av
	}
	src, dst, ok := gids(ca.Port.GIDs, peer.Port.GIDs)
	if !ok {
		defer ca.T.Setup()()
		ca.T.Fail(validate.Failure{
			Where: "GID tables", Expected: "entries of one type and address family at both ports",
			Got: fmt.Sprintf("%v and %v", ca.Port.GIDs, peer.Port.GIDs),
		})
	}
	av.Global = true
	av.GRH = ci.GRH{DGID: peer.Port.GIDs[dst].GID, SGIDIndex: uint16(src), HopLimit: 64}
	return av
}

// gids returns the indexes of GIDs that reach each other: of the newest type that both have, and of the same address
// family.
func gids(a, b []ci.GIDEntry) (src, dst int, ok bool) {
	for _, typ := range []ci.GIDType{ci.GIDRoCEv2, ci.GIDRoCEv1} {
		for i := range a {
			for j := range b {
				same := a[i].Type == typ && b[j].Type == typ && v4(a[i].GID) == v4(b[j].GID)
				if same && a[i].GID != (ci.GID{}) && b[j].GID != (ci.GID{}) {
					return i, j, true
				}
			}
		}
	}
	return 0, 0, false
}

// v4 reports whether a GID is a mapped IPv4 address.
func v4(g ci.GID) bool { return bytes.Equal(g[:12], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}) }

// Connect takes two QPs of the same service from Reset to RTS, connected to each other.
func Connect(a, b *QP) {
	for _, q := range []*QP{a, b} {
		q.Init()
	}
	a.RTR(b)
	b.RTR(a)
	a.RTS()
	b.RTS()
}
