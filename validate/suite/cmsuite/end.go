package cmsuite

import (
	"context"
	"errors"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Ends of connections, and changes of their alternate paths.
var ends = area()

// soon returns the time until which a case waits for messages that must not arrive.
func soon() time.Time { return time.Now().Add(20 * time.Millisecond) }

// ending returns an established connection between the manager of side a and the script.
func ending(t *validate.T, change func(*mad.REQ)) (y *end, p *script, q *mad.REQ, r *mad.REP) {
	y, p, l := serving(t, cm.ListenConfig{})
	q = p.req(service, 0x321)
	if change != nil {
		change(q)
	}
	return y, p, q, p.established(y, l, q)
}

func (e *end) disconnecting(private []byte) func() ([]byte, error) {
	return result(e.side.t, "cm.Conn.Disconnect",
		func(ctx context.Context) ([]byte, error) { return e.Disconnect(ctx, private) })
}

var CMEnd01 = ends.Must("CM-End-01", "IBTA 12.6.10", "cm, Conn.Disconnect",
	"The DREQ carries both communication IDs and the peer's QP number. The DREP ends the connection.")

var _ = ends.Case(validate.Case{ID: "cm.end.dreq", Title: "each field of the DREQ", Run: endForm}, CMEnd01)

func endForm(t *validate.T) {
	y, p, q, r := ending(t, nil)
	awaitEnd := y.disconnecting(private('d', mad.DREQPrivateLen))
	d, m := expect[*mad.DREQ](p, "DREQ")
	kit.Equal(t, "communication IDs", [2]uint32{d.LocalCommID, d.RemoteCommID}, [2]uint32{r.LocalCommID, q.LocalCommID})
	kit.Equal(t, "QP number of the peer in the DREQ", d.RemoteQPN, 0x321)
	kit.SameBytes(t, "private data", d.PrivateData[:], private('d', mad.DREQPrivateLen))
	inState(t, y, cm.StateDREQSent, "after the DREQ")
	e := &mad.DREP{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID}
	copy(e.PrivateData[:], private('e', mad.DREPPrivateLen))
	p.send(m.TID, e)
	got, err := awaitEnd()
	kit.OK(t, err, "cm.Conn.Disconnect")
	kit.SameBytes(t, "private data of the DREP", got, e.PrivateData[:])
}

var CMEnd02 = ends.Must("CM-End-02", "IBTA 12.9.8.5", "cm, Conn.Disconnect",
	"A DREQ without a reply is retransmitted unchanged. After the last retry the connection ends.")

var _ = ends.Case(validate.Case{ID: "cm.end.retry", Title: "a DREQ without a reply", Run: endRetry}, CMEnd02)

func endRetry(t *validate.T) {
	const retries = 2
	y, p, _, _ := ending(t,
		func(q *mad.REQ) { q.MaxCMRetries, q.LocalTimeout, q.RemoteTimeout = retries, 12, 12 }) // 17 ms
	awaitEnd := y.disconnecting(nil)
	first, m := expect[*mad.DREQ](p, "DREQ")
	for range retries {
		again, m2 := expect[*mad.DREQ](p, "retransmission of the DREQ")
		kit.Equal(t, "retransmitted DREQ", *again, *first)
		kit.Equal(t, "transaction ID of the retransmitted DREQ", m2.TID, m.TID)
	}
	_, err := awaitEnd()
	kit.True(t, errors.Is(err, cm.ErrTimeout), "cm.Conn.Disconnect", "cm.ErrTimeout", "%v", err)
	p.quiet("after the last DREQ", nil)
}

var CMEnd03 = ends.Must("CM-End-03", "IBTA 12.9.7.1", "cm",
	"A duplicate DREQ is answered with a DREP again, also in time-wait.")

var _ = ends.Case(validate.Case{ID: "cm.end.dreq-again", Title: "the DREQ arrives three times", Run: endAgain}, CMEnd03)

func endAgain(t *validate.T) {
	y, p, q, r := ending(t, nil)
	d := &mad.DREQ{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID, RemoteQPN: r.LocalQPN}
	p.send(0x2000, d)
	event(t, y, cm.EventDisconnect, "event of the end that receives the DREQ")
	kit.OK(t, y.AnswerDisconnect([]byte("bye")), "cm.Conn.AnswerDisconnect")
	for i := range 3 {
		e, m := expect[*mad.DREP](p, "DREP")
		kit.Equal(t, "communication IDs", [2]uint32{e.LocalCommID, e.RemoteCommID},
			[2]uint32{r.LocalCommID, q.LocalCommID})
		kit.Equal(t, "transaction ID", m.TID, 0x2000)
		if i < 2 {
			p.send(0x2000, d)
		}
	}
	// A DREQ for an unknown connection must get a DREP, too. Otherwise the peer retries in vain.
	p.send(0x3000, &mad.DREQ{LocalCommID: 0x1111, RemoteCommID: ^r.LocalCommID, RemoteQPN: 4})
	e, _ := expect[*mad.DREP](p, "DREP for an unknown connection")
	kit.Equal(t, "remote communication ID of the DREP", e.RemoteCommID, 0x1111)
}

var CMEnd04 = ends.Must("CM-End-04", "IBTA 12.9.7.1", "cm, Conn.Disconnect",
	"When both ends disconnect at the same time, both connections end.")

var _ = ends.Case(validate.Case{ID: "cm.end.both", Title: "both ends disconnect", Run: endBoth}, CMEnd04)

func endBoth(t *validate.T) {
	// time-wait lasts 4 s, so that the state can be observed on a busy machine
	y, p, q, r := ending(t, func(q *mad.REQ) { q.Primary.AckTimeout = 20 })
	awaitEnd := y.disconnecting(nil)
	_, m := expect[*mad.DREQ](p, "DREQ")
	p.send(0x2000, &mad.DREQ{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID, RemoteQPN: r.LocalQPN})
	expect[*mad.DREP](p, "DREP for a DREQ that crossed the manager's own")
	p.send(m.TID, &mad.DREP{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
	_, err := awaitEnd()
	kit.OK(t, err, "cm.Conn.Disconnect")
	inState(t, y, cm.StateTimeWait, "after both ends disconnected")
}

var CMEnd05 = ends.Must("CM-End-05", "IBTA 12.9.8.3.1", "cm, EventRejected",
	"A REJ with reason stale connection ends an established connection, and the consumer is notified.")

var _ = ends.Add("cm.end.stale", "the peer reports the connection as stale", endStale, CMEnd05)

func endStale(t *validate.T) {
	y, p, q, r := ending(t, nil)
	p.send(5, &mad.REJ{
		LocalCommID:  q.LocalCommID,
		RemoteCommID: r.LocalCommID,
		Message:      mad.WhichOther,
		Reason:       mad.RejStaleConnection,
	})
	e := event(t, y, cm.EventRejected, "event after a REJ with reason stale connection")
	var rej *cm.RejectError
	kit.True(t, errors.As(e.Err, &rej) && rej.Reason == mad.RejStaleConnection, "reason in the event",
		"stale connection", "%v", e.Err)
}

var CMEnd06 = ends.Must("CM-End-06", "IBTA 12.8.1", "cm, EventAlternate, AnswerAlternate",
	"A LAP is reported to the consumer. Its answer is sent as an APR, and again when the LAP is repeated.")

// Without it, the manager rejects every proposal.
var _ = ends.Needing(validate.Needs{Caps: ci.CapAPM}).Add("cm.alternate", "an alternate path is proposed twice",
	alternate, CMEnd06)

func alternate(t *validate.T) {
	y, p, q, r := ending(t, nil)
	lap := &mad.LAP{
		LocalCommID:   q.LocalCommID,
		RemoteCommID:  r.LocalCommID,
		RemoteQPN:     r.LocalQPN,
		RemoteTimeout: 18,
		Alternate:     q.Primary,
	}
	lap.Alternate.LocalGID[15] ^= 0x40 // another port of the peer
	copy(lap.PrivateData[:], private('l', mad.LAPPrivateLen))
	p.send(0x5000, lap)
	e := event(t, y, cm.EventAlternate, "event after a LAP")
	kit.SameBytes(t, "private data of the LAP", e.Private, lap.PrivateData[:])
	kit.True(t, e.LAP != nil && *e.LAP == *lap, "LAP in the event", "the LAP that was sent", "%+v", e.LAP)
	kit.OK(t, y.AnswerAlternate(mad.APRRejected, []byte("info"), []byte("private")), "cm.Conn.AnswerAlternate")
	first, m := expect[*mad.APR](p, "APR")
	kit.Equal(t, "status", first.Status, mad.APRRejected)
	kit.Equal(t, "transaction ID", m.TID, 0x5000)
	kit.Equal(t, "communication IDs", [2]uint32{first.LocalCommID, first.RemoteCommID},
		[2]uint32{r.LocalCommID, q.LocalCommID})
	kit.SameBytes(t, "additional information", first.AdditionalInfo(), []byte("info"))
	kit.SameBytes(t, "private data of the APR", first.PrivateData[:7], []byte("private"))
	p.send(0x5000, lap)
	again, _ := expect[*mad.APR](p, "APR for a duplicate LAP")
	kit.Equal(t, "APR for a duplicate LAP", *again, *first)
	inState(t, y, cm.StateEstablished, "after a rejected LAP")
}

var CMEnd07 = ends.Must("CM-End-07", "IBTA 12.9", "cm, Service.Close",
	"Closing a manager disconnects its connections.")

var _ = ends.Case(validate.Case{ID: "cm.end.close", Title: "the manager is closed", Run: endClose}, CMEnd07)

func endClose(t *validate.T) {
	a, b := sides(t)
	p := newScript(t, b, a)
	y, _ := newEnds(a, b)
	m := a.manager()
	l, err := m.Listen(cm.ListenConfig{Service: service})
	kit.OK(t, err, "cm.Service.Listen")
	q := p.req(service, 0x321)
	r := p.established(y, l, q)
	kit.OK(t, m.Close(), "cm.Service.Close")
	d, _ := expect[*mad.DREQ](p, "DREQ of a closing manager")
	kit.Equal(t, "communication IDs", [2]uint32{d.LocalCommID, d.RemoteCommID}, [2]uint32{r.LocalCommID, q.LocalCommID})
	_, err = l.Accept(t.Context())
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Listener.Accept of a closed manager", "cm.ErrClosed", "%v", err)
	_, err = m.Listen(cm.ListenConfig{Service: service})
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Service.Listen of a closed manager", "cm.ErrClosed", "%v", err)
}

var CMEnd08 = ends.Must("CM-End-08", "IBTA 12.9.3", "cm, Listener.Close",
	"Closing a listener rejects the REQs that wait for Accept and later ones with reason invalid service ID. Requests "+
		"that were accepted are not affected.")

var _ = ends.Add("cm.end.listener", "close a listener with an accepted request and two that wait", endListener, CMEnd08)

func endListener(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{Backlog: 4})
	send := func(to mad.ServiceID, qpn ci.QPN) *mad.REQ {
		q := p.req(to, qpn)
		q.LocalTimeout, q.RemoteTimeout = 22, 22 // 17 s, so that the REQs stay pending
		p.send(uint64(qpn), q)
		return q
	}
	taken := send(service, 0x1001)
	y.Conn = accepted(t, l)
	waiting := map[uint32]bool{send(service, 0x1002).LocalCommID: true, send(service, 0x1003).LocalCommID: true}
	send(service+1, 0x1004) // its answer shows that the manager has received those before it
	expect[*mad.REJ](p, "answer to a REQ without a listener")
	kit.OK(t, l.Close(), "cm.Listener.Close")
	for range 2 {
		rej, _ := expect[*mad.REJ](p, "answer to a REQ that waited for Accept")
		kit.Equal(t, "reason", rej.Reason, mad.RejInvalidServiceID)
		kit.True(t, waiting[rej.RemoteCommID], "remote communication ID of the REJ", "that of a REQ that waited", "%#x",
			rej.RemoteCommID)
		delete(waiting, rej.RemoteCommID)
	}
	late := send(service, 0x1005)
	rej, _ := expect[*mad.REJ](p, "answer to a REQ after Close")
	kit.Equal(t, "reason", rej.Reason, mad.RejInvalidServiceID)
	kit.Equal(t, "remote communication ID of the REJ", rej.RemoteCommID, late.LocalCommID)
	_, err := l.Accept(t.Context())
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Listener.Accept of a closed listener", "cm.ErrClosed", "%v", err)
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
	rep, _ := expect[*mad.REP](p, "REP to the request that was accepted")
	p.send(0x1001, &mad.RTU{LocalCommID: taken.LocalCommID, RemoteCommID: rep.LocalCommID})
	_, err = awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
}
