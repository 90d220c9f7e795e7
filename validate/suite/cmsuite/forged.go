package cmsuite

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Messages that do not come from the peer of a connection.
var forgeries = area()

// third returns a sender with another address than the peer's: the adapter under test sends to itself. It receives
// nothing, since the manager does.
func (p *script) third() *script {
	s := p.there
	return &script{t: p.t, here: s, there: s, ids: p.ids ^ 0x5555,
		to:    mads.Address{AV: s.ca.AddressOf(s.ca), QPN: 1},
		agent: s.agent(mads.AgentConfig{Name: "third", Class: mad.ClassCM, Version: mad.ClassVersionCM})}
}

// isAnswer permits the messages that answer one for no connection (IBTA volume 1, 12.9.7).
func isAnswer(m message) bool {
	switch m.msg.(type) {
	case *mad.DREP, *mad.REJ, *mad.APR, *mad.MRA, *mad.REP:
		return true
	}
	return false
}

var CMForge01 = forgeries.Must("CM-Forge-01", "IBTA 12.9.7", "cm, Conn",
	"A message that does not carry both communication IDs of a connection, or names another QP, has no effect on the "+
		"connection, whoever sends it.")

var _ = forgeries.Add("cm.forged.ids",
	"messages with one wrong communication ID or a wrong QP, from the peer and from a third address", forgedIDs,
	CMForge01)

func forgedIDs(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	q := p.req(service, 0x321)
	r := p.established(y, l, q)
	theirs, ours, qpn := q.LocalCommID, r.LocalCommID, r.LocalQPN
	for _, from := range []*script{p, p.third()} {
		for _, ids := range [][2]uint32{{theirs ^ 1, ours}, {theirs, ours ^ 0x80000000}, {ours, theirs}, {0, ours},
			{theirs, 0}} {
			from.send(0x2000, &mad.DREQ{LocalCommID: ids[0], RemoteCommID: ids[1], RemoteQPN: qpn})
			if ids[1] == ours && ids[0] != 0 { // other REJs may apply, if they come from the peer's port
				from.send(0x2001, &mad.REJ{LocalCommID: ids[0], RemoteCommID: ids[1], Reason: mad.RejStaleConnection})
			}
			from.send(0x2002, &mad.LAP{LocalCommID: ids[0], RemoteCommID: ids[1], RemoteQPN: qpn})
			from.send(0x2003, &mad.DREP{LocalCommID: ids[0], RemoteCommID: ids[1]})
		}
		from.send(0x2004, &mad.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: qpn ^ 1})
		p.quiet("after forged messages", isAnswer)
		inState(t, y, cm.StateEstablished, "after forged messages")
	}
	p.send(0x3000, &mad.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: qpn})
	event(t, y, cm.EventDisconnect, "first event, after the peer's own DREQ")
	kit.OK(t, y.AnswerDisconnect(nil), "cm.Conn.AnswerDisconnect")
	for {
		if d, m := expectDREP(p); m.TID == 0x3000 {
			kit.Equal(t, "communication IDs of the DREP", [2]uint32{d.LocalCommID, d.RemoteCommID},
				[2]uint32{ours, theirs})
			return
		}
	}
}

// expectDREP waits for a DREP, and skips the answers to messages for no connection.
func expectDREP(p *script) (*mad.DREP, message) {
	for {
		m := p.recv("DREP")
		if d, ok := m.msg.(*mad.DREP); ok {
			return d, m
		}
		kit.True(p.t, isAnswer(m), "messages after a DREQ", "a DREP", "%s", describe(m.msg))
	}
}

var CMForge02 = forgeries.Must("CM-Forge-02", "IBTA 12.9.7", "cm, Conn",
	"A REJ that carries only one communication ID has no effect if it does not come from the peer's port.")

var _ = forgeries.Add("cm.forged.reject", "REJs with one communication ID, from a third address", forgedReject,
	CMForge02)

func forgedReject(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	third := p.third()
	q := p.req(service, 0x321)
	p.send(0x1000, q)
	y.Conn = accepted(t, l)
	third.send(0x1000, &mad.REJ{LocalCommID: q.LocalCommID, Message: mad.WhichREQ, Reason: mad.RejConsumer})
	p.quiet("after a forged REJ", isAnswer)
	inState(t, y, cm.StateREQRcvd, "after a REJ with the peer's ID from a third address")
	y.move(ci.QPInit, ci.QPRTR)
	await := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
	r, _ := expect[*mad.REP](p, "REP")
	third.send(0x1000, &mad.REJ{RemoteCommID: r.LocalCommID, Message: mad.WhichREP, Reason: mad.RejConsumer})
	p.quiet("after a forged REJ", isAnswer)
	inState(t, y, cm.StateREPSent, "after a REJ with our ID from a third address")
	p.send(0x1000, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
	_, err := await()
	kit.OK(t, err, "cm.Conn.Accept")
	third.send(0x1000, &mad.REJ{RemoteCommID: r.LocalCommID, Reason: mad.RejConsumer})
	p.quiet("after a forged REJ", isAnswer)
	inState(t, y, cm.StateEstablished, "after a REJ of a third address")
}

var CMForge03 = forgeries.Must("CM-Forge-03", "IBTA 12.8.1", "cm, Conn",
	"The active end answers a LAP with an APR that reports it as unsupported, since only the active end may propose a "+
		"path. A LAP for another QP is reported as such.")

var _ = forgeries.Needing(validate.Needs{Caps: ci.CapAPM}).Add("cm.forged.proposal",
	"the passive end proposes an alternate path", forgedProposal, CMForge03)

func forgedProposal(t *validate.T) {
	x, p, q, r := proposing(t, 20, 3)
	for i, c := range []struct {
		qpn  uint32
		want mad.APRStatus
	}{{q.LocalQPN, mad.APRUnsupported}, {q.LocalQPN ^ 1, mad.APRInvalidQPN}} {
		tid := uint64(0x5000 + i)
		p.send(tid, &mad.LAP{LocalCommID: r.LocalCommID, RemoteCommID: q.LocalCommID, RemoteQPN: c.qpn,
			RemoteTimeout: 18, Alternate: q.Primary})
		a, m := expect[*mad.APR](p, "APR")
		kit.Equal(t, "transaction ID of the APR", m.TID, tid)
		kit.Equal(t, "status of the APR", a.Status, c.want)
		kit.Equal(t, "communication IDs of the APR", [2]uint32{a.LocalCommID, a.RemoteCommID},
			[2]uint32{q.LocalCommID, r.LocalCommID})
	}
	inState(t, x, cm.StateEstablished, "after a LAP of the passive end")
	_, _, err := x.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr after a LAP of the passive end", ci.InvalidState)
}
