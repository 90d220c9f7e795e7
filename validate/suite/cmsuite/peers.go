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

// Peer-to-peer requests: both ends send a REQ, and neither listens.
var peerRequests = area()

// peerMark is what the private data of both REQs have at peerOffset.
const (
	peerMark   = "both of us"
	peerOffset = 5
)

// crossing is a peer-to-peer request of the manager under test. The script has received its REQ.
type crossing struct {
	*rig
	x     *end
	await func() (cm.Conn, error)
	own   *mad.REQ // of the manager under test
	tid   uint64
}

// newCrossing returns a stage for peer-to-peer requests of the manager of one side to the script on the other.
func newCrossing(t *validate.T) *crossing {
	a, b := sides(t)
	return &crossing{rig: &rig{script: newScript(t, b, a), m: a.manager()}}
}

// begin starts a request.
func (g *crossing) begin(change func(*cm.ConnectConfig)) {
	g.x, _ = newEnds(g.there, g.here, kit.Type(ci.RC))
	cfg := g.x.request(g.here, append(make([]byte, peerOffset), peerMark...))
	cfg.Peer, cfg.Offset, cfg.Compare = true, peerOffset, []byte(peerMark)
	cfg.ResponseTime, cfg.RemoteResponseTime = reactTime, reactTime
	if change != nil {
		change(&cfg)
	}
	g.await = result(g.t, "cm.Service.Connect of a peer-to-peer request",
		func(ctx context.Context) (cm.Conn, error) { return g.m.Connect(ctx, cfg) })
	var m message
	g.own, m = expect[*mad.REQ](g.script, "REQ")
	g.tid = m.TID
}

// peerREQ returns a REQ of the script that matches the manager's request. Each has another QP number.
func (g *crossing) peerREQ() *mad.REQ {
	g.n++
	q := g.script.req(service, 0x500+g.n)
	q.LocalTimeout, q.RemoteTimeout = reactTime, reactTime
	copy(q.PrivateData[peerOffset:], peerMark)
	return q
}

// refuse makes the script reject the manager's REQ.
func (g *crossing) refuse(reason mad.RejReason) {
	g.send(g.tid, &mad.REJ{RemoteCommID: g.own.LocalCommID, Message: mad.WhichREQ, Reason: reason})
}

// completesPassive expects that q, which the script has sent, has become the connection.
func (g *crossing) completesPassive(q *mad.REQ, tid uint64) {
	t := g.t
	c, err := g.await()
	kit.OK(t, err, "cm.Service.Connect after the peer's REQ")
	inState(t, c, cm.StateREQRcvd, "of the end whose REQ does not become the connection")
	g.x.Conn = c
	kit.Equal(t, "communication ID", c.ID(), g.own.LocalCommID)
	kit.Equal(t, "remote communication ID", c.RemoteID(), q.LocalCommID)
	kit.Equal(t, "request of the connection", c.Request().REQ, *q)
	g.x.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, g.x.Accept(ctx, g.x.acceptance(nil)) })
	r, m := expect[*mad.REP](g.script, "REP")
	kit.Equal(t, "transaction ID of the REP", m.TID, tid)
	kit.Equal(t, "communication IDs of the REP", [2]uint32{r.LocalCommID, r.RemoteCommID},
		[2]uint32{g.own.LocalCommID, q.LocalCommID})
	kit.Equal(t, "QP number of the REP", r.LocalQPN, uint32(g.x.Num()))
	g.send(tid, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
	_, err = awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
	attr, err := g.x.End.QP.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "destination QP that Conn.QPAttr set", attr.DestNum, ci.QPN(q.LocalQPN))
}

// completesActive answers the manager's REQ, as the peer whose REQ q does not become the connection does.
func (g *crossing) completesActive(q *mad.REQ, tid uint64) {
	t := g.t
	r := g.rep(g.own, ci.QPN(q.LocalQPN))
	r.LocalCommID, r.LocalCAGUID = q.LocalCommID, q.LocalCAGUID
	g.send(g.tid, r)
	c, err := g.await()
	kit.OK(t, err, "cm.Service.Connect after the REP")
	inState(t, c, cm.StateREPRcvd, "of the end whose REQ becomes the connection")
	g.x.Conn = c
	kit.Equal(t, "reply of the connection", *c.Reply(), *r)
	g.send(tid, q) // a late copy of the peer's REQ
	kit.Equal(t, "messages after a copy of the peer's REQ", texts(g.sync("after a copy of the REQ")), nothing)
	g.x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	kit.OK(t, g.x.Confirm(nil), "cm.Conn.Confirm")
	u, m := expect[*mad.RTU](g.script, "RTU")
	kit.Equal(t, "transaction ID of the RTU", m.TID, g.tid)
	kit.Equal(t, "communication IDs of the RTU", [2]uint32{u.LocalCommID, u.RemoteCommID},
		[2]uint32{g.own.LocalCommID, r.LocalCommID})
	g.send(tid, q)
	kit.Equal(t, "messages after a copy of the peer's REQ", texts(g.sync("after another copy")), nothing)
	inState(t, c, cm.StateEstablished, "after copies of the peer's REQ")
}

