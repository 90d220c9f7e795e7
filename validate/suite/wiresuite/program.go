package wiresuite

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// A Stock is an adapter that the kit does not drive: a program that runs on it, such as a server of rping, is the peer
// of the certifier's QPs. Of the verbs, it has only OpenCA, Query and Destroy.
type Stock interface {
	ci.HCA
	Program() *Program
}

// A Program describes the program on a Stock. Cases of the suite that need nothing but packets run with it unchanged:
// their WRITE without data becomes a request that the program's QP grants (Plain).
type Program struct {
	Name    string
	Plain   wire.Opcode // WRITE ONLY, SEND ONLY or READ REQUEST without data, or a fetch and add of 0
	Recvs   int         // receives that the program keeps posted
	RecvLen int         // bytes of each
	Bytes   int         // size of the memory whose address Dial returns; 0: none
	// Service is the service ID of a program that connects by CM; 0: Dial connects. Its port space is TCP.
	Service mad.ServiceID
	// Dial exchanges the ends of a connection, and waits until the program listens. hangUp ends the connection.
	Dial func(ctx context.Context, ours Endpoint) (theirs Endpoint, hangUp func() error, err error)
	// Ask returns a message that makes the program send requests, for n bytes of memory if it sends READs and WRITEs;
	// nil: it sends none.
	Ask    func(memory ci.Remote, n int) []byte
	AskLen int // largest n
	// IsDeaf is true if the program does not notice that the connection ends, and ends when its QP goes to Error.
	IsDeaf bool
}

// An Endpoint is one end of a connection.
type Endpoint struct {
	GID    ci.GID
	QPN    uint32
	PSN    uint32 // of the first packet that the end sends
	Memory ci.Remote
}

// stock is the connection of a peer to a program, with the state of the peer as a responder.
type stock struct {
	num      ci.QPN
	posted   int       // receives that the case relies on
	flow     *flow     // of the program's requests
	isManual bool      // the case answers the program's requests itself
	asked    []*packet // these requests

	due    uint32 // PSN of the next request
	msn    uint32
	isGap  bool // a sequence error has been answered with a NAK
	memory []byte
	write  wire.RETH // of the WRITE in progress
	at     int       // bytes of it that have arrived
	part   []byte    // of the SEND in progress
	heard  [][]byte  // the program's messages

	conn   *connection  // by CM
	hangUp func() error // not by CM
	loses  func() bool  // whether the certifier loses a received packet; nil: none
}

// maxHeard limits the messages of a program that are kept, and the bytes of one.
const maxHeard = 1 << 16

// Address of the peer's memory for the program.
const (
	memoryAddr = 0x7e5700001000
	memoryKey  = 0x7e57aa
)

// strangerQP is the QP of a program. It has no verbs.
type strangerQP struct {
	ci.QP // nil
	p     *peer
}

// Num returns the number of the QP.
func (q strangerQP) Num() ci.QPN { return q.p.stock.num }

// PostRecv skips the case unless the program has posted receives like these by itself.
func (q strangerQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	p := q.p
	for _, wr := range wrs {
		n := 0
		for _, s := range wr.SGL {
			n += int(s.Length)
		}
		if p.stock.posted++; p.stock.posted > p.program.Recvs || n > p.program.RecvLen {
			p.t.Skip("the case needs %d receives of %d bytes; %s has %d of %d", p.stock.posted, n, p.program.Name,
				p.program.Recvs, p.program.RecvLen)
		}
	}
	return len(wrs), nil
}

// stranger returns a peer of the program, without a connection.
func (s *station) stranger(c kit.Config) *peer {
	p := &peer{station: s, service: wire.RC, mtu: c.MTU.Bytes(), stock: &stock{}}
	p.End = &kit.End{
		QP:  &kit.QP{QP: strangerQP{p: p}, CA: s.ca, Config: c},
		Buf: &kit.Buf{Bytes: make([]byte, s.program.Bytes)},
	}
	return p.number(fresh())
}

