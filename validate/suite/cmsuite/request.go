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

// Requests. The manager under test sends the REQ, and the certifier replies message by message.
var requests = area()

// connecting starts a request of the manager of side a to the script on side b.
func connecting(t *validate.T, change func(*cm.ConnectConfig)) (x *end, p *script, await func() (cm.Conn, error)) {
	a, b := sides(t)
	p = newScript(t, b, a)
	x, _ = newEnds(a, b, kit.Type(ci.RC))
	m := a.manager()
	cfg := x.request(b, private('q', 40))
	cfg.ResponseTime, cfg.RemoteResponseTime = 20, 20
	if change != nil {
		change(&cfg)
	}
	return x, p, result(t, "cm.Service.Connect",
		func(ctx context.Context) (cm.Conn, error) { return m.Connect(ctx, cfg) })
}

var _ = requests.Add("cm.request.form", "each field of the REQ", func(t *validate.T) {
	key := partition(&t.Attr().Ports[0])
	x, p, await := connecting(t, func(c *cm.ConnectConfig) {
		c.MaxRetries, c.RetryCount, c.RNRRetry = 9, 5, 6
		c.ResponseTime, c.RemoteResponseTime = 19, 21
		c.Primary.PKey = key
	})
	q, m := expect[*mad.REQ](p, "REQ")
	here := x.side.ca.Port
	kit.True(t, q.LocalCommID != 0, "local communication ID", "not 0", "0")
	kit.Equal(t, "service ID", q.ServiceID, service)
	kit.Equal(t, "CA GUID", q.LocalCAGUID, uint64(x.side.port.CA))
	kit.Equal(t, "QP number", q.LocalQPN, uint32(x.Num()))
	kit.Equal(t, "starting PSN", q.StartingPSN, uint32(x.PSN))
	kit.Equal(t, "transport service", q.Service, mad.ServiceRC)
	kit.Equal(t, "local CM response timeout", q.LocalTimeout, 19)
	kit.Equal(t, "remote CM response timeout", q.RemoteTimeout, 21)
	kit.Equal(t, "max CM retries", q.MaxCMRetries, 9)
	kit.Equal(t, "retry count", q.RetryCount, 5)
	kit.Equal(t, "RNR retry count", q.RNRRetryCount, 6)
	kit.Equal(t, "P_Key", q.PKey&0x7fff, uint16(key)&0x7fff)
	kit.True(t, int(q.PathMTU.Bytes()) <= here.MTU.Bytes(), "path MTU", "at most that of the port", "%v", q.PathMTU)
	kit.Equal(t, "initiator depth", q.InitiatorDepth, *x.Config.InitDepth)
	kit.Equal(t, "responder resources", q.ResponderRes, *x.Config.RespRes)
	kit.Equal(t, "fields for RD: Q_Key, EE contexts", [3]uint32{q.LocalQKey, q.LocalEECN, q.RemoteEECN}, [3]uint32{})
	kit.True(t, !q.RDCExists, "RDC exists", "false", "true")
	kit.True(t, !q.HasAlternate(), "alternate path", "none", "%+v", q.Alternate)
	kit.Equal(t, "remote GID", ci.GID(q.Primary.RemoteGID), p.here.gid(p.there))
	kit.Equal(t, "local GID", ci.GID(q.Primary.LocalGID), p.there.gid(p.here))
	wantLID := [2]uint16{uint16(here.LID), uint16(p.here.ca.Port.LID)}
	if here.Link == ci.LinkEthernet {
		wantLID = [2]uint16{0xffff, 0xffff}
	}
	kit.Equal(t, "LIDs", [2]uint16{q.Primary.LocalLID, q.Primary.RemoteLID}, wantLID)
	kit.SameBytes(t, "private data", q.PrivateData[:], append(private('q', 40), make([]byte, mad.REQPrivateLen-40)...))
	p.send(m.TID, &mad.REJ{LocalCommID: p.id(), RemoteCommID: q.LocalCommID, Reason: mad.RejConsumer})
	_, err := await()
	_ = refused(t, err, mad.RejConsumer)
}, requests.Must("CM-Req-01", "IBTA 12.6.5", "cm, ConnectConfig",
	"A REQ carries the service ID, QP number, starting PSN, retry counts and path that the consumer set. Fields "+
		"that have no meaning for the service are zero."))

var _ = requests.Add("cm.request.rtu", "each field of the RTU, and the state of the QP", func(t *validate.T) {
	x, p, await := connecting(t, func(c *cm.ConnectConfig) { c.RetryCount = 5 })
	q, m := expect[*mad.REQ](p, "REQ")
	rep := p.rep(q, 0x123)
	p.send(m.TID, rep)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	kit.OK(t, x.Confirm(private('u', mad.RTUPrivateLen)), "cm.Conn.Confirm")
	u, m2 := expect[*mad.RTU](p, "RTU")
	kit.Equal(t, "local communication ID of the RTU", u.LocalCommID, q.LocalCommID)
	kit.Equal(t, "remote communication ID of the RTU", u.RemoteCommID, rep.LocalCommID)
	kit.Equal(t, "transaction ID of the RTU", m2.TID, m.TID)
	kit.SameBytes(t, "private data of the RTU", u.PrivateData[:], private('u', mad.RTUPrivateLen))
	attr, err := x.End.QP.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "destination QP that Conn.QPAttr set", attr.DestNum, 0x123)
	kit.Equal(t, "expected PSN that Conn.QPAttr set", attr.RQPSN, ci.PSN(q.StartingPSN))
	kit.Equal(t, "first PSN that Conn.QPAttr set", attr.SQPSN, 9)
	kit.Equal(t, "RNR retry count that Conn.QPAttr set", attr.RNRRetry, 7)
	kit.Equal(t, "retry count that Conn.QPAttr set", attr.RetryCount, 5)
}, requests.Must("CM-Req-02", "IBTA 12.6.9", "cm, Conn.Confirm",
	"The RTU carries both communication IDs and the transaction ID of the REQ."))

