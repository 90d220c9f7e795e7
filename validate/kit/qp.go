package kit

import (
	"bytes"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
)

// QP is a queue pair with the steps of its state machine.
type QP struct {
	ci.QP
	CA             *CA
	PD             ci.PD
	SendCQ, RecvCQ *CQ
	Events         *Events
	Config         Config // complete
	PSN            ci.PSN // this side's first send PSN
	role           string // in a pair, for descriptions
}

// QP makes a queue pair in Reset. Its events carry Config.Context, else Events.
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

// Create is what the QP was created with.
func (q *QP) Create() ci.QPCreate {
	c := q.Config
	cr := ci.QPCreate{QPCaps: c.Caps, Type: c.Type, Flags: c.Flags, SendCQ: q.SendCQ.CQ, RecvCQ: q.RecvCQ.CQ, SRQ: c.SRQ,
		Context: c.Context, OnEvent: q.Events.Add}
	if cr.Context == nil {
		cr.Context = q.Events
	}
	if c.OnEvent != nil {
		cr.OnEvent = c.OnEvent
	}
	return cr
}

// InitAttr gives fields and attributes of Reset to Init for the QP's service.
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

// RTRAttr gives fields and attributes of Init to RTR, towards a peer (nil for datagram QPs).
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

// RTSAttr gives fields and attributes of RTR to RTS.
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

// Init, RTR and RTS take the QP one step; their failure is marked Setup.
func (q *QP) Init() *QP { f, a := q.InitAttr(); return q.step(f, a) }

// RTR: see Init. The peer is nil for datagram QPs.
func (q *QP) RTR(peer *QP) *QP { f, a := q.RTRAttr(peer); return q.step(f, a) }

// RTS: see Init.
func (q *QP) RTS() *QP { f, a := q.RTSAttr(); return q.step(f, a) }

func (q *QP) step(f ci.QPField, a ci.QPAttr) *QP {
	setup(q.CA.T, q.Modify(f, a), fmt.Sprintf("QP.Modify of a %s QP to %s", q.Config.Type, a.State))
	return q
}

// To moves the QP to a state that needs no attributes: Reset, Error, SQD. Its failure is marked Setup.
func (q *QP) To(s ci.QPState) *QP { return q.step(ci.QPFieldState, ci.QPAttr{State: s}) }

// State is what Query says.
func (q *QP) State() ci.QPState {
	a, err := q.Query()
	OK(q.CA.T, err, "QP.Query")
	return a.State
}

// WantState expects a state now.
func (q *QP) WantState(want ...ci.QPState) {
	got := q.State()
	for _, w := range want {
		if got == w {
			return
		}
	}
	q.CA.T.Fail(validate.Failure{Where: fmt.Sprintf("state of QP %#x", uint32(q.Num())), Expected: oneOf(want), Got: got.String()})
}

// Send posts requests, all of which must be taken.
func (q *QP) Send(wrs ...ci.SendWR) {
	n, err := q.PostSend(wrs)
	posted(q.CA.T, "QP.PostSend", n, len(wrs), err)
}

// Recv posts receives, all of which must be taken.
func (q *QP) Recv(wrs ...ci.RecvWR) {
	n, err := q.PostRecv(wrs)
	posted(q.CA.T, "QP.PostRecv", n, len(wrs), err)
}

func posted(t *validate.T, verb string, n, want int, err error) {
	if n != want || err != nil {
		t.Fail(validate.Failure{Where: verb, Expected: fmt.Sprintf("%d requests taken", want), Got: fmt.Sprintf("%d taken, %s", n, Describe(err))})
	}
}

// AddressOf is the way from one CA to another (or to itself) for a path or an address vector.
func (ca *CA) AddressOf(peer *CA) ci.AVAttr {
	av := ci.AVAttr{Port: ca.Port.Num}
	if ca.Port.Link != ci.LinkEthernet {
		av.DLID = peer.Port.LID
		return av
	}
	src, dst, ok := gids(ca.Port.GIDs, peer.Port.GIDs)
	if !ok {
		defer ca.T.Setup()()
		ca.T.Fail(validate.Failure{Where: "GID tables", Expected: "entries of one type and address family at both ports",
			Got: fmt.Sprintf("%v and %v", ca.Port.GIDs, peer.Port.GIDs)})
	}
	av.Global = true
	av.GRH = ci.GRH{DGID: peer.Port.GIDs[dst].GID, SGIDIndex: uint16(src), HopLimit: 64}
	return av
}

// gids finds entries that talk to each other: the newest type first, and the same address family.
func gids(a, b []ci.GIDEntry) (src, dst int, ok bool) {
	for _, typ := range []ci.GIDType{ci.GIDRoCEv2, ci.GIDRoCEv1} {
		for i := range a {
			for j := range b {
				if a[i].Type == typ && b[j].Type == typ && a[i].GID != (ci.GID{}) && b[j].GID != (ci.GID{}) && v4(a[i].GID) == v4(b[j].GID) {
					return i, j, true
				}
			}
		}
	}
	return 0, 0, false
}

// v4 tells an IPv4 address mapped into a GID.
func v4(g ci.GID) bool { return bytes.Equal(g[:12], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}) }

// Connect takes two QPs in Reset of one service to RTS, towards each other.
func Connect(a, b *QP) {
	for _, q := range []*QP{a, b} {
		q.Init()
	}
	a.RTR(b)
	b.RTR(a)
	a.RTS()
	b.RTS()
}
