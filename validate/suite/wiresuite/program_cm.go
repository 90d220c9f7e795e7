package wiresuite

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// gsi is the number of the QP of the general services interface.
const gsi = 1

// A message is a management datagram that the peer's communication manager has sent.
type message struct {
	*packet
	mad.Header
	mad.CMMessage
}

// A connection is a connection by CM.
type connection struct {
	tid        uint64
	id, remote uint32 // communication IDs
	rep        *mad.REP
	isOver     bool     // DREQ or DREP has arrived
	others     []uint32 // communication IDs of other connections for which messages have arrived
}

// responseTime is the time in which the certifier's manager answers, and in which it expects an answer: 134 ms.
const responseTime = 15

// newREQ returns the REQ of the peer.
func (p *peer) newREQ() *mad.REQ {
	path := mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: p.info.GID, RemoteGID: p.local, HopLimit: 64,
		AckTimeout: 14}
	m := &mad.REQ{ServiceID: p.program.Service, LocalCAGUID: 0x7e57, LocalQPN: p.qpn,
		ResponderRes: 1, InitiatorDepth: 1, RemoteTimeout: responseTime, LocalTimeout: responseTime, FlowControl: true,
		StartingPSN: p.from0(), RetryCount: 7, RNRRetryCount: 7, MaxCMRetries: 7, PKey: uint16(p.form.pkey),
		PathMTU: mad.MTU(p.Config.MTU), Primary: path}
	from := netip.AddrPortFrom(netip.AddrFrom16(p.info.GID).Unmap(), 0xc000|uint16(fresh().Uint32()))
	h, err := mad.NewIPCM(from, netip.AddrFrom16(p.local))
	if err == nil {
		err = mad.SetIPCM(m, &h, nil)
	}
	if err != nil {
		p.t.Harness("REQ: %v", err)
	}
	p.renew(m)
	return m
}

// renew makes a REQ another one, with IDs of its own.
func (p *peer) renew(m *mad.REQ) {
	r := fresh()
	p.stock.conn = &connection{tid: r.Uint64(), id: r.Uint32() | 1}
	m.LocalCommID = p.stock.conn.id
}

// from0 draws the PSN from which on the program's QP numbers its requests.
func (p *peer) from0() uint32 { return p.t.Rand().Uint32() & wire.Mask24 }

// tell sends a message to the peer's manager.
func (p *peer) tell(m mad.CMMessage, twists ...twist) {
	var b [mad.Size]byte
	h := mad.CMHeader(p.stock.conn.tid, m)
	h.Put(b[:])
	m.Put(b[mad.HeaderLen:])
	p.put(p.packet(wire.UDSendOnly, b[:], append([]twist{withQP(gsi), ackReq(false),
		withDeth(wire.DETH{QKey: mad.QKeyGSI, SrcQP: gsi})}, twists...)...))
}

// hear takes a message from the peer's manager. It answers a DREQ of this connection.
func (p *peer) hear(x *packet) {
	if !x.BTH.Opcode.HasDETH() || x.DETH.QKey != mad.QKeyGSI || len(x.Payload) < mad.Size {
		p.wrong(x, "a datagram to QP1", fmt.Sprintf("a MAD of %d bytes with Q_Key %#x", mad.Size, mad.QKeyGSI),
			x.String())
	}
	h, m, err := mad.ParseCM(x.Payload)
	if err != nil {
		p.t.Logf("packet %d: a datagram to QP1 that is no message of CM: %v", x.num, err)
		return
	}
	p.mads = append(p.mads, message{x, h, m})
	c := p.stock.conn
	if d, is := m.(*mad.DREQ); is && c != nil && d.RemoteCommID == c.id {
		c.isOver = true
		p.stock.conn.drep(p, h.TID, d)
	}
}

func (c *connection) drep(p *peer, tid uint64, d *mad.DREQ) {
	defer func(old uint64) { c.tid = old }(c.tid)
	c.tid = tid
	p.tell(&mad.DREP{LocalCommID: c.id, RemoteCommID: d.LocalCommID})
}