// fresh returns a source of numbers that no run repeats: a program remembers those of earlier connections, as stale.
func fresh() *rand.Rand {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	return rand.New(rand.NewChaCha8(seed))
}

// join connects the peer to the program.
func (p *peer) join() *peer {
	if p.program.Service != 0 {
		p.establish(p.newREQ())
		return p
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), p.t.Remaining())
	defer cancel()
	theirs, hangUp, err := p.program.Dial(ctx, Endpoint{GID: p.info.GID, QPN: p.qpn, PSN: p.psn})
	if err != nil {
		p.t.Inconclusive("no connection to %s: %v", p.program.Name, err)
	}
	p.stock.hangUp = sync.OnceValue(hangUp)
	p.t.Cleanup(p.over)
	p.joined(theirs)
	return p
}

// over ends a connection, so that a program that serves one client at a time takes the next one.
func (p *peer) over() {
	if p.program.IsDeaf {
		p.kill()
	}
	if p.stock.conn != nil {
		p.leave()
	} else if err := p.stock.hangUp(); err != nil {
		p.t.Logf("ending the connection: %v", err)
	}
}

// kill takes the program's QP to Error by a WRITE without rights, at the PSN that it expects.
func (p *peer) kill() {
	at := p.psn
	for range 4 {
		p.stray(wire.RCWriteOnly, make([]byte, 8), withPSN(at), withReth(wire.RETH{VA: 8, RKey: 0xffffff01, DMALen: 8}))
		for x := p.next(p.patience() / 4); x != nil; x = p.next(p.patience() / 4) {
			switch {
			case x.at < 0 || x.BTH.Opcode != wire.RCAcknowledge || x.AETH.Syndrome.IsACK():
				continue
			case x.AETH.Syndrome != wire.NAKPSNSequence:
				return
			}
			at = x.BTH.PSN
		}
	}
}

// joined sets the state of a connection.
func (p *peer) joined(theirs Endpoint) {
	p.stock.num, p.from, p.stock.due = ci.QPN(theirs.QPN), theirs.PSN, theirs.PSN
	p.Buf.Region = ci.Region{Addr: theirs.Memory.Addr, RKey: theirs.Memory.RKey, Length: uint64(p.program.Bytes)}
	p.stock.flow = newFlow(wire.RC, p.mtu, max(int(*p.Config.RespRes), 1), theirs.PSN,
		func(num int, rule, expected, got string, args ...any) {
			f := validate.Failure{Rule: rule, Where: "a request of the program", Expected: expected}
			f.Got = fmt.Sprintf(got, args...)
			p.t.Remark(num, rule+": expected "+expected+", got "+f.Got)
			p.t.Report(f)
		})
}

// plain makes a WRITE without data one of the requests that the program grants.
func (p *peer) plain(o *outgoing) {
	if o.BTH.Opcode != wire.RCWriteOnly || len(o.Payload) > 0 {
		return
	}
	o.BTH.Opcode = p.program.Plain
	r := p.Buf.Remote(0)
	o.AtomicETH = wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey)}
}

// plainAnswer returns the opcodes of an expected packet. If that is an ACK of the plain request, its opcode is the one
// with which a responder answers it.
func (p *peer) plainAnswer(w want) []wire.Opcode {
	isACK := len(w.op) == 1 && w.op[0] == wire.RCAcknowledge && w.syn.IsACK()
	switch p.program.Plain {
	case wire.RCReadRequest:
		if isACK {
			return []wire.Opcode{wire.RCReadResponseOnly}
		}
	case wire.RCFetchAdd:
		if isACK {
			return []wire.Opcode{wire.RCAtomicAcknowledge}
		}
	}
	return w.op
}

// room returns how many of n bytes a WRITE can have: none, if the program grants no WRITE to memory of its own.
func (p *peer) room(n int) int {
	if p.program != nil && (p.program.Plain != wire.RCWriteOnly || p.program.Bytes < n) {
		return 0
	}
	return n
}

