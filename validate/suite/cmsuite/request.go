package cmsuite

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
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

var CMReq01 = requests.Must("CM-Req-01", "IBTA 12.6.5", "cm, ConnectConfig",
	"A REQ carries the service ID, QP number, starting PSN, retry counts and path that the consumer set. Fields "+
		"that have no meaning for the service are zero.")

var _ = requests.Case(validate.Case{ID: "cm.request.form", Title: "each field of the REQ", Run: requestForm}, CMReq01)

func requestForm(t *validate.T) {
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
}

var CMReq02 = requests.Must("CM-Req-02", "IBTA 12.6.9", "cm, Conn.Confirm",
	"The RTU carries both communication IDs and the transaction ID of the REQ.")

var _ = requests.Add("cm.request.rtu", "each field of the RTU, and the state of the QP", requestRTU, CMReq02)

func requestRTU(t *validate.T) {
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
}

var CMReq03 = requests.Must("CM-Req-03", "IBTA 12.9.8.5", "cm, ConnectConfig.MaxRetries, ResponseTime",
	"A REQ without a reply is retransmitted unchanged, as often as Max CM Retries says. Then Connect fails.")

var _ = requests.Case(validate.Case{ID: "cm.request.retry", Title: "a REQ without a reply", Run: requestRetry}, CMReq03)

func requestRetry(t *validate.T) {
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
}

var CMReq04 = requests.Must("CM-Req-04", "IBTA 12.9.8.5", "cm, Conn.Confirm",
	"A duplicate REP after the RTU is answered with the same RTU.")

var _ = requests.Add("cm.request.rep-again", "the REP arrives three times", requestAgain, CMReq04)

func requestAgain(t *validate.T) {
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
}

var CMReq05 = requests.Must("CM-Req-05", "IBTA 12.6.6", "cm, Service.Connect",
	"After an MRA the manager waits for the service timeout of the MRA and retransmits no REQ until then.")

var _ = requests.Add("cm.request.mra", "the peer requests more time", requestDelayed, CMReq05)

func requestDelayed(t *validate.T) {
	_, p, await := connecting(t, func(c *cm.ConnectConfig) {
		c.MaxRetries, c.ResponseTime, c.RemoteResponseTime = 2, 15, 15 // 134 ms
	})
	q, m := expect[*mad.REQ](p, "REQ")
	p.send(m.TID,
		&mad.MRA{LocalCommID: p.id(), RemoteCommID: q.LocalCommID, Message: mad.WhichREQ, ServiceTimeout: 19}) // 2 s
	// a REQ may have been sent before the MRA arrived
	for {
		ctx, cancel := deadline(t, time.Now().Add(500*time.Millisecond))
		r, err := p.agent.Recv(ctx)
		cancel()
		if err != nil {
			break
		}
		kit.True(t, r.Header().Attribute == mad.AttrREQ, "message after the MRA",
			"none, or a REQ that was sent before the MRA arrived", "%#x", r.Header().Attribute)
		q.Reserved24++ // counts the REQs
		kit.True(t, q.Reserved24 < 2, "REQs after the MRA", "at most one, sent before the MRA arrived", "more")
	}
	p.send(m.TID, p.rep(q, 0x99))
	c, err := await()
	kit.OK(t, err, "cm.Service.Connect")
	inState(t, c, cm.StateREPRcvd, "after the MRA and the REP")
}

var CMReq06 = requests.Must("CM-Req-06", "IBTA 12.6.7", "cm, Service.Connect",
	"A REJ ends Connect. The error has its reason, additional information and private data.")

var _ = requests.Add("cm.request.rej", "the peer rejects the REQ", requestRejected, CMReq06)

func requestRejected(t *validate.T) {
	_, p, await := connecting(t, nil)
	q, m := expect[*mad.REQ](p, "REQ")
	rej := &mad.REJ{LocalCommID: p.id(), RemoteCommID: q.LocalCommID, Message: mad.WhichREQ, Reason: mad.RejInvalidMTU}
	kit.OK(t, rej.SetAdditionalInfo([]byte{byte(mad.MTU256)}), "mad.REJ.SetAdditionalInfo")
	copy(rej.PrivateData[:], private('r', mad.REJPrivateLen))
	p.send(m.TID, rej)
	_, err := await()
	got := refused(t, err, mad.RejInvalidMTU)
	kit.SameBytes(t, "additional information", got.Info, []byte{byte(mad.MTU256)})
	kit.SameBytes(t, "private data", got.Private, private('r', mad.REJPrivateLen))
}

var CMReq10 = requests.Must("CM-Req-10", "IBTA 12.6.7.2", "cm, Service.Connect",
	"Each reason of a REJ ends Connect, whatever the additional information is. The QP can be used for the next REQ.")

var _ = requests.Add("cm.request.reasons", "the peer rejects REQs with each reason", requestReasons, CMReq10)