// ids returns the communication IDs of a message: the sender's, and the receiver's or 0.
func ids(m mad.CMMessage) (local, remote uint32) {
	var b [mad.CMDataLen]byte
	m.Put(b[:])
	local = binary.BigEndian.Uint32(b[:])
	if m.Attribute() != mad.AttrREQ {
		remote = binary.BigEndian.Uint32(b[4:])
	}
	return local, remote
}

// mail returns the next message of the peer's manager for this connection, or nil if none arrives in time.
func (p *peer) mail(d time.Duration) *message {
	deadline := time.Now().Add(d)
	for {
		for len(p.mads) > 0 {
			m := p.mads[0]
			p.mads = p.mads[1:]
			_, to := ids(m.CMMessage)
			if to == p.stock.conn.id {
				return &m
			}
			p.stock.conn.others = append(p.stock.conn.others, to)
		}
		x := p.arrival(max(time.Until(deadline), 0), p.service)
		if x == nil {
			return nil
		}
		if p.isAnswer(x) {
			p.ready = append(p.ready, x)
		}
	}
}

// patience is how long the certifier waits for a message before it sends its own again, as managers do.
func (p *peer) patience() time.Duration {
	return min(500*time.Millisecond<<p.t.Rerun(), p.t.Remaining())
}

// establish connects by CM.
func (p *peer) establish(req *mad.REQ) {
	p.accept(req)
	p.rtu()
}

// accepted sets the state of a connection whose REP has arrived.
func (p *peer) accepted(req *mad.REQ, rep *mad.REP) {
	c := p.stock.conn
	c.remote, c.rep = rep.LocalCommID, rep
	p.mtu = 128 << req.PathMTU
	p.joined(Endpoint{QPN: rep.LocalQPN, PSN: req.StartingPSN})
	p.psn, p.first = rep.StartingPSN, rep.StartingPSN
	p.t.Cleanup(p.leave)
}

// leave ends the connection, unless it has ended.
func (p *peer) leave() {
	c := p.stock.conn
	for range 3 {
		if c.isOver {
			return
		}
		p.tell(&mad.DREQ{LocalCommID: c.id, RemoteCommID: c.remote, RemoteQPN: uint32(p.Num())})
		if m := p.mail(100 * time.Millisecond); m != nil {
			c.isOver = c.isOver || m.CMMessage.Attribute() == mad.AttrDREP
		}
	}
}

// cmCases are the cases of connection management. (IBTA 12.)
var cmCases = area()

// knock opens the adapter for a case of CM and returns a peer without a connection, with its REQ.
func knock(t *validate.T) (*peer, *mad.REQ) {
	s := open(t)
	if s.program == nil || s.program.Service == 0 {
		t.Skip("%s does not connect by CM", s.program.Name)
	}
	p := s.raw()
	return p, p.newREQ()
}

// must returns the next message for this connection, whose attribute is attr.
func (p *peer) must(what string, attr uint16) *message {
	m := p.mail(p.t.Remaining())
	for m != nil && isExtra(m, attr) {
		m = p.mail(p.t.Remaining())
	}
	if m == nil {
		p.t.Fail(validate.Failure{Where: what, Expected: mad.AttributeName(mad.ClassCM, attr),
			Got: "no message by the deadline", Doubt: validate.DoubtTime})
	}
	if m.CMMessage.Attribute() != attr {
		p.wrong(m.packet, what, mad.AttributeName(mad.ClassCM, attr), describe(m.CMMessage))
	}
	return m
}

// isExtra reports whether a message is one that a manager may send at any time before the one that is expected: an MRA,
// or the REP again.
func isExtra(m *message, expected uint16) bool {
	attr := m.CMMessage.Attribute()
	return attr == mad.AttrMRA || attr == mad.AttrREP && expected != mad.AttrREP
}

func describe(m mad.CMMessage) string {
	s := mad.AttributeName(mad.ClassCM, m.Attribute())
	if r, is := m.(*mad.REJ); is {
		s += fmt.Sprintf(", %v", r.Reason)
	}
	return s
}

