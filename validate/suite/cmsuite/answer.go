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

// Replies. The certifier sends the REQ message by message, and the manager under test replies.
var answers = area()

// serving makes the manager of side a listen, and returns the script on side b.
func serving(t *validate.T) (y *end, p *script, l cm.Listener) {
	a, b := sides(t)
	p = newScript(t, b, a)
	y, _ = newEnds(a, b, kit.Type(ci.RC))
	return y, p, listen(t, a.manager(), cm.ListenConfig{})
}

// established sends a REQ of the script and completes the connection with an RTU.
func (p *script) established(y *end, l cm.Listener, q *mad.REQ) *mad.REP {
	t := p.t
	p.send(0x1000, q)
	y.Conn = accepted(t, l)
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
	rep, _ := expect[*mad.REP](p, "REP")
	p.send(0x1000, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: rep.LocalCommID})
	_, err := awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
	return rep
}

var _ = answers.Add("cm.answer.form", "each field of the REP", func(t *validate.T) {
	y, p, l := serving(t)
	q := p.req()
	q.ResponderRes, q.InitiatorDepth = 1, 1
	copy(q.PrivateData[:], private('q', mad.REQPrivateLen))
	p.send(0xfedcba9876543210, q)
	y.Conn = accepted(t, l)
	kit.Equal(t, "REQ that the consumer receives", y.Request().REQ, *q)
	kit.Equal(t, "remote communication ID", y.RemoteID(), q.LocalCommID)
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, y.Accept(ctx, y.acceptance(private('p', mad.REPPrivateLen)))
	})
	r, m := expect[*mad.REP](p, "REP")
	kit.Equal(t, "transaction ID", m.TID, 0xfedcba9876543210)
	kit.True(t, r.LocalCommID != 0, "local communication ID of the REP", "not 0", "0")
	kit.Equal(t, "remote communication ID of the REP", r.RemoteCommID, q.LocalCommID)
	kit.Equal(t, "QP number", r.LocalQPN, uint32(y.Num()))
	kit.Equal(t, "CA GUID", r.LocalCAGUID, uint64(y.side.port.CA))
	kit.True(t, r.ResponderRes <= 1 && r.InitiatorDepth <= 1, "depths", "at most the requested ones, 1 and 1",
		"%d and %d", r.ResponderRes, r.InitiatorDepth)
	kit.Equal(t, "RNR retry count", r.RNRRetryCount, 7)
	kit.Equal(t, "RD fields", [2]uint32{r.LocalQKey, r.LocalEECN}, [2]uint32{})
	kit.SameBytes(t, "private data", r.PrivateData[:], private('p', mad.REPPrivateLen))
	p.send(m.TID, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
	_, err := awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
	attr, err := y.End.QP.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "destination QP that Conn.QPAttr set", attr.DestNum, 0x321)
	kit.Equal(t, "starting PSN of the REP", ci.PSN(r.StartingPSN), attr.RQPSN)
	kit.Equal(t, "path MTU that Conn.QPAttr set", attr.MTU, ci.MTU(q.PathMTU))
}, answers.Must("CM-Ans-01", "IBTA 12.6.8", "cm, Conn.Accept",
	"The REP carries both communication IDs, the transaction ID of the REQ, and the QP number, starting PSN and "+
		"depths that the consumer set."))

var _ = answers.Add("cm.answer.req-again",
	"the REQ arrives before, together with and after its reply", func(t *validate.T) {
		y, p, l := serving(t)
		q := p.req()
		for range 3 {
			p.send(0x77, q)
		}
		y.Conn = accepted(t, l)
		y.move(ci.QPInit, ci.QPRTR)
		awaitAccept := result(t, "cm.Conn.Accept",
			func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
		first, _ := expect[*mad.REP](p, "REP")
		p.send(0x77, q)
		again, m := expect[*mad.REP](p, "REP for a duplicate REQ")
		kit.Equal(t, "REP for a duplicate REQ", *again, *first)
		kit.Equal(t, "transaction ID", m.TID, 0x77)
		p.send(0x77, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: first.LocalCommID})
		_, err := awaitAccept()
		kit.OK(t, err, "cm.Conn.Accept")
		p.send(0x77, q)
		p.quiet("for a duplicate REQ of an established connection", func(m message) bool {
			rep, ok := m.msg.(*mad.REP)
			return ok && *rep == *first
		})
		inState(t, y, cm.StateEstablished, "after duplicate REQs")
		ctx, cancel := deadline(t, time.Now().Add(20*time.Millisecond))
		defer cancel()
		c, err := l.Accept(ctx)
		kit.True(t, err != nil, "requests of the listener", "one", "a second, %v", c)
	}, answers.Must("CM-Ans-02", "IBTA 12.9.8.3", "cm, Listener.Accept",
		"A duplicate REQ creates no second request and is answered with the same REP as the first one."))

