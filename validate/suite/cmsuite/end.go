package cmsuite

import (
	"context"
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Ends of connections.
var ends = area()

// ending returns an established connection between the manager of side a and the script.
func ending(t *validate.T, change func(*mad.REQ)) (y *end, p *script, q *mad.REQ, r *mad.REP) {
	y, p, l := serving(t)
	q = p.req()
	if change != nil {
		change(q)
	}
	return y, p, q, p.established(y, l, q)
}

func (e *end) disconnecting(private []byte) func() ([]byte, error) {
	return result(e.side.t, "cm.Conn.Disconnect",
		func(ctx context.Context) ([]byte, error) { return e.Disconnect(ctx, private) })
}

var _ = ends.Add("cm.end.dreq", "each field of the DREQ", func(t *validate.T) {
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
}, ends.Must("CM-End-01", "IBTA 12.6.10", "cm, Conn.Disconnect",
	"The DREQ carries both communication IDs and the peer's QP number. The DREP ends the connection."))

var _ = ends.Add("cm.end.retry", "a DREQ without a reply", func(t *validate.T) {
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
}, ends.Must("CM-End-02", "IBTA 12.9.8.5", "cm, Conn.Disconnect",
	"A DREQ without a reply is retransmitted unchanged. After the last retry the connection ends."))

var _ = ends.Add("cm.end.dreq-again", "the DREQ arrives three times", func(t *validate.T) {
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
}, ends.Must("CM-End-03", "IBTA 12.9.7.1", "cm",
	"A duplicate DREQ is answered with a DREP again, also in time-wait."))