// same fails the case unless a message equals an earlier one, its header included.
func (p *peer) same(what string, a, b *message) {
	if string(a.Payload) != string(b.Payload) {
		p.wrong(b.packet, what, fmt.Sprintf("the message of packet %d again", a.num), describe(b.CMMessage)+
			" with other contents")
	}
}

// echo fails the case unless a message has the transaction ID of the REQ.
func (p *peer) echo(m *message) {
	if m.TID != p.stock.conn.tid {
		p.wrong(m.packet, "transaction ID of "+describe(m.CMMessage), fmt.Sprintf("%#x", p.stock.conn.tid),
			fmt.Sprintf("%#x", m.TID))
	}
}

func (p *peer) rtu() {
	p.tell(&mad.RTU{LocalCommID: p.stock.conn.id, RemoteCommID: p.stock.conn.remote})
}

// accept sends the REQ until the program listens, and returns the message with the REP.
func (p *peer) accept(req *mad.REQ) *message {
	for p.t.Remaining() > time.Millisecond {
		p.tell(req)
		m := p.mail(p.patience())
		if m == nil {
			continue
		}
		switch r := m.CMMessage.(type) {
		case *mad.REP:
			p.accepted(req, r)
			return m
		case *mad.REJ:
			switch r.Reason {
			case mad.RejInvalidServiceID: // the program does not listen yet
			case mad.RejConsumer: // it is still ending the connection before; the answer to this REQ remains
				p.renew(req)
			default:
				p.wrong(m.packet, "answer to a REQ", "a REP", describe(r))
			}
			p.mail(p.patience() / 5)
		}
	}
	p.t.Inconclusive("no REP of %s: is it running, and does it serve one client after the other?", p.program.Name)
	return nil
}

var _ = cmCases.Add("peer.cm.rep", "a REQ: the REP", func(t *validate.T) {
	p, req := knock(t)
	m := p.accept(req)
	p.echo(m)
	rep := m.CMMessage.(*mad.REP)
	for _, x := range []struct {
		what     string
		ok       bool
		expected string
		got      uint32
	}{
		{"QPN of a REP", rep.LocalQPN > 1 && rep.LocalQPN < 0xffffff, "that of a QP", rep.LocalQPN},
		{"responder resources of a REP", rep.ResponderRes <= req.InitiatorDepth,
			"at most the initiator depth of the REQ",
			uint32(rep.ResponderRes)},
		{"initiator depth of a REP", rep.InitiatorDepth <= req.ResponderRes,
			"at most the responder resources of the REQ", uint32(rep.InitiatorDepth)},
		{"failover of a REP", rep.Failover == mad.FailoverAccepted || rep.Failover == mad.FailoverNotSupported,
			"0 or 1, as the REQ had no alternate path", uint32(rep.Failover)},
		{"reserved bits of a REP", rep.Reserved27 == 0, "0", uint32(rep.Reserved27)},
	} {
		if !x.ok {
			p.wrong(m.packet, x.what, x.expected, fmt.Sprint(x.got))
		}
	}
	p.rtu()
	p.barrier("the RTU", 1)
}, cmCases.Must("WIRE-PeerCm-01", "IBTA 12.6.8", "REP",
	"A REQ to a service that has a listener is answered with a REP that has its transaction ID and communication ID, "+
		"the number of a QP, and depths that do not exceed those of the REQ. The QP then receives."))

var _ = cmCases.Add("peer.cm.req-again", "the REQ again, before and after the REP", func(t *validate.T) {
	p, req := knock(t)
	p.tell(req)
	a := p.accept(req) // which sends it a second time
	p.tell(req)
	p.same("answer to a REQ that was sent again", a, p.must("answer to a REQ that was sent again", mad.AttrREP))
	p.rtu()
	p.barrier("the RTU", 1)
	p.tell(req)
	p.barrier("a REQ of an established connection", 2)
	for m := p.mail(0); m != nil; m = p.mail(0) {
		if m.CMMessage.Attribute() != mad.AttrREP && m.CMMessage.Attribute() != mad.AttrMRA {
			p.wrong(m.packet, "answer to a REQ that was sent again", "the REP, or none", describe(m.CMMessage))
		}
	}
}, cmCases.Must("WIRE-PeerCm-02", "IBTA 12.9.8.3.1", "duplicate REQ",
	"A REQ that is sent again is answered with the same REP, and makes no second connection. It does not disturb an "+
		"established one."))