var _ = answers.Add("cm.answer.retry", "a REP without an RTU", func(t *validate.T) {
	const retries = 2
	y, p, l := serving(t)
	q := p.req()
	q.MaxCMRetries, q.LocalTimeout, q.RemoteTimeout = retries, 11, 11 // 8 ms
	p.send(5, q)
	y.Conn = accepted(t, l)
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
	first, _ := expect[*mad.REP](p, "REP")
	for range retries {
		again := p.recv("retransmission of the REP")
		r, ok := again.msg.(*mad.REP)
		kit.True(t, ok, "message after a REP without an RTU", "REP", "%s", describe(again.msg))
		kit.Equal(t, "retransmitted REP", *r, *first)
	}
	_, err := awaitAccept()
	kit.True(t, errors.Is(err, cm.ErrTimeout), "cm.Conn.Accept", "cm.ErrTimeout", "%v", err)
	p.quiet("after the last REP", func(m message) bool {
		rej, ok := m.msg.(*mad.REJ)
		return ok && rej.Reason == mad.RejTimeout
	})
}, answers.Must("CM-Ans-03", "IBTA 12.9.8.5", "cm, Conn.Accept",
	"A REP without an RTU is retransmitted unchanged, as often as Max CM Retries of the REQ says. Then Accept "+
		"fails."))

var _ = answers.Add("cm.answer.unsuitable", "REQs that the manager cannot serve", func(t *validate.T) {
	_, p, _ := serving(t)
	for _, tt := range kit.Variants(t, "", []struct {
		name   string
		change func(*mad.Header, *mad.REQ)
		want   mad.RejReason
	}{
		{"a service ID without a listener", func(_ *mad.Header, q *mad.REQ) { q.ServiceID++ }, mad.RejInvalidServiceID},
		{"class version 3", func(h *mad.Header, _ *mad.REQ) { h.ClassVersion = 3 }, mad.RejClassVersion},
		{"transport service RD", func(_ *mad.Header, q *mad.REQ) { q.Service = mad.ServiceRD },
			mad.RejInvalidTransport},
		{"a primary path to a GID that is not the port's",
			func(_ *mad.Header, q *mad.REQ) { q.Primary.RemoteGID[15] ^= 0x55 }, mad.RejPrimaryGID},
		{"a reserved path MTU code", func(_ *mad.Header, q *mad.REQ) { q.PathMTU = 7 }, mad.RejInvalidMTU},
	}) {
		q := p.req()
		h := mad.CMHeader(6, q)
		tt.change(&h, q)
		p.sendHeader(h, q)
		rej, m := expect[*mad.REJ](p, "answer to "+tt.name)
		kit.Equal(t, "reason for "+tt.name, rej.Reason, tt.want)
		kit.Equal(t, "message rejected", rej.Message, mad.WhichREQ)
		kit.Equal(t, "remote communication ID of the REJ", rej.RemoteCommID, q.LocalCommID)
		kit.Equal(t, "transaction ID", m.TID, 6)
	}
}, answers.Must("CM-Ans-04", "IBTA 12.6.7.2", "cm",
	"A REQ that the manager cannot serve is rejected with the reason that IBTA assigns to the cause."))

var _ = answers.Add("cm.answer.mtu", "REQs with a larger path MTU than the port's", func(t *validate.T) {
	_, p, l := serving(t)
	most := mad.MTU(t.Attr().Ports[0].MTU)
	if most >= mad.MTU4096 {
		t.Skip("the port has the largest MTU")
	}
	for _, mtu := range kit.Variants(t, "MTU", []mad.MTU{most + 1, mad.MTU4096}) {
		q := p.req()
		q.PathMTU = mtu
		p.send(6, q)
		rej, _ := expect[*mad.REJ](p, "answer to a REQ with a larger MTU")
		kit.Equal(t, "reason", rej.Reason, mad.RejInvalidMTU)
		kit.SameBytes(t, "additional information", rej.AdditionalInfo(), []byte{byte(most)})
	}
	q := p.req()
	q.PathMTU = most
	p.send(7, q)
	accepted(t, l)
}, answers.Must("CM-Ans-09", "IBTA 12.6.7.2", "cm",
	"A REQ with a path MTU that the port does not have is rejected. The additional information is the largest "+
		"MTU code that the port has, and a REQ with that one is accepted."))