// wrote checks that a WRITE or SEND has changed the adapter's memory, if that is seen, and nothing else has.
func (p *peer) wrote(where string, off int, data []byte) {
	if p.program == nil {
		p.Buf.WantOnly(p.t, where, off, data)
	}
}

// received waits for the completions of receives, if they are seen.
func (p *peer) received(ids ...uint64) {
	if p.program == nil {
		p.RecvCQ.WaitOK(ids...)
	}
}

// notReceived checks that no receive has completed, if that is seen.
func (p *peer) notReceived() {
	if p.program == nil {
		p.RecvCQ.Empty()
	}
}

// isAnswer handles a packet from the program's adapter. It reports whether the packet is one that the case expects:
// not a message of CM, a packet of an earlier connection, or a request of the program.
func (p *peer) isAnswer(x *packet) bool {
	switch {
	case x.at < 0:
		return true
	case x.BTH.DestQP == gsi:
		p.hear(x)
	case x.BTH.DestQP != p.qpn:
	case !x.BTH.Opcode.Request():
		return x.BTH.Opcode != wire.CNP && (p.stock.loses == nil || !p.stock.loses())
	case x.BTH.Opcode.Op() == wire.OpReadRequest && int64(x.RETH.DMALen) > int64(len(p.stock.memory)):
		p.answer(wire.RCAcknowledge, x.BTH.PSN, wire.NAKRemoteAccess, p.stock.msn, nil)
	default:
		p.stock.flow.request(x, true)
		if p.stock.loses != nil && p.stock.loses() {
			return false
		}
		if p.stock.isManual {
			p.stock.asked = append(p.stock.asked, x)
		} else {
			p.respond(x)
		}
	}
	return false
}

// respond answers a request of the program, as a responder does that has all it needs.
func (p *peer) respond(x *packet) {
	s, psn, op := p.stock, x.BTH.PSN, x.BTH.Opcode
	d := wire.PSNDiff(psn, s.due)
	if d > 0 {
		if !s.isGap {
			p.answer(wire.RCAcknowledge, s.due, wire.NAKPSNSequence, s.msn, nil)
		}
		s.isGap = true
		return
	}
	if op.Op() == wire.OpReadRequest {
		p.respondRead(x, d == 0)
		return
	}
	if d == 0 {
		s.isGap, s.due = false, wire.PSNAdd(psn, 1)
		p.execute(x)
		if op.End() {
			s.msn++
		}
	}
	if x.BTH.AckReq || op.End() {
		p.ack(wire.PSNAdd(s.due, -1), s.msn)
	}
}

// respondRead answers a READ.
func (p *peer) respondRead(x *packet, isNew bool) {
	s, n := p.stock, int(x.RETH.DMALen)
	off := int(x.RETH.VA - memoryAddr)
	if off < 0 || off > len(s.memory) || n > len(s.memory)-off || n > 0 && x.RETH.RKey != memoryKey {
		p.answer(wire.RCAcknowledge, x.BTH.PSN, wire.NAKRemoteAccess, s.msn, nil)
		return
	}
	data, count := s.memory[off:off+n], p.packets(n)
	if isNew {
		s.isGap, s.due, s.msn = false, wire.PSNAdd(x.BTH.PSN, count), s.msn+1
	}
	for k := range count {
		op, _ := wire.Make(wire.RC, wire.OpReadResponse, k == 0, k == count-1, false, false)
		p.answer(op, x.BTH.PSN+uint32(k), wire.ACK(wire.CreditsInvalid), s.msn,
			data[min(k*p.mtu, n):min((k+1)*p.mtu, n)])
	}
	delete(s.flow.reads, x.BTH.PSN)
}

