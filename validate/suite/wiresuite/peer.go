package wiresuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// station is the certifier's end of the link with the adapter's address. Several peers can share it.
type station struct {
	t      *validate.T
	w      validate.Wire
	info   validate.WireInfo
	ca     *kit.CA
	av     ci.AVAttr // from the adapter to the certifier
	local  ci.GID    // GID of the adapter at the index of that address vector
	form   *form
	broken []finding // rules of form that packets have broken so far

	program *Program  // the peer's program, if the adapter is not driven (see Program)
	mads    []message // received and not yet examined, in that case
	marks   int       // packets sent that the network has marked as congested, each of which may be answered by a CNP
}

// open opens the adapter and the certifier's end of its link.
func open(t *validate.T) *station {
	ca := kit.Open(t)
	s := &station{t: t, w: t.Wire(), ca: ca}
	s.info = s.w.Info()
	if s.info.Link != ca.Port.Link {
		t.Harness("the end of the link is %s, but the port is %s", validate.LinkName(s.info.Link),
			validate.LinkName(ca.Port.Link))
	}
	var ok bool
	if s.av, s.local, ok = ca.AddressAt(s.info.GID, s.info.LID); !ok {
		t.Skip("the port has no GID of the address family of %v, the address of the certifier's end", s.info.GID)
	}
	s.form = newForm(s.info, ca.Port.PKeys[0])
	if h, is := ci.As[Stock](t.HCA()); is {
		s.program, s.form.info.Class, s.form.info.Hops = h.Program(), false, false // its address vector is not known
	}
	t.Cleanup(func() {
		for _, f := range s.broken {
			if f.rule == ruleSport || f.rule == ruleLabel { // SHOULD rules, which have their own cases
				continue
			}
			t.Report(validate.Failure{Rule: ruleAnyForm, Where: fmt.Sprintf("packet %d, %s", f.num, f.rule),
				Expected: f.expected, Got: f.got})
			return
		}
	})
	return s
}

// routed adds a GRH to the path to the certifier, on InfiniBand links. It applies to QPs created later and to packets
// sent to them.
func (s *station) routed() *station {
	s.needInfiniBand()
	s.av.Global = true
	s.av.GRH = ci.GRH{DGID: s.info.GID, TrafficClass: 0x5a, FlowLabel: 0xfedcb, HopLimit: 9}
	return s
}

// peer is the remote end of a QP of the adapter under test. The certifier plays it. Only the methods of peer change its
// state; psn is the PSN of its next request.
type peer struct {
	*station
	*kit.End // the QP under test
	service  wire.Service
	qpn      uint32 // number of the peer's QP
	psn      uint32 // PSN of the peer's next request
	first    uint32 // PSN of the peer's first request
	from     uint32 // first PSN of the requests of the QP under test
	mtu      int
	ready    []*packet // received but not yet examined
	unasked  []uint32  // PSNs of requests without AckReq, which may be acknowledged
	stock    *stock    // the connection to s.program
}

// caseTime is the time limit of a case of this suite. A packet that has not arrived by then counts as missing.
const caseTime = 4 * time.Second

// dial creates a QP under test and moves it to RTS, connected to the certifier.
func dial(t *validate.T, opts ...kit.Option) *peer { return open(t).dial(opts...) }

func (s *station) dial(opts ...kit.Option) *peer { return s.raw(opts...).connect() }

// longAckTime is the ACK timeout of a QP under test, unless the case sets its own. It is 69 s, longer than any case.
// The certifier answers every request itself, on a busy machine perhaps late, and a retransmission would be an
// unexpected packet.
const longAckTime = ci.TimeExp(24)

// raw is dial with the QP left in Reset.
func (s *station) raw(opts ...kit.Option) *peer {
	c := kit.Options(s.ca, s.ca, append([]kit.Option{kit.AckTime(longAckTime)}, opts...)...)
	if s.program != nil {
		return s.stranger(c)
	}
	p := &peer{station: s, End: s.ca.End(c), service: wire.RC, mtu: c.MTU.Bytes()}
	switch c.Type {
	case ci.UC:
		p.service = wire.UC
	case ci.UD:
		p.service = wire.UD
	}
	p.from = uint32(p.QP.PSN)
	kit.Random(s.t, p.Buf.Bytes)
	return p.number(s.t.Rand())
}