var CMPeer01 = peerRequests.Must("CM-Peer-01", "IBTA 12.10.4", "cm, ConnectConfig.Peer",
	"Of two peer-to-peer requests that cross, the one with the larger CA GUID becomes the connection, and with equal "+
		"GUIDs the one with the larger QP number. The end of the other one becomes the passive end.")

var _ = peerRequests.Case(validate.Case{
	ID:    "cm.peer.crossed",
	Title: "the REQs of both ends cross, with each order of GUIDs and QP numbers",
	Run:   peerCrossed,
}, CMPeer01)

func peerCrossed(t *validate.T) {
	g := newCrossing(t)
	for i, v := range kit.Variants(t, "", []struct {
		name      string
		isPassive bool
		change    func(q, own *mad.REQ)
	}{
		{"a larger CA GUID", true, func(q, _ *mad.REQ) { q.LocalCAGUID = ^uint64(0) }},
		{"a smaller CA GUID", false, func(q, _ *mad.REQ) { q.LocalCAGUID = 1 }},
		// A number that is no neighbor of the next own one, or the next connection would be one of the same QP.
		{"the same CA GUID, a larger QP number", true,
			func(q, own *mad.REQ) { q.LocalCAGUID, q.LocalQPN = own.LocalCAGUID, 0xfffffe }},
		{"the same CA GUID, a smaller QP number", false,
			func(q, own *mad.REQ) { q.LocalCAGUID, q.LocalQPN = own.LocalCAGUID, own.LocalQPN-1 }},
		{"a larger CA GUID, a smaller QP number", true,
			func(q, own *mad.REQ) { q.LocalCAGUID, q.LocalQPN = own.LocalCAGUID+1, own.LocalQPN-1 }},
		{"a smaller CA GUID, a larger QP number", false,
			func(q, own *mad.REQ) { q.LocalCAGUID, q.LocalQPN = own.LocalCAGUID-1, own.LocalQPN+1 }},
	}) {
		g.begin(nil)
		q, tid := g.peerREQ(), uint64(0x7000+i)
		v.change(q, g.own)
		g.send(tid, q)
		if v.isPassive {
			g.completesPassive(q, tid)
		} else {
			kit.Equal(t, "messages after a REQ with "+v.name, texts(g.sync("after the peer's REQ")), nothing)
			g.completesActive(q, tid)
		}
	}
}

var CMPeer02 = peerRequests.Must("CM-Peer-02", "IBTA 12.10.4", "cm, ConnectConfig.Peer",
	"A peer-to-peer request that the peer rejects for its service ID waits for the peer's REQ. Then the manager sends "+
		"its own again, unless the peer's becomes the connection. Other reasons end the request.")

var _ = peerRequests.Case(validate.Case{
	ID:    "cm.peer.early",
	Title: "the peer's consumer requests the connection later",
	Run:   peerEarly,
}, CMPeer02)

func peerEarly(t *validate.T) {
	g := newCrossing(t)
	for i, guid := range kit.Variants(t, "CA GUID", []uint64{1, ^uint64(0)}) {
		g.begin(nil)
		g.refuse(mad.RejInvalidServiceID)
		kit.Equal(t, "messages after a REJ, invalid service ID", texts(g.sync("after a REJ")), nothing)
		q, tid := g.peerREQ(), uint64(0x7000+i)
		q.LocalCAGUID = guid
		g.send(tid, q)
		if guid != 1 {
			g.completesPassive(q, tid)
			continue
		}
		again, m := expect[*mad.REQ](g.script, "REQ after the peer's")
		kit.Equal(t, "REQ after the peer's", *again, *g.own)
		kit.Equal(t, "transaction ID of the REQ after the peer's", m.TID, g.tid)
		g.completesActive(q, tid)
	}
	g.begin(nil)
	g.refuse(mad.RejConsumer)
	_, err := g.await()
	_ = refused(t, err, mad.RejConsumer)
}