var _ = cmCases.Add("peer.cm.rep-again", "no RTU: the REP again", func(t *validate.T) {
	p, req := knock(t)
	begin := time.Now()
	a := p.accept(req)
	b := p.must("no RTU for a response time", mad.AttrREP)
	p.same("REP that was sent again", a, b)
	if d := b.when.Sub(begin); d < mad.TimeExp(responseTime).Duration()/2 {
		p.wrong(b.packet, "time until the REP was sent again", "at least half of the response time of the REQ, 67 ms",
			d.String())
	}
	p.rtu()
	p.barrier("an RTU after a second REP", 1)
}, cmCases.Must("WIRE-PeerCm-03", "IBTA 12.9.8.5", "REP without an RTU",
	"Without an RTU, the REP is sent again unchanged after the response time in the REQ, and not earlier."))

var _ = cmCases.Add("peer.cm.no-rtu", "requests before the RTU, and an RTU twice", func(t *validate.T) {
	p, req := knock(t)
	p.accept(req)
	p.barrier("a REP, without an RTU", 1)
	p.rtu()
	p.rtu()
	p.barrier("two RTUs", 2)
}, cmCases.Must("WIRE-PeerCm-04", "IBTA 12.9.7.2", "lost RTU",
	"The passive side receives requests when it has sent the REP, whether the RTU arrives before them, after them, or "+
		"twice."))

var _ = cmCases.Add("peer.cm.service", "a REQ for a service without a listener", func(t *validate.T) {
	p, req := knock(t)
	req.ServiceID = mad.PortSpaceTCP.ServiceID(1)
	for range 2 {
		p.tell(req)
		m := p.must("answer to a REQ for port 1", mad.AttrREJ)
		p.echo(m)
		r := m.CMMessage.(*mad.REJ)
		if r.Reason != mad.RejInvalidServiceID || r.Message != mad.WhichREQ {
			p.wrong(m.packet, "answer to a REQ for port 1", "a REJ of the REQ with reason 8, invalid service ID",
				fmt.Sprintf("%v, %v", r.Message, r.Reason))
		}
	}
}, cmCases.Must("WIRE-PeerCm-05", "IBTA 12.6.7.2", "REJ",
	"A REQ for a service without a listener is answered with a REJ of reason 8, each time that it is sent."))

var _ = cmCases.Add("peer.cm.dreq", "DREQ, and the same DREQ again", func(t *validate.T) {
	p, req := knock(t)
	p.accept(req)
	p.rtu()
	p.barrier("the RTU", 1)
	c := p.stock.conn
	for _, what := range []string{"answer to a DREQ", "answer to a DREQ that was sent again"} {
		p.tell(&mad.DREQ{LocalCommID: c.id, RemoteCommID: c.remote, RemoteQPN: uint32(p.Num())})
		m := p.must(what, mad.AttrDREP)
		if from, _ := ids(m.CMMessage); from != c.remote {
			p.wrong(m.packet, what, fmt.Sprintf("communication ID %#x", c.remote), fmt.Sprintf("%#x", from))
		}
		c.isOver = true
	}
	p.stray(wire.RCWriteOnly, nil)
	if x := p.next(p.patience()); x != nil && (x.BTH.Opcode != wire.RCAcknowledge || x.AETH.Syndrome.IsACK()) {
		p.wrong(x, "answer to a request after the DREP", "none, or a NAK", x.String())
	}
}, cmCases.Must("WIRE-PeerCm-06", "IBTA 12.9.8.5", "DREQ",
	"A DREQ is answered with a DREP, and one that is sent again with another. The QP then executes no request."))