// number draws the number and the first PSN of the peer's QP.
func (p *peer) number(r *rand.Rand) *peer {
	p.qpn = 0x800 + r.Uint32N(1<<22)
	p.psn = r.Uint32() & wire.Mask24
	p.first = p.psn
	return p
}

// at sets the first PSNs of both directions. Call it before connect.
func (p *peer) at(in, out uint32) *peer {
	p.psn, p.first = in, in
	p.QP.PSN, p.from = ci.PSN(out), out
	return p
}

func (p *peer) connect() *peer {
	if p.program != nil {
		return p.join()
	}
	p.Init()
	if p.service == wire.UD {
		p.RTR(nil)
		p.RTS()
		p.AddressTo(p.av, ci.QPN(p.qpn), p.Config.QKey)
		return p
	}
	p.RTRTo(p.av, ci.QPN(p.qpn), ci.PSN(p.psn))
	p.RTS()
	return p
}

// Sending.

// packet returns a packet to the QP with the peer's PSN. It does not advance the PSN.
func (p *peer) packet(op wire.Opcode, payload []byte, twists ...twist) *outgoing {
	o := &outgoing{src: p.info.GID, dst: p.local, slid: p.info.LID, dlid: p.ca.Port.LID, sport: p.info.UDPPort}
	o.BTH = wire.BTH{Opcode: op, PKey: uint16(p.form.pkey), DestQP: uint32(p.Num()), PSN: p.psn}
	o.BTH.AckReq = op.Service() == wire.RC && op.Request() && op.End()
	if p.info.Link == ci.LinkInfiniBand && p.av.Global {
		o.grh = &wire.GRH{HopLimit: 64, SGID: p.info.GID, DGID: p.local}
	}
	if op.HasDETH() {
		o.DETH = wire.DETH{QKey: uint32(p.Config.QKey), SrcQP: p.qpn}
	}
	o.Payload = payload
	if p.stock != nil {
		p.plain(o)
	}
	for _, f := range twists {
		f(o)
	}
	return o
}

// put sends a packet.
func (s *station) put(o *outgoing) {
	b := o.bytes(&s.info)
	s.t.Packet(validate.WirePacket{Time: time.Now(), Link: s.info.Link, Data: b})
	if s.info.Link == ci.LinkEthernet && wire.IsCE(o.class) {
		s.marks++
	}
	if err := s.w.Send(b); err != nil {
		s.t.Harness("sending a packet: %v", err)
	}
}

// stray sends a packet with the peer's PSN and does not advance the PSN.
func (p *peer) stray(op wire.Opcode, payload []byte, twists ...twist) {
	p.put(p.packet(op, payload, twists...))
}

// request sends the next request and advances the peer's PSN by the number of packets that the request uses.
func (p *peer) request(op wire.Opcode, payload []byte, twists ...twist) {
	o := p.packet(op, payload, twists...)
	n := 1
	if op.Op() == wire.OpReadRequest {
		n = p.packets(int(o.RETH.DMALen))
	} else if !o.BTH.AckReq {
		p.unasked = append(p.unasked, o.BTH.PSN)
	}
	p.psn = wire.PSNAdd(p.psn, n)
	p.put(o)
}

// packets returns the number of packets that n bytes need.
func (p *peer) packets(n int) int { return max((n+p.mtu-1)/p.mtu, 1) }

// message sends a SEND or WRITE of any length. The last packet has AckReq set. A RETH, if any, covers the whole
// message.
func (p *peer) message(op wire.Op, data []byte, imm bool, twists ...twist) {
	for off := 0; ; off += p.mtu {
		n := min(len(data)-off, p.mtu)
		start, end := off == 0, off+n == len(data)
		code, ok := wire.Make(p.service, op, start, end, end && imm, false)
		if !ok {
			p.t.Harness("no opcode for %v", op)
		}
		p.request(code, data[off:off+n], twists...)
		if end {
			return
		}
	}
}