var CMPeer03 = peerRequests.Must("CM-Peer-03", "IBTA 12.10.4", "cm, ConnectConfig.Peer, Offset, Compare",
	"A peer-to-peer request matches the REQ that has its service ID, its transport service, the address of its path, "+
		"and Compare in the private data. Others are rejected as those for a service without a listener.")

var _ = peerRequests.Case(validate.Case{
	ID:    "cm.peer.match",
	Title: "REQs that do not match, and one that does",
	Run:   peerMatch,
}, CMPeer03)

func peerMatch(t *validate.T) {
	g := newCrossing(t)
	g.begin(nil)
	for i, v := range kit.Variants(t, "", []struct {
		name   string
		change func(q *mad.REQ)
	}{
		{"service ID", func(q *mad.REQ) { q.ServiceID++ }},
		{"first byte of the comparison", func(q *mad.REQ) { q.PrivateData[peerOffset] ^= 1 }},
		{"last byte of the comparison", func(q *mad.REQ) { q.PrivateData[peerOffset+len(peerMark)-1] ^= 0x80 }},
		{"offset of the comparison", func(q *mad.REQ) {
			q.PrivateData = [mad.REQPrivateLen]byte{}
			copy(q.PrivateData[peerOffset-1:], peerMark)
		}},
		{"transport service", func(q *mad.REQ) { q.Service = mad.ServiceUC }},
		{"address", func(q *mad.REQ) {
			if g.there.ca.Port.Link == ci.LinkEthernet {
				q.Primary.LocalGID[15] ^= 0x40
			} else {
				q.Primary.LocalLID ^= 0x40
			}
		}},
	}) {
		q := g.peerREQ()
		q.LocalCAGUID = ^uint64(0)
		v.change(q)
		if q.Service == mad.ServiceUC && !t.Claims().Has(ci.CapUC) {
			continue // rejected for another reason
		}
		g.send(uint64(0x7000+i), q)
		where := "answer to a REQ with another " + v.name
		rej, m := expect[*mad.REJ](g.script, where)
		kit.Equal(t, where+": reason", rej.Reason, mad.RejInvalidServiceID)
		kit.Equal(t, where+": remote communication ID", rej.RemoteCommID, q.LocalCommID)
		kit.Equal(t, where+": transaction ID", m.TID, uint64(0x7000+i))
	}
	q := g.peerREQ()
	q.LocalCAGUID = ^uint64(0)
	q.PrivateData[0], q.PrivateData[mad.REQPrivateLen-1] = 0xff, 0xff // outside of the comparison
	g.send(0x8000, q)
	g.completesPassive(q, 0x8000)
}

var CMPeer04 = peerRequests.Must("CM-Peer-04", "IBTA 12.10.4", "cm, ConnectConfig.Peer, MaxRetries",
	"A peer-to-peer request that the peer always rejects for its service ID is repeated, as often as Max CM Retries "+
		"says, and then ends with the rejection.")

var _ = peerRequests.Case(validate.Case{
	ID:    "cm.peer.alone",
	Title: "the peer's consumer never requests the connection",
	Run:   peerAlone,
}, CMPeer04)

func peerAlone(t *validate.T) {
	g := newCrossing(t)
	const exponent = 17 // 0.5 s: the REJ arrives before the request ends
	g.begin(func(c *cm.ConnectConfig) {
		c.MaxRetries, c.ResponseTime, c.RemoteResponseTime = 1, exponent, exponent
	})
	g.refuse(mad.RejInvalidServiceID)
	again, m := expect[*mad.REQ](g.script, "second REQ")
	kit.Equal(t, "second REQ", *again, *g.own)
	kit.Equal(t, "transaction ID of the second REQ", m.TID, g.tid)
	g.refuse(mad.RejInvalidServiceID)
	_, err := g.await()
	if errors.Is(err, cm.ErrTimeout) {
		t.Fail(validate.Failure{Where: "cm.Service.Connect after two REJs, invalid service ID",
			Expected: "a *cm.RejectError", Got: err.Error(), Doubt: validate.DoubtTime})
	}
	_ = refused(t, err, mad.RejInvalidServiceID)
}