var _ = cmCases.Add("peer.cm.dreq-unknown", "DREQ with wrong communication IDs and QPN", func(t *validate.T) {
	p, req := knock(t)
	p.accept(req)
	p.rtu()
	p.barrier("the RTU", 1)
	c := p.stock.conn
	for i, d := range []mad.DREQ{
		{LocalCommID: c.id, RemoteCommID: c.remote + 0x5a5a0, RemoteQPN: uint32(p.Num())},
		{LocalCommID: c.id + 0x5a5a0, RemoteCommID: c.remote, RemoteQPN: uint32(p.Num())},
		{LocalCommID: c.id, RemoteCommID: c.remote, RemoteQPN: uint32(p.Num()) ^ 0x5a5a0},
	} {
		p.tell(&d)
		p.barrier("a DREQ that is not of this connection", i+2)
	}
}, cmCases.Must("WIRE-PeerCm-07", "IBTA 12.6.10", "DREQ of another connection",
	"A DREQ whose communication IDs or QPN are not those of a connection does not end it."))

var _ = cmCases.Add("peer.cm.rej", "a REJ of the REP", func(t *validate.T) {
	p, req := knock(t)
	p.accept(req)
	c := p.stock.conn
	p.tell(&mad.REJ{LocalCommID: c.id, RemoteCommID: c.remote, Message: mad.WhichREP, Reason: mad.RejConsumer})
	c.isOver = true
	const inFlight = 300 * time.Millisecond // two response times
	sent := time.Now()
	for m := p.mail(2 * inFlight); m != nil; m = p.mail(2 * inFlight) {
		if m.when.Sub(sent) > inFlight {
			p.wrong(m.packet, "messages after a REJ of the REP", "none", describe(m.CMMessage))
		}
	}
	q := p.station.raw()
	q.establish(q.newREQ())
	q.barrier("a REJ of another connection", 1)
}, cmCases.Must("WIRE-PeerCm-08", "IBTA 12.9.7.2", "REJ of a REP",
	"A REJ ends a connection whose REP has been sent: the REP is not sent again. The next REQ is accepted."))

var _ = cmCases.Add("peer.cm.mra", "MRA of the REP", func(t *validate.T) {
	p, req := knock(t)
	p.accept(req)
	c := p.stock.conn
	const longer = 18 // 1.07 s
	p.tell(&mad.MRA{LocalCommID: c.id, RemoteCommID: c.remote, Message: mad.WhichREP, ServiceTimeout: longer})
	sent := time.Now()
	if m := p.mail(mad.TimeExp(longer).Duration() * 3 / 4); m != nil && m.when.Sub(sent) > 100*time.Millisecond {
		p.wrong(m.packet, "messages in the service timeout of an MRA", "none", describe(m.CMMessage))
	}
	p.rtu()
	p.barrier("an RTU after an MRA", 1)
}, cmCases.Must("WIRE-PeerCm-09", "IBTA 12.6.6", "MRA",
	"After an MRA of the REP, the REP is not sent again before the service timeout of the MRA."))