// reth sets the RETH to n bytes of the QP's buffer, starting at off.
func (p *peer) reth(off, n int) twist {
	r := p.Buf.Remote(uint64(off))
	return withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey), DMALen: uint32(n)})
}

// answer sends a response to the QP's request with that PSN.
func (p *peer) answer(op wire.Opcode, psn uint32, syn wire.Syndrome, msn uint32, payload []byte, twists ...twist) {
	p.put(p.packet(op, payload,
		append([]twist{withPSN(psn), withAeth(wire.AETH{Syndrome: syn, MSN: msn}), ackReq(false)}, twists...)...))
}

// ack acknowledges the QP's requests up to a PSN.
func (p *peer) ack(psn, msn uint32) {
	p.answer(wire.RCAcknowledge, psn, wire.ACK(wire.CreditsInvalid), msn, nil)
}

// Receiving.

// arrival receives the next packet on the link, from any QP. It returns nil if none arrives in time.
func (s *station) arrival(d time.Duration, service wire.Service) *packet {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	b, err := s.w.Recv(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		s.t.Harness("receiving a packet: %v", err)
	}
	p, err := take(&s.info, b)
	p.num = s.t.Packet(validate.WirePacket{Time: p.when, Link: s.info.Link, FromHCA: true, Data: b})
	if s.program != nil && p.at >= 0 && p.BTH.DestQP == gsi {
		service = wire.UD
	}
	from := origin{service: service, av: s.av, gid: s.local, lid: s.ca.Port.LID, vls: dataVLs(s.ca.Port.MaxVLs),
		marked: s.marks > 0}
	for _, f := range s.form.check(p, err, from) {
		s.t.Remark(f.num, fmt.Sprintf("%s: expected %s, got %s", f.rule, f.expected, f.got))
		s.broken = append(s.broken, f)
	}
	return p
}

// next returns the next packet for this peer, or nil if none arrives in time.
func (p *peer) next(d time.Duration) *packet {
	if len(p.ready) > 0 {
		x := p.ready[0]
		p.ready = p.ready[1:]
		return x
	}
	deadline := time.Now().Add(d)
	for {
		x := p.arrival(max(time.Until(deadline), 0), p.service)
		if x != nil && p.stock != nil && !p.isAnswer(x) {
			continue
		}
		if x != nil && x.at >= 0 && isNotification(x) && x.BTH.DestQP == p.qpn && p.marks > 0 {
			p.marks-- // RoCEv2 A17.9: allowed, not demanded
			continue
		}
		if x == nil || x.at >= 0 && x.BTH.DestQP == p.qpn {
			return x
		}
		if x.at >= 0 && x.BTH.Opcode != wire.CNP {
			p.wrong(x, "destination QP", fmt.Sprintf("QP %#x, the peer's", p.qpn), x.String())
		}
	}
}

// want describes an expected packet. Empty fields are not compared.
type want struct {
	op      []wire.Opcode // one of these
	psn     uint32
	anyPSN  bool
	syn     wire.Syndrome
	msn     int // -1 for any
	noAeth  bool
	payload []byte
	length  int // length of the payload, compared if payload is nil and length is not negative
}

// expect receives the next packet and compares it with the description. what names the packet in a failure.
func (p *peer) expect(what string, w want) *packet {
	x := p.next(p.t.Remaining())
	for x != nil && !w.anyPSN && x.BTH.PSN != w.psn&wire.Mask24 && p.isUnasked(x) {
		x = p.next(p.t.Remaining())
	}
	if x == nil {
		p.t.Fail(validate.Failure{Where: what, Expected: w.String(), Got: "no packet by the deadline",
			Doubt: p.doubt(validate.DoubtTime)})
	}
	p.match(x, what, w)
	return x
}

// isUnasked reports whether a packet is the acknowledgement of a request without AckReq, which a responder may send
// (IBTA volume 1, 9.7.5.1). It does so once for each.
func (p *peer) isUnasked(x *packet) bool {
	i := slices.Index(p.unasked, x.BTH.PSN)
	if i < 0 || x.BTH.Opcode != wire.RCAcknowledge || !x.AETH.Syndrome.IsACK() {
		return false
	}
	p.unasked = slices.Delete(p.unasked, i, i+1)
	return true
}