func requestReasons(t *validate.T) {
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
		info := make([]byte, int(reason)%(mad.CMInfoLen+1))
		for i := range info {
			info[i] = byte(t.Rand().Uint32())
		}
		kit.OK(t, rej.SetAdditionalInfo(info), "mad.REJ.SetAdditionalInfo")
		p.send(msg.TID, rej)
		_, err := await()
		got := refused(t, err, reason)
		kit.SameBytes(t, "additional information", got.Info, info)
	}
}

var CMReq07 = requests.Must("CM-Req-07", "IBTA 12.9.7.1", "cm, Service.Connect",
	"When the context ends before the reply, Connect ends and the peer receives a REJ.")

var _ = requests.Case(validate.Case{ID: "cm.request.cancel", Title: "the context ends", Run: requestCancelled}, CMReq07)

func requestCancelled(t *validate.T) {
	a, b := sides(t)
	p := newScript(t, b, a)
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	m := a.manager()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	await := result(t, "cm.Service.Connect",
		func(context.Context) (cm.Conn, error) { return m.Connect(ctx, x.request(b, nil)) })
	q, _ := expect[*mad.REQ](p, "REQ")
	cancel()
	_, err := await()
	kit.True(t, errors.Is(err, context.Canceled), "cm.Service.Connect", "the context's error", "%v", err)
	rej, _ := expect[*mad.REJ](p, "REJ after the context has ended")
	kit.Equal(t, "reason", rej.Reason, mad.RejTimeout)
	kit.Equal(t, "local communication ID", rej.LocalCommID, q.LocalCommID)
	p.send(1, p.rep(q, 0x99)) // too late
	rej, _ = expect[*mad.REJ](p, "REJ for a late REP")
	kit.Equal(t, "remote communication ID of the REJ for a late REP", rej.RemoteCommID, p.ids)
}

var CMReq08 = requests.Must("CM-Req-08", "IBTA 12.6.7", "cm, Conn.Reject",
	"A consumer can reject a REP, with private data.")

var _ = requests.Add("cm.request.refuse", "the consumer rejects the REP", requestRefuse, CMReq08)

func requestRefuse(t *validate.T) {
	_, p, await := connecting(t, nil)
	q, m := expect[*mad.REQ](p, "REQ")
	rep := p.rep(q, 0x99)
	p.send(m.TID, rep)
	c, err := await()
	kit.OK(t, err, "cm.Service.Connect")
	kit.OK(t, c.Reject(mad.RejConsumer, nil, []byte("no, thanks")), "cm.Conn.Reject")
	rej, _ := expect[*mad.REJ](p, "REJ of the REP")
	kit.Equal(t, "message rejected", rej.Message, mad.WhichREP)
	kit.Equal(t, "reason", rej.Reason, mad.RejConsumer)
	kit.Equal(t, "IDs", [2]uint32{rej.LocalCommID, rej.RemoteCommID}, [2]uint32{q.LocalCommID, rep.LocalCommID})
	kit.SameBytes(t, "private data", rej.PrivateData[:10], []byte("no, thanks"))
}

var CMReq09 = requests.Must("CM-Req-09", "IBTA 12.9.8.1", "cm",
	"A message with an unknown communication ID has no effect, whatever its other fields contain.")

// A burst of messages at QP1.
var _ = requests.Needing(validate.Needs{Attr: validate.Within(ci.CAAttr{MaxWRs: 256})}).Add("cm.request.stray",
	"messages for other connections arrive before the reply", requestStray, CMReq09)

func requestStray(t *validate.T) {
	x, p, await := connecting(t, nil)
	q, m := expect[*mad.REQ](p, "REQ")
	for _, id := range kit.Variants(t, "ID", []uint32{q.LocalCommID + 1, 0, ^q.LocalCommID}) {
		for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
			msg := mad.NewCMMessage(attr)
			b := make([]byte, mad.CMDataLen)
			for i := range b {
				b[i] = byte(t.Rand().Uint32())
			}
			if attr == mad.AttrREQ || attr == mad.AttrSIDRREQ {
				continue // these messages have no communication ID of the receiver
			}
			binary.BigEndian.PutUint32(b[4:], id)
			msg.Parse(b)
			p.send(uint64(attr), msg)
		}
	}
	for range 200 {
		b := make([]byte, mad.Size)
		for i := range b {
			b[i] = byte(t.Rand().Uint32())
		}
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassCM, ClassVersion: mad.ClassVersionCM,
			Method:    mad.Send,
			Attribute: mad.AttrREQ + uint16(t.Rand().UintN(16))}
		h.Put(b)
		p.sendBytes(b)
	}
	rep := p.rep(q, 0x123)
	p.send(m.TID, rep)
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect after messages for other connections")
	kit.Equal(t, "remote communication ID", x.RemoteID(), rep.LocalCommID)
	var r *mads.Received
	ctx, cancel := wait(t)
	defer cancel()
	kit.OK(t, x.Confirm(nil), "cm.Conn.Confirm")
	for r == nil || r.Header().Attribute != mad.AttrRTU {
		r, err = p.agent.Recv(ctx)
		kit.OK(t, err, "RTU after messages for other connections")
	}
}