// execute executes a packet of a SEND or WRITE.
func (p *peer) execute(x *packet) {
	s, op := p.stock, x.BTH.Opcode
	if op.Start() {
		s.write, s.at, s.part = x.RETH, 0, nil
	}
	switch op.Op() {
	case wire.OpWrite:
		if off := int(s.write.VA-memoryAddr) + s.at; off >= 0 && off < len(s.memory) {
			copy(s.memory[off:], x.Payload)
		}
		s.at += len(x.Payload)
	case wire.OpSend:
		if len(s.part) < maxHeard {
			s.part = append(s.part, x.Payload...)
		}
		if op.End() && len(s.heard) < maxHeard {
			s.heard = append(s.heard, s.part)
		}
	}
}

// ask sends the message that makes the program send requests, and leaves these to the case.
func (p *peer) ask() {
	if p.program.Ask == nil {
		p.t.Skip("%s sends no requests", p.program.Name)
	}
	p.stock.isManual = true
	p.fill()
	p.message(wire.OpSend, p.question(0), false)
}

// fill fills the first half of the peer's memory with a text, and clears the second.
func (p *peer) fill() {
	n := p.program.AskLen
	p.stock.memory = make([]byte, 2*n)
	for i := range max(n-1, 0) {
		p.stock.memory[i] = byte('A' + p.t.Rand().Uint32N(26))
	}
}

// question returns the message for a half of the peer's memory.
func (p *peer) question(half int) []byte {
	n := p.program.AskLen
	return p.program.Ask(ci.Remote{Addr: memoryAddr + uint64(half*n), RKey: memoryKey}, n)
}

// asks returns the next packet of a request of the program, or nil if none arrives in time.
func (p *peer) asks(d time.Duration) *packet {
	deadline := time.Now().Add(d)
	for len(p.stock.asked) == 0 {
		x := p.arrival(max(time.Until(deadline), 0), p.service)
		if x == nil {
			return nil
		}
		if p.isAnswer(x) && x.at >= 0 && x.BTH.Opcode == wire.RCAcknowledge && !x.AETH.Syndrome.IsACK() {
			p.wrong(x, "answer to a SEND", "an ACK", x.String())
		}
	}
	x := p.stock.asked[0]
	p.stock.asked = p.stock.asked[1:]
	return x
}

// mustAsk is asks; the case fails without a packet.
func (p *peer) mustAsk(what string) *packet {
	x := p.asks(p.t.Remaining())
	if x == nil {
		p.t.Fail(validate.Failure{Where: what, Expected: "a request of the program", Got: "no packet by the deadline",
			Doubt: validate.DoubtTime})
	}
	return x
}

// sharedWithPrograms are the cases of the suite that need of the adapter only what some programs have, with the reason
// why a program does not have it.
var sharedWithPrograms = []struct {
	lacks func(*Program) string
	cases []string
}{
	{func(*Program) string { return "" }, []string{
		"wire.nak.gap", "wire.nak.once", "wire.nak.again", "wire.nak.far", "wire.nak.not-executed",
		"wire.dup.goes-on", "wire.drop.icrc", "wire.drop.corrupt", "wire.drop.pkey", "wire.drop.qpn",
		"wire.drop.source", "wire.drop.tver", "wire.drop.short", "wire.drop.cnp", "wire.take.congestion",
		"wire.take.reserved", "wire.take.source-port", "wire.take.pad",
	}},
	{func(g *Program) string { return lacks(g.Recvs > 0, "posts no receives") }, []string{
		"wire.ack.send", "wire.dup.send",
	}},
	{func(g *Program) string {
		return lacks(g.Plain == wire.RCWriteOnly && g.Bytes > 0, "has no memory to write to")
	}, []string{"wire.ack.write", "wire.ack.last", "wire.ack.inside", "wire.ack.msn-inside", "wire.ack.wrap"}},
	{func(g *Program) string {
		return lacks(g.Plain == wire.RCReadRequest && g.Bytes > 0, "has no memory to read from")
	}, []string{"wire.read.sizes", "wire.read.wrap", "wire.dup.read", "wire.dup.read-rest"}},
}

