package cmsuite

import (
	"context"
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Alternate paths that the manager under test proposes.
var proposals = area().Needing(validate.Needs{Caps: ci.CapAPM})

// proposing returns an established connection of the manager of side a to the script, whose LAPs have the timeout that
// the exponent gives.
func proposing(t *validate.T, timeout mad.TimeExp, retries uint8) (x *end, p *script, q *mad.REQ, r *mad.REP) {
	x, p, await := connecting(t, func(c *cm.ConnectConfig) {
		c.ResponseTime, c.RemoteResponseTime, c.MaxRetries = timeout, timeout, retries
	})
	q, m := expect[*mad.REQ](p, "REQ")
	r = p.rep(q, 0x321)
	p.send(m.TID, r)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	kit.OK(t, x.Confirm(nil), "cm.Conn.Confirm")
	expect[*mad.RTU](p, "RTU")
	return x, p, q, r
}

func (e *end) proposing(p *script, private []byte) func() (*mad.APR, error) {
	return result(p.t, "cm.Conn.LoadAlternate", func(ctx context.Context) (*mad.APR, error) {
		return e.LoadAlternate(ctx, cm.AlternateConfig{Path: e.side.path(p.here), Private: private})
	})
}

// apr returns the answer of the script to a LAP.
func apr(l *mad.LAP, status mad.APRStatus) *mad.APR {
	return &mad.APR{LocalCommID: l.RemoteCommID, RemoteCommID: l.LocalCommID, Status: status}
}

var CMAlt01 = proposals.Must("CM-Alt-01", "IBTA 12.8.1", "cm, Conn.LoadAlternate, AlternateAttr",
	"A LAP carries both communication IDs, the peer's QP number, and the path and private data that the consumer set. "+
		"When the APR reports the path as loaded, the consumer gets its attributes.")

var _ = proposals.Add("cm.propose.form", "each field of the LAP", proposeForm, CMAlt01)

func proposeForm(t *validate.T) {
	x, p, q, r := proposing(t, 20, 3)
	_, _, err := x.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr before a proposal", ci.InvalidState)
	await := x.proposing(p, private('l', mad.LAPPrivateLen))
	l, m := expect[*mad.LAP](p, "LAP")
	kit.Equal(t, "communication IDs", [2]uint32{l.LocalCommID, l.RemoteCommID}, [2]uint32{q.LocalCommID, r.LocalCommID})
	kit.Equal(t, "QP number of the peer in the LAP", l.RemoteQPN, r.LocalQPN)
	kit.Equal(t, "remote CM response timeout", l.RemoteTimeout, q.RemoteTimeout)
	kit.Equal(t, "reserved fields", [2]uint32{l.Reserved8, l.Reserved16}, [2]uint32{})
	kit.Equal(t, "GIDs of the path", [2]ci.GID{l.Alternate.LocalGID, l.Alternate.RemoteGID},
		[2]ci.GID{q.Primary.LocalGID, q.Primary.RemoteGID})
	kit.Equal(t, "LIDs of the path", [2]uint16{l.Alternate.LocalLID, l.Alternate.RemoteLID},
		[2]uint16{q.Primary.LocalLID, q.Primary.RemoteLID})
	kit.SameBytes(t, "private data", l.PrivateData[:], private('l', mad.LAPPrivateLen))
	err = x.StartLoadAlternate(t.Context(), cm.AlternateConfig{Path: x.side.path(p.here)}, func(*mad.APR, error) {})
	kit.WantExactly(t, err, "cm.Conn.StartLoadAlternate while a proposal is pending", ci.InvalidState)
	wrong := apr(l, mad.APRRejected)
	p.send(m.TID+1, wrong) // not the answer, because of its transaction ID
	answer := apr(l, mad.APRLoaded)
	copy(answer.PrivateData[:], private('a', mad.APRPrivateLen))
	p.send(m.TID, answer)
	got, err := await()
	kit.OK(t, err, "cm.Conn.LoadAlternate")
	kit.Equal(t, "APR that the consumer gets", *got, *answer)
	set, attr, err := x.AlternateAttr()
	kit.OK(t, err, "cm.Conn.AlternateAttr")
	kit.Equal(t, "fields of cm.Conn.AlternateAttr", set, ci.QPFieldAlternate|ci.QPFieldAPM)
	kit.Equal(t, "address of the alternate path", attr.Alternate.AV, x.side.path(p.here).AV)
	inState(t, x, cm.StateEstablished, "after the proposal")
}

var CMAlt02 = proposals.Must("CM-Alt-02", "IBTA 12.8.1", "cm, Conn.LoadAlternate",
	"A LAP without an answer is retransmitted unchanged, and no more after the last retry. The connection is kept.")

var _ = proposals.Add("cm.propose.retry", "a LAP without an answer", proposeRetry, CMAlt02)

func proposeRetry(t *validate.T) {
	const retries = 2
	x, p, _, _ := proposing(t, 12, retries) // 17 ms
	await := x.proposing(p, nil)
	first, m := expect[*mad.LAP](p, "LAP")
	for range retries {
		again, m2 := expect[*mad.LAP](p, "retransmission of the LAP")
		kit.Equal(t, "retransmitted LAP", *again, *first)
		kit.Equal(t, "transaction ID of the retransmitted LAP", m2.TID, m.TID)
	}
	_, err := await()
	kit.True(t, errors.Is(err, cm.ErrTimeout), "cm.Conn.LoadAlternate", "cm.ErrTimeout", "%v", err)
	p.quiet("after the last LAP", nil)
	inState(t, x, cm.StateEstablished, "after a proposal without an answer")
}

var CMAlt03 = proposals.Must("CM-Alt-03", "IBTA 12.8.1", "cm, Conn.LoadAlternate",
	"An MRA in answer to a LAP makes the manager wait as long as it says, without a retransmission.")

var _ = proposals.Add("cm.propose.mra", "the peer requests more time for a LAP", proposeDelayed, CMAlt03)

func proposeDelayed(t *validate.T) {
	x, p, q, r := proposing(t, 14, 15) // 67 ms
	await := x.proposing(p, nil)
	l, m := expect[*mad.LAP](p, "LAP")
	p.send(m.TID, &mad.MRA{LocalCommID: r.LocalCommID, RemoteCommID: q.LocalCommID, Message: mad.WhichLAP,
		ServiceTimeout: 21}) // 8.6 s
	event := nextEvent(t, x, cm.EventDelayed)
	kit.Equal(t, "event after an MRA that answers the LAP", event.Type, cm.EventDelayed)
	p.quiet("copies sent before the MRA arrived", func(m message) bool { _, ok := m.msg.(*mad.LAP); return ok })
	for range 6 { // twice the time after which a LAP without an MRA is sent again
		p.quiet("while the peer has requested more time", nil)
	}
	p.send(m.TID, apr(l, mad.APRRejected))
	_, err := await()
	var refused *cm.AlternateError
	kit.True(t, errors.As(err, &refused) && refused.APR.Status == mad.APRRejected, "cm.Conn.LoadAlternate",
		"cm.AlternateError, path rejected", "%v", err)
	_, _, err = x.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr after a rejected proposal", ci.InvalidState)
	inState(t, x, cm.StateEstablished, "after a rejected proposal")
}

// nextEvent waits for an event of a type. It skips others.
func nextEvent(t *validate.T, c cm.Conn, want cm.EventType) cm.Event {
	ctx, cancel := wait(t)
	defer cancel()
	for {
		e, err := c.Next(ctx)
		if err != nil {
			t.Failf("events of the connection", want.String(), "no event: %v", err)
		}
		if e.Type == want {
			return e
		}
	}
}