var _ = requests.Add("cm.request.retry", "a REQ without a reply", func(t *validate.T) {
	const retries = 3
	_, p, await := connecting(t, func(c *cm.ConnectConfig) {
		c.MaxRetries, c.ResponseTime, c.RemoteResponseTime = retries, 11, 11 // 8 ms
	})
	first, m := expect[*mad.REQ](p, "REQ")
	for range retries {
		again := p.recv("retransmission of the REQ")
		kit.Equal(t, "transaction ID of the retransmitted REQ", again.TID, m.TID)
		r, ok := again.msg.(*mad.REQ)
		kit.True(t, ok, "message after a REQ without a reply", "REQ", "%s", describe(again.msg))
		kit.Equal(t, "retransmitted REQ", *r, *first)
	}
	_, err := await()
	kit.True(t, errors.Is(err, cm.ErrTimeout), "cm.Service.Connect", "cm.ErrTimeout", "%v", err)
	p.quiet("after the last REQ", func(m message) bool { // it may send the peer a REJ
		rej, ok := m.msg.(*mad.REJ)
		return ok && rej.Reason == mad.RejTimeout
	})
}, requests.Must("CM-Req-03", "IBTA 12.9.8.5", "cm, ConnectConfig.MaxRetries, ResponseTime",
	"A REQ without a reply is retransmitted unchanged, as often as Max CM Retries says. Then Connect fails."))

var _ = requests.Add("cm.request.rep-again", "the REP arrives three times", func(t *validate.T) {
	x, p, await := connecting(t, nil)
	q, m := expect[*mad.REQ](p, "REQ")
	rep := p.rep(q, 0x123)
	p.send(m.TID, rep)
	p.send(m.TID, rep)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	kit.OK(t, x.Confirm(private('u', 9)), "cm.Conn.Confirm")
	first, _ := expect[*mad.RTU](p, "RTU")
	for range 2 {
		p.send(m.TID, rep)
		again, _ := expect[*mad.RTU](p, "RTU for a duplicate REP")
		kit.Equal(t, "RTU for a duplicate REP", *again, *first)
	}
	inState(t, x, cm.StateEstablished, "after duplicate REPs")
}, requests.Must("CM-Req-04", "IBTA 12.9.8.5", "cm, Conn.Confirm",
	"A duplicate REP after the RTU is answered with the same RTU."))

var cmReq10 = requests.Must("CM-Req-10", "IBTA 12.6.7.2", "cm, Service.Connect",
	"Each reason of a REJ ends Connect, whatever the additional information is. The QP can be used for the next "+
		"REQ.")

var _ = requests.With(validate.Case{Checks: []string{cmReq10.ID}}).Add("cm.request.rej",
	"the peer rejects REQs, with each reason", requestRej,
	requests.Must("CM-Req-06", "IBTA 12.6.7", "cm, Service.Connect",
		"A REJ ends Connect. The error has its reason, additional information and private data."), cmReq10)

func requestRej(t *validate.T) {
	a, b := sides(t)
	p := newScript(t, b, a)
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	m := a.manager()
	reasons := []mad.RejReason{34, 0xfffe} // two that no release defines
	for r := mad.RejNoQP; r <= mad.RejAlternateFlowLabel; r++ {
		reasons = append(reasons, r)
	}
	for _, reason := range kit.Variants(t, "reason", reasons) {
		cfg := x.request(b, nil)
		cfg.ResponseTime, cfg.RemoteResponseTime = 20, 20
		await := result(t, "cm.Service.Connect",
			func(ctx context.Context) (cm.Conn, error) { return m.Connect(ctx, cfg) })
		q, msg := expect[*mad.REQ](p, "REQ")
		rej := &mad.REJ{LocalCommID: p.id(), RemoteCommID: q.LocalCommID, Message: mad.WhichREQ, Reason: reason}
		info := private(byte(reason), int(reason)%(mad.CMInfoLen+1))
		kit.OK(t, rej.SetAdditionalInfo(info), "mad.REJ.SetAdditionalInfo")
		copy(rej.PrivateData[:], private(byte(reason)+'r', mad.REJPrivateLen))
		p.send(msg.TID, rej)
		_, err := await()
		var got *cm.RejectError
		t.Charge(cmReq10.ID, func() { got = refused(t, err, reason) })
		kit.SameBytes(t, "additional information", got.Info, info)
		kit.SameBytes(t, "private data", got.Private, rej.PrivateData[:])
	}
}