func lacks(has bool, reason string) string {
	if has {
		return ""
	}
	return reason
}

// PeerSuite returns the cases for programs on adapters that the kit does not drive (Stock): those of Suite that need
// nothing else, and cases of their own.
func PeerSuite() validate.Suite {
	all := Suite()
	s := validate.NewSuite("peer", programCases, askCases, cmCases)
	for _, group := range sharedWithPrograms {
		for _, id := range group.cases {
			i := slices.IndexFunc(all.Cases, func(c validate.Case) bool { return c.ID == id })
			c := all.Cases[i]
			c.Timeout = 0
			c.Run = func(t *validate.T) {
				if h, _ := ci.As[Stock](t.HCA()); group.lacks(h.Program()) != "" {
					t.Skip("%s %s", h.Program().Name, group.lacks(h.Program()))
				}
				all.Cases[i].Run(t)
			}
			s.Cases = append(s.Cases, c)
		}
	}
	flow := []string{ruleAnyForm, ruleOrder, rulePSN, ruleAgain, ruleFull, ruleTotal, ruleDepth}
	used := map[string]bool{}
	for i := range s.Cases {
		c := s.Cases[i].Checking(flow...)
		c.Feature, c.Needs = validate.FeatureWire, validate.Needs{Wire: true}
		s.Cases[i] = c
		for _, id := range c.Requirements {
			used[id] = true
		}
	}
	for _, r := range all.Requirements {
		if used[r.ID] {
			s.Requirements = append(s.Requirements, r)
		}
	}
	return s
}

// Probe measures how many packets the network between an end of the link and the adapter at peer loses: it sends REQs
// to a service that nobody has, and counts the REJs. It returns 0, 0 if the adapter answers none.
func Probe(ctx context.Context, w validate.Wire, peer ci.GID) (sent, lost int, err error) {
	const count, patience = 100, 2 * time.Second
	info := w.Info()
	answered := 0
	for i := range uint32(count) {
		req := &mad.REQ{LocalCommID: 0x7e570000 + i, ServiceID: mad.PortSpaceTCP.ServiceID(1), LocalQPN: 0x7e57,
			LocalTimeout: responseTime, RemoteTimeout: responseTime, PKey: 0xffff, PathMTU: mad.MTU256,
			Primary: mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: info.GID, RemoteGID: peer, HopLimit: 64}}
		h := mad.CMHeader(uint64(i), req)
		o := &outgoing{src: info.GID, dst: peer, sport: info.UDPPort}
		o.BTH = wire.BTH{Opcode: wire.UDSendOnly, PKey: 0xffff, DestQP: gsi, PSN: i}
		o.DETH = wire.DETH{QKey: mad.QKeyGSI, SrcQP: gsi}
		o.Payload = make([]byte, mad.Size)
		h.Put(o.Payload)
		req.Put(o.Payload[mad.HeaderLen:])
		if err := w.Send(o.bytes(&info)); err != nil {
			return 0, 0, err
		}
		if isRejected(ctx, w, &info, req.LocalCommID, patience) {
			answered++
		} else if lost++; answered == 0 && lost > 1 {
			return 0, 0, nil
		} else if lost == 5 {
			return answered + lost, lost, nil
		}
	}
	return count, lost, nil
}

// isRejected waits for the REJ of a REQ.
func isRejected(ctx context.Context, w validate.Wire, info *validate.WireInfo, id uint32, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		b, err := w.Recv(ctx)
		if err != nil {
			return false
		}
		x, err := take(info, b)
		if err != nil || x.BTH.DestQP != gsi {
			continue
		}
		if _, m, err := mad.ParseCM(x.Payload); err == nil {
			if r, is := m.(*mad.REJ); is && r.RemoteCommID == id {
				return true
			}
		}
	}
}