// unusual are REQs that are legal, and differ from those of common managers.
var unusual = []struct {
	what string
	f    func(*mad.REQ)
}{
	{"the starting PSN 0xffffff", func(r *mad.REQ) { r.StartingPSN = 0xffffff }},
	{"the starting PSN 0", func(r *mad.REQ) { r.StartingPSN = 0 }},
	{"no retries", func(r *mad.REQ) { r.RetryCount, r.RNRRetryCount = 0, 0 }},
	{"no end-to-end flow control", func(r *mad.REQ) { r.FlowControl = false }},
	{"the SRQ bit", func(r *mad.REQ) { r.SRQ = true }},
	{"no RDMA READs", func(r *mad.REQ) { r.ResponderRes, r.InitiatorDepth = 0, 0 }},
	{"255 RDMA READs", func(r *mad.REQ) { r.ResponderRes, r.InitiatorDepth = 255, 255 }},
	{"no CM retries", func(r *mad.REQ) { r.MaxCMRetries = 0 }},
	{"long response times", func(r *mad.REQ) { r.RemoteTimeout, r.LocalTimeout = 31, 31 }},
	{"path MTU 256", func(r *mad.REQ) { r.PathMTU = mad.MTU256 }},
	{"a vendor ID", func(r *mad.REQ) { r.VendorID = 0x123456 }},
	{"CA GUID 0", func(r *mad.REQ) { r.LocalCAGUID = 0 }},
	{"private data of all ones behind the IP header", func(r *mad.REQ) {
		for i := mad.IPCMLen; i < len(r.PrivateData); i++ {
			r.PrivateData[i] = 0xff
		}
	}},
	{"a traffic class, a flow label and hop limit 255", func(r *mad.REQ) {
		r.Primary.TrafficClass, r.Primary.FlowLabel, r.Primary.HopLimit = 0x68, 0x12345, 255
	}},
	{"an SL of 7", func(r *mad.REQ) { r.Primary.SL = 7 }},
	{"a rate", func(r *mad.REQ) { r.Primary.Rate = 3 }},
	{"an ACK timeout of 31", func(r *mad.REQ) { r.Primary.AckTimeout = 31 }},
	{"reserved bits", func(r *mad.REQ) { r.Reserved4, r.Reserved24, r.Primary.ReservedSL = 0xff, 0xffffffff, 7 }},
}

var _ = cmCases.Add("peer.cm.unusual", "REQs that are legal and unusual", func(t *validate.T) {
	p, _ := knock(t)
	for _, u := range kit.Variants(t, "", unusual) {
		q := p.station.raw()
		req := q.newREQ()
		u.f(req)
		q.tell(req)
		m := q.must("answer to a REQ with "+u.what, mad.AttrREP)
		q.accepted(req, m.CMMessage.(*mad.REP))
		q.rtu()
		q.barrier("an RTU after a REQ with "+u.what, 1)
		q.leave()
	}
}, cmCases.Must("WIRE-PeerCm-10", "IBTA 12.6.5", "REQ",
	"A REQ is accepted whatever legal values its fields have. Reserved bits are ignored."))

var _ = cmCases.Add("peer.cm.malformed", "datagrams to QP1 that are no messages of CM", func(t *validate.T) {
	p, req := knock(t)
	bad := map[uint32]string{} // by communication ID
	for _, x := range kit.Variants(t, "", []struct {
		what string
		f    twist
	}{
		{"a wrong Q_Key", func(o *outgoing) { o.DETH.QKey = 0x11111111 }},
		{"base version 2", func(o *outgoing) { o.Payload[0] = 2 }},
		{"a class that no agent has", func(o *outgoing) { o.Payload[1] = 0x55 }},
		{"an attribute that CM does not have", func(o *outgoing) { o.Payload[17] = 0x7f }},
		{"another partition", func(o *outgoing) { o.BTH.PKey ^= 0x0100 }},
		{"a wrong ICRC", func(o *outgoing) { o.icrcDelta = 1 }},
	}) {
		p.tell(req, x.f)
		next := *req
		next.LocalCommID, next.ServiceID = req.LocalCommID+1, mad.PortSpaceTCP.ServiceID(1)
		p.stock.conn.id = next.LocalCommID
		p.tell(&next)
		m := p.must("answer to a REQ for port 1, sent after a REQ with "+x.what, mad.AttrREJ)
		p.echo(m)
		bad[req.LocalCommID] = x.what
		req.LocalCommID += 2
	}
	q := p.station.raw()
	q.establish(q.newREQ()) // the program has then handled what came before
	q.barrier("datagrams to QP1 that are no messages of CM", 1)
	q.mail(q.patience()) // a REP without an RTU is sent several times
	for _, id := range append(p.stock.conn.others, q.stock.conn.others...) {
		if what := bad[id]; what != "" {
			t.Failf("answer to a REQ with "+what, "none", "a message of CM")
		}
	}
}, cmCases.Must("WIRE-PeerCm-11", "IBTA 13.5.3", "QP1; MAD validation",
	"A datagram to QP1 with a wrong Q_Key, version, partition or ICRC, or of an unknown class or attribute, is "+
		"not taken for a REQ."))
