package cmsuite

import (
	"context"
	"fmt"
	"slices"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Calls in states that do not allow them, and calls with bad arguments.
var states = area()

// verb is a call of a connection that only some states allow. It does not wait for the peer.
type verb struct {
	name string
	room int // bytes of private data, or 0 if the call has none
	call func(e *end, p *script, private []byte) error
}

// verbs are all such calls.
var verbs = []verb{
	{"Accept", mad.REPPrivateLen, func(e *end, p *script, private []byte) error {
		return e.StartAccept(p.t.Context(), e.acceptance(private), func(error) {})
	}},
	{"Confirm", mad.RTUPrivateLen, func(e *end, _ *script, private []byte) error { return e.Confirm(private) }},
	{"Established", 0, func(e *end, _ *script, _ []byte) error { return e.Established() }},
	{"Delay", mad.MRAPrivateLen, func(e *end, _ *script, private []byte) error { return e.Delay(18, private) }},
	{"Reject", mad.REJPrivateLen, func(e *end, _ *script, private []byte) error {
		return e.Reject(mad.RejConsumer, nil, private)
	}},
	{"Handoff", 0, func(e *end, _ *script, _ []byte) error { return e.Handoff(service + 1) }},
	{"LoadAlternate", mad.LAPPrivateLen, func(e *end, p *script, private []byte) error {
		return e.StartLoadAlternate(p.t.Context(), cm.AlternateConfig{Path: e.side.path(p.here), Private: private},
			func(*mad.APR, error) {})
	}},
	{"AnswerAlternate", mad.APRPrivateLen, func(e *end, _ *script, private []byte) error {
		return e.AnswerAlternate(mad.APRRejected, nil, private)
	}},
	{"Disconnect", mad.DREQPrivateLen, func(e *end, p *script, private []byte) error {
		return e.StartDisconnect(p.t.Context(), private, func([]byte, error) {})
	}},
	{"AnswerDisconnect", mad.DREPPrivateLen, func(e *end, _ *script, private []byte) error {
		return e.AnswerDisconnect(private)
	}},
	{"Migrated", 0, func(e *end, _ *script, _ []byte) error { return e.Migrated() }},
}

// onlyAllows expects that each call fails in the current state, except those that the state allows. The latter must
// fail for private data that is one byte too long. No failed call may send a message or change the state.
func onlyAllows(e *end, p *script, state cm.State, allowed ...string) {
	t := p.t
	inState(t, e, state, "before the calls")
	for _, v := range verbs {
		where := fmt.Sprintf("cm.Conn.%s in state %v", v.name, state)
		switch {
		case !slices.Contains(allowed, v.name):
			kit.WantExactly(t, v.call(e, p, nil), where, ci.InvalidState)
		case v.room > 0:
			kit.WantExactly(t, v.call(e, p, make([]byte, v.room+1)), where+" with too much private data",
				ci.InvalidParameter)
		}
	}
	p.quiet("after calls that failed", func(m message) bool {
		switch m.msg.(type) { // the manager may repeat what it has sent before
		case *mad.MRA, *mad.REQ, *mad.REP:
			return true
		}
		return false
	})
	inState(t, e, state, "after calls that failed")
}

var CMState01 = states.Must("CM-State-01", "IBTA 12.9.7", "cm, Conn",
	"A call that the state of the passive end does not allow fails with InvalidState. It sends nothing and does not "+
		"change the state, and the connection continues.")

var _ = states.Case(validate.Case{
	ID:    "cm.state.passive",
	Title: "every call in every state of the passive end",
	Run:   statePassive,
}, CMState01)

func statePassive(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	q := p.req(service, 0x321)
	q.Primary.AckTimeout = 20 // time-wait lasts 4 s, so that the state can be observed on a busy machine
	p.send(0x1000, q)
	y.Conn = accepted(t, l)
	onlyAllows(y, p, cm.StateREQRcvd, "Accept", "Delay", "Reject", "Handoff")
	kit.OK(t, y.Delay(20, private('m', mad.MRAPrivateLen)), "cm.Conn.Delay of the REQ")
	expectMRA(p, mad.WhichREQ, y.ID(), q.LocalCommID)
	onlyAllows(y, p, cm.StateMRAREQSent, "Accept", "Delay", "Reject", "Handoff")
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
	r, _ := expect[*mad.REP](p, "REP")
	onlyAllows(y, p, cm.StateREPSent, "Established")
	p.send(0x1000, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
	_, err := awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
	onlyAllows(y, p, cm.StateEstablished, "Established", "Disconnect")
	p.send(0x2000, &mad.DREQ{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID, RemoteQPN: r.LocalQPN})
	event(t, y, cm.EventDisconnect, "event of the end that receives the DREQ")
	onlyAllows(y, p, cm.StateDREQRcvd, "Disconnect", "AnswerDisconnect")
	kit.OK(t, y.AnswerDisconnect(private('d', mad.DREPPrivateLen)), "cm.Conn.AnswerDisconnect")
	d, _ := expect[*mad.DREP](p, "DREP")
	kit.SameBytes(t, "private data of the DREP", d.PrivateData[:], private('d', mad.DREPPrivateLen))
	onlyAllows(y, p, cm.StateTimeWait)
}

// expectMRA waits for an MRA with the largest private data, as statePassive sends it.
func expectMRA(p *script, which mad.CMWhich, ours, theirs uint32) {
	a, _ := expect[*mad.MRA](p, "MRA")
	kit.Equal(p.t, "message that the MRA answers", a.Message, which)
	kit.Equal(p.t, "communication IDs of the MRA", [2]uint32{a.LocalCommID, a.RemoteCommID}, [2]uint32{ours, theirs})
	kit.Equal(p.t, "service timeout of the MRA", a.ServiceTimeout, 20)
	kit.SameBytes(p.t, "private data of the MRA", a.PrivateData[:], private('m', mad.MRAPrivateLen))
}

var CMState02 = states.Must("CM-State-02", "IBTA 12.9.7", "cm, Conn",
	"A call that the state of the active end does not allow fails with InvalidState. It sends nothing and does not "+
		"change the state, and the connection continues.")

var _ = states.Case(validate.Case{
	ID:    "cm.state.active",
	Title: "every call in every state of the active end",
	Run:   stateActive,
}, CMState02)

func stateActive(t *validate.T) {
	x, p, await := connecting(t, nil)
	q, m := expect[*mad.REQ](p, "REQ")
	r := p.rep(q, 0x321)
	r.TargetAckDelay = 20 // time-wait lasts 4 s
	p.send(m.TID, r)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	onlyAllows(x, p, cm.StateREPRcvd, "Confirm", "Delay", "Reject")
	kit.OK(t, x.Delay(20, private('m', mad.MRAPrivateLen)), "cm.Conn.Delay of the REP")
	expectMRA(p, mad.WhichREP, q.LocalCommID, r.LocalCommID)
	onlyAllows(x, p, cm.StateMRAREPSent, "Confirm", "Delay", "Reject")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	kit.OK(t, x.Confirm(private('r', mad.RTUPrivateLen)), "cm.Conn.Confirm")
	u, _ := expect[*mad.RTU](p, "RTU")
	kit.Equal(t, "communication IDs of the RTU", [2]uint32{u.LocalCommID, u.RemoteCommID},
		[2]uint32{q.LocalCommID, r.LocalCommID})
	kit.SameBytes(t, "private data of the RTU", u.PrivateData[:], private('r', mad.RTUPrivateLen))
	onlyAllows(x, p, cm.StateEstablished, "Established", "LoadAlternate", "Disconnect")
	awaitEnd := x.disconnecting(nil)
	_, m = expect[*mad.DREQ](p, "DREQ")
	inState(t, x, cm.StateDREQSent, "after the DREQ")
	p.send(m.TID, &mad.DREP{LocalCommID: r.LocalCommID, RemoteCommID: q.LocalCommID})
	_, err = awaitEnd()
	kit.OK(t, err, "cm.Conn.Disconnect")
	onlyAllows(x, p, cm.StateTimeWait)
}

var CMState03 = states.Must("CM-State-03", "IBTA 12.6.7", "cm, Conn.Reject",
	"The consumer rejects a request or a reply with a REJ. It carries both communication IDs, the reason, the "+
		"rejected message, and the consumer's information and private data.")

var (
	_ = states.Case(validate.Case{
		ID:    "cm.state.reject-req",
		Title: "the consumer rejects a request",
		Run:   rejectREQ,
	}, CMState03)
	_ = states.Case(validate.Case{
		ID:    "cm.state.reject-rep",
		Title: "the consumer rejects a reply",
		Run:   rejectREP,
	}, CMState03)
)

func rejectREQ(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	q := p.req(service, 0x321)
	p.send(0x1000, q)
	y.Conn = accepted(t, l)
	kit.WantExactly(t, y.Reject(mad.RejConsumer, make([]byte, mad.CMInfoLen+1), nil),
		"cm.Conn.Reject with too much information", ci.InvalidParameter)
	inState(t, y, cm.StateREQRcvd, "after a call that failed")
	reject(y, p, mad.WhichREQ, y.ID(), q.LocalCommID, 0x1000)
	p.send(0x1000, q)
	again, _ := expect[*mad.REJ](p, "REJ for a duplicate REQ")
	kit.Equal(t, "reason for a duplicate REQ", again.Reason, mad.RejConsumer)
}

func rejectREP(t *validate.T) {
	x, p, await := connecting(t, nil)
	q, m := expect[*mad.REQ](p, "REQ")
	r := p.rep(q, 0x321)
	p.send(m.TID, r)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	reject(x, p, mad.WhichREP, q.LocalCommID, r.LocalCommID, m.TID)
}

// reject rejects a message with the largest information and private data, and checks the REJ.
func reject(e *end, p *script, which mad.CMWhich, ours, theirs uint32, tid uint64) {
	t := p.t
	info, data := private('i', mad.CMInfoLen), private('j', mad.REJPrivateLen)
	kit.OK(t, e.Reject(mad.RejConsumer, info, data), "cm.Conn.Reject")
	j, m := expect[*mad.REJ](p, "REJ")
	kit.Equal(t, "transaction ID of the REJ", m.TID, tid)
	kit.Equal(t, "rejected message", j.Message, which)
	kit.Equal(t, "reason", j.Reason, mad.RejConsumer)
	kit.Equal(t, "communication IDs of the REJ", [2]uint32{j.LocalCommID, j.RemoteCommID}, [2]uint32{ours, theirs})
	kit.SameBytes(t, "additional information", j.AdditionalInfo(), info)
	kit.SameBytes(t, "private data", j.PrivateData[:], data)
	kit.WantExactly(t, e.Reject(mad.RejConsumer, nil, nil), "second cm.Conn.Reject", ci.InvalidState)
}