// match compares a packet with a description.
func (p *peer) match(x *packet, what string, w want) {
	op := x.BTH.Opcode
	if p.stock != nil {
		w.op = p.plainAnswer(w)
	}
	ok := slices.Contains(w.op, op) && (w.anyPSN || x.BTH.PSN == w.psn&wire.Mask24)
	if op.HasAETH() && !w.noAeth {
		got := x.AETH.Syndrome
		ok = ok && (got == w.syn || w.syn.IsACK() && got.IsACK()) &&
			(w.msn < 0 || x.AETH.MSN == uint32(w.msn)&wire.Mask24)
	}
	if w.payload != nil {
		ok = ok && bytes.Equal(x.Payload, w.payload)
	} else if w.length >= 0 {
		ok = ok && len(x.Payload) == w.length
	}
	if !ok {
		got := x.String()
		if w.payload != nil && len(x.Payload) == len(w.payload) && !bytes.Equal(x.Payload, w.payload) {
			got += ", the bytes differ"
		}
		p.wrong(x, what, w.String(), got)
	}
}

// wrong fails the case because of a packet.
func (p *peer) wrong(x *packet, where, expected, got string) {
	p.t.Remark(x.num, fmt.Sprintf("%s: %s: expected %s, got %s", p.proven(), where, expected, got))
	p.t.Fail(validate.Failure{Where: fmt.Sprintf("%s (packet %d)", where, x.num), Expected: expected, Got: got,
		Doubt: p.doubt(validate.DoubtNetwork)})
}

// doubt returns d for a program, since the network to it may lose packets, and otherwise none.
func (s *station) doubt(d validate.Doubt) validate.Doubt {
	if s.program == nil {
		return ""
	}
	return d
}

func (s *station) proven() string {
	c := s.t.Case()
	return c.Proven()
}

func (w want) String() string {
	s := ""
	for i, o := range w.op {
		if i > 0 {
			s += " or "
		}
		s += o.String()
	}
	if !w.anyPSN {
		s += fmt.Sprintf(", PSN %#x", w.psn&wire.Mask24)
	}
	if len(w.op) > 0 && w.op[0].HasAETH() && !w.noAeth {
		s += fmt.Sprintf(", %v", w.syn)
		if w.msn >= 0 {
			s += fmt.Sprintf(", MSN %d", w.msn)
		}
	}
	switch {
	case w.payload != nil:
		s += fmt.Sprintf(", %d bytes", len(w.payload))
	case w.length > 0:
		s += fmt.Sprintf(", %d bytes", w.length)
	}
	return s
}

// acked describes an acknowledgement.
func acked(psn uint32, msn int) want {
	return want{op: []wire.Opcode{wire.RCAcknowledge}, psn: psn, syn: wire.ACK(wire.CreditsInvalid), msn: msn}
}

// nak describes a NAK.
func nak(psn uint32, syn wire.Syndrome, msn int) want {
	return want{op: []wire.Opcode{wire.RCAcknowledge}, psn: psn, syn: syn, msn: msn}
}

// last returns the PSN of the newest request of the peer.
func (p *peer) last() uint32 { return wire.PSNAdd(p.psn, -1) }

// barrier sends a WRITE without data and expects its acknowledgement to be the next packet. Then earlier packets have
// been handled and were not answered. msn is the expected count of the acknowledgement, or -1 for any.
func (p *peer) barrier(what string, msn int) {
	p.request(wire.RCWriteOnly, nil)
	p.expect("acknowledgement of the WRITE sent after "+what, acked(p.last(), msn))
}

// fatal expects the QP to be in Error.
func (p *peer) fatal() {
	if p.program == nil {
		p.Becomes(ci.QPError)
	}
}

// blank fills the buffer with a pattern, so that changes can be found.
func (p *peer) blank() { p.Buf.Blank() }

// bytes returns n random bytes.
func (p *peer) bytes(n int) []byte { return kit.Random(p.t, make([]byte, n)) }
