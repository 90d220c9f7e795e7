package cmsuite

import (
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Consumers that do not answer in time. The manager answers in their place.
var delays = area()

// delayTime is the exponent of the response times of these cases, 67 ms. The manager acts after half of it.
const delayTime = 14

// longerMRA waits for the MRA that the manager sends by itself. It requests more time than the peer waits anyway.
func longerMRA(p *script, which mad.CMWhich, ours, theirs uint32, tid uint64) *mad.MRA {
	a, m := expect[*mad.MRA](p, "MRA of a manager whose consumer does not answer")
	kit.Equal(p.t, "message that the MRA answers", a.Message, which)
	kit.Equal(p.t, "communication IDs of the MRA", [2]uint32{a.LocalCommID, a.RemoteCommID}, [2]uint32{ours, theirs})
	kit.Equal(p.t, "transaction ID of the MRA", m.TID, tid)
	kit.True(p.t, a.ServiceTimeout > delayTime, "service timeout of the MRA", "more than the exponent 14", "%d",
		a.ServiceTimeout)
	kit.SameBytes(p.t, "private data of the MRA", a.PrivateData[:], make([]byte, mad.MRAPrivateLen))
	return a
}

// unreachable waits for the end of a connection whose consumer never answers.
func (e *end) unreachable(p *script, which mad.CMWhich, ours, theirs uint32, tid uint64) {
	t := p.t
	rej, m := expect[*mad.REJ](p, "REJ after the time of the MRA")
	kit.Equal(t, "rejected message", rej.Message, which)
	kit.Equal(t, "reason", rej.Reason, mad.RejTimeout)
	kit.Equal(t, "communication IDs of the REJ", [2]uint32{rej.LocalCommID, rej.RemoteCommID}, [2]uint32{ours, theirs})
	kit.Equal(t, "transaction ID of the REJ", m.TID, tid)
	end := event(t, e, cm.EventUnreachable, "event after the time of the MRA")
	kit.True(t, errors.Is(end.Err, cm.ErrTimeout), "cause in the event", "cm.ErrTimeout", "%v", end.Err)
}

var CMDelay01 = delays.Must("CM-Delay-01", "IBTA 12.9.8.4", "cm, Listener.Accept",
	"If the consumer does not answer a REQ, the manager requests more time with an MRA. When that has passed, too, "+
		"the request ends with a REJ, timeout. The consumer is notified, and can no longer answer.")

var _ = delays.Case(validate.Case{
	ID:    "cm.delay.request",
	Title: "the consumer answers a REQ too late",
	Run:   delayRequest,
}, CMDelay01)

func delayRequest(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	q := p.req(service, 0x321)
	q.RemoteTimeout, q.MaxCMRetries = delayTime, 1
	// The request is taken when it arrives. Later, on a busy machine, it may have ended.
	await := result(t, "cm.Listener.Accept", l.Accept)
	p.send(0x1000, q)
	var err error
	y.Conn, err = await()
	kit.OK(t, err, "cm.Listener.Accept")
	longerMRA(p, mad.WhichREQ, y.ID(), q.LocalCommID, 0x1000)
	y.unreachable(p, mad.WhichREQ, y.ID(), q.LocalCommID, 0x1000)
	err = y.StartAccept(t.Context(), y.acceptance(nil), func(error) {})
	kit.WantExactly(t, err, "cm.Conn.StartAccept of a request that has ended", ci.InvalidState)
	kit.WantExactly(t, y.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject of a request that has ended",
		ci.InvalidState)
	p.quiet("after calls that failed", nil)

	// A patient peer gets its MRA, and a consumer that answers meanwhile is not too late.
	q = p.req(service, 0x322)
	q.RemoteTimeout, q.Primary.AckTimeout = 17, 22
	p.send(0x2000, q)
	y.Conn = accepted(t, l)
	longerMRA(p, mad.WhichREQ, y.ID(), q.LocalCommID, 0x2000)
	inState(t, y, cm.StateMRAREQSent, "after the MRA")
	kit.OK(t, y.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject after the MRA")
	rej, _ := expect[*mad.REJ](p, "REJ of a consumer that answers after the MRA")
	kit.Equal(t, "reason", rej.Reason, mad.RejConsumer)
}

var CMDelay02 = delays.Must("CM-Delay-02", "IBTA 12.9.8.4", "cm, Conn.Confirm",
	"If the consumer does not answer a REP, the manager requests more time with an MRA. When that has passed, too, "+
		"the connection ends with a REJ, timeout. The consumer is notified, and can no longer answer.")

var _ = delays.Case(validate.Case{
	ID:    "cm.delay.reply",
	Title: "the consumer answers a REP too late",
	Run:   delayReply,
}, CMDelay02)

func delayReply(t *validate.T) {
	x, p, await := connecting(t, func(c *cm.ConnectConfig) { c.ResponseTime, c.MaxRetries = delayTime, 1 })
	q, m := expect[*mad.REQ](p, "REQ")
	r := p.rep(q, 0x321)
	p.send(m.TID, r)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	longerMRA(p, mad.WhichREP, q.LocalCommID, r.LocalCommID, m.TID)
	x.unreachable(p, mad.WhichREP, q.LocalCommID, r.LocalCommID, m.TID)
	kit.WantExactly(t, x.Confirm(nil), "cm.Conn.Confirm of a connection that has ended", ci.InvalidState)
	p.quiet("after a call that failed", nil)
}

var CMDelay03 = delays.Must("CM-Delay-03", "IBTA 12.9.7", "cm, Conn.AnswerDisconnect",
	"If the consumer does not answer a DREQ, the manager sends the DREP when the response time has passed.")

var _ = delays.Case(validate.Case{
	ID:    "cm.delay.disconnect",
	Title: "the consumer does not answer a DREQ",
	Run:   delayDisconnect,
}, CMDelay03)

func delayDisconnect(t *validate.T) {
	// time-wait lasts 4 s, so that the state can be observed on a busy machine
	y, p, q, r := ending(t, func(q *mad.REQ) { q.RemoteTimeout, q.Primary.AckTimeout = delayTime, 20 })
	p.send(0x2000, &mad.DREQ{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID, RemoteQPN: r.LocalQPN})
	event(t, y, cm.EventDisconnect, "event of the end that receives the DREQ")
	d, m := expect[*mad.DREP](p, "DREP of a manager whose consumer does not answer")
	kit.Equal(t, "transaction ID of the DREP", m.TID, 0x2000)
	kit.Equal(t, "communication IDs of the DREP", [2]uint32{d.LocalCommID, d.RemoteCommID},
		[2]uint32{r.LocalCommID, q.LocalCommID})
	event(t, y, cm.EventDisconnected, "event after the DREP")
	inState(t, y, cm.StateTimeWait, "after the DREP")
	kit.WantExactly(t, y.AnswerDisconnect(nil), "cm.Conn.AnswerDisconnect after the DREP", ci.InvalidState)
}
