package rvt

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plainRings are queues of Go slices: tests of the engine need no particular layout.
type plainRings struct{}

func (plainRings) SendRing(depth, sge, inline int, _ *ci.UserBuffer) (SendRing, error) {
	return &plainSend{depth: depth}, nil
}
func (plainRings) RecvRing(depth, sge int, _ *ci.UserBuffer) (RecvRing, error) {
	return &plainRecv{depth: depth}, nil
}
func (plainRings) CompletionRing(size int, _ *ci.UserBuffer) (CompletionRing, error) {
	return &plainCQ{size: size}, nil
}

type plainSend struct {
	mu    sync.Mutex
	depth int
	list  []Work
	next  int
}

func (s *plainSend) Post(wrs []ci.SendWR, obj Resolver) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range wrs {
		if len(s.list) == s.depth {
			return i
		}
		w := &wrs[i]
		v := Work{ID: w.ID, SGL: slices.Clone(w.SGL), Inline: slices.Clone(w.Inline), IsInl: w.Inline != nil,
			Remote:  w.Remote,
			Compare: w.Atomic.Compare, Swap: w.Atomic.Swap, DestQP: w.To.QPN, QKey: w.To.QKey, Imm: w.Imm,
			Inv: w.Inv, Flags: w.Flags,
			Op: w.Op, PKeyIx: w.To.PKeyIndex}
		if w.To.AV != nil {
			v.AV = obj.AV(w.To.AV)
		}
		if w.Ext != nil {
			v.Flush = w.Ext.Flush
			v.Ext = &WorkExt{Bind: w.Ext.Bind, FastReg: w.Ext.FastReg}
			v.Ext.FastReg.Pages = slices.Clone(w.Ext.FastReg.Pages)
			if w.Ext.Bind.MW != nil {
				v.Ext.MW = obj.MW(w.Ext.Bind.MW)
			}
			switch {
			case w.Ext.FastReg.MR != nil:
				v.Ext.MR = obj.MR(w.Ext.FastReg.MR)
			case w.Ext.Bind.MR != nil:
				v.Ext.MR = obj.MR(w.Ext.Bind.MR)
			}
		}
		s.list = append(s.list, v)
	}
	return len(wrs)
}
func (s *plainSend) Next(w *Work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == len(s.list) {
		return false
	}
	sgl := append(w.SGL[:0], s.list[s.next].SGL...)
	*w = s.list[s.next]
	w.SGL = sgl
	s.next++
	return true
}
func (s *plainSend) Retire(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = s.list[n:]
	s.next -= n
}
func (s *plainSend) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.next = nil, 0
}
func (s *plainSend) Depth() int { return s.depth }
func (s *plainSend) Len() int   { s.mu.Lock(); defer s.mu.Unlock(); return len(s.list) }

type plainRecv struct {
	mu    sync.Mutex
	depth int
	list  []RecvWork
}

func (s *plainRecv) Post(wrs []ci.RecvWR) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range wrs {
		if len(s.list) == s.depth {
			return i
		}
		s.list = append(s.list, RecvWork{ID: wrs[i].ID, SGL: slices.Clone(wrs[i].SGL)})
	}
	return len(wrs)
}
func (s *plainRecv) Next(w *RecvWork) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return false
	}
	w.ID, w.SGL = s.list[0].ID, append(w.SGL[:0], s.list[0].SGL...)
	s.list = s.list[1:]
	return true
}
func (s *plainRecv) Reset()     { s.mu.Lock(); defer s.mu.Unlock(); s.list = nil }
func (s *plainRecv) Depth() int { return s.depth }
func (s *plainRecv) Len() int   { s.mu.Lock(); defer s.mu.Unlock(); return len(s.list) }
func (s *plainRecv) Resize(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < len(s.list) {
		return ci.InvalidMaxWRs
	}
	s.depth = n
	return nil
}

type plainCQ struct {
	mu   sync.Mutex
	size int
	list []ci.WC
}

func (s *plainCQ) Put(wc *ci.WC) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == s.size {
		return false
	}
	s.list = append(s.list, *wc)
	return true
}
func (s *plainCQ) Get(wcs []ci.WC) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(wcs, s.list)
	s.list = s.list[n:]
	return n
}
func (s *plainCQ) Len() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.list) }
func (s *plainCQ) Cap() int { return s.size }
func (s *plainCQ) Resize(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) > n {
		return ci.Overflow
	}
	s.size = n
	return nil
}

// A wireLink is a lossless link of two ports, or of one port with itself, that a test can impair.
type wireLink struct {
	ports []*linkPort
	hints Hints
	mtu   ci.MTU
	// together: what one Send has for a port is delivered at once.
	together bool
	// mangle, if not nil, returns how often a packet is delivered. Trains are split for it.
	mangle func(p *Packet) int
	sim    *sim // if not nil, packets are queued there
	// advances only for waiting turns; created by the first side without a clock of its own
	clock *fakeClock
}

type linkPort struct {
	link *wireLink
	lid  ci.LID
	rx   Receiver
	attr func(*ci.PortAttr) // changes to the result of Attr
	// configure changes the configuration of the port's HCA.
	configure func(*Config)
}

type linkRoute struct{ lid ci.LID }

func (r *linkRoute) Peer() Addr { return Addr{LID: r.lid} }

func (l *wireLink) port() *linkPort {
	p := &linkPort{link: l, lid: ci.LID(len(l.ports) + 1)}
	l.ports = append(l.ports, p)
	return p
}

func (p *linkPort) Start(c PortContext) error { p.rx = c.Receiver; return nil }
func (p *linkPort) Attr() ci.PortAttr {
	a := ci.PortAttr{State: ci.PortActive, MTU: p.link.mtu, MaxMTU: ci.MTU4096, LID: p.lid,
		PKeys: []ci.PKey{0xffff, 0x8001},
		GIDs:  []ci.GIDEntry{{}}, MaxMsgSize: 1 << 31}
	if p.attr != nil {
		p.attr(&a)
	}
	return a
}
func (p *linkPort) Modify(ci.PortField, ci.PortModify) error { return nil }
func (p *linkPort) Route(av *ci.AVAttr, _ Flow) (Route, error) {
	if av.DLID == 0 {
		return nil, ci.InvalidParameter
	}
	return &linkRoute{av.DLID}, nil
}
func (p *linkPort) Hints() Hints { return p.link.hints }
func (p *linkPort) Close() error { return nil }
func (p *linkPort) Send(pkts []Packet) {
	var same []Packet
	for i := range pkts {
		pk := pkts[i]
		dlid := pk.Route.(*linkRoute).lid
		pk.Src = Addr{LID: p.lid}
		pk.Route = nil
		var to *linkPort
		for _, q := range p.link.ports {
			if q.lid == dlid {
				to = q
			}
		}
		if to == nil {
			continue
		}
		if p.link.sim != nil {
			p.link.sim.add(p.lid, to, &pk)
			continue
		}
		if p.link.together {
			same = append(same, pk)
			if i+1 == len(pkts) || pkts[i+1].Route != pkts[i].Route {
				to.rx.Deliver(same, false, false)
				same = same[:0]
			}
			continue
		}
		if p.link.mangle == nil {
			to.rx.Deliver([]Packet{pk}, false, false)
			continue
		}
		for k := range pk.N {
			one := cut(&pk, k)
			for range p.link.mangle(&one) {
				c := one
				c.Payload = slices.Clone(one.Payload)
				to.rx.Deliver([]Packet{c}, false, false)
			}
		}
	}
}

// cut returns packet k of a train, with its own payload.
func cut(p *Packet, k uint32) Packet {
	var all []byte
	for _, s := range p.Payload {
		all = append(all, s...)
	}
	c := *p
	c.N, c.PSN = 1, psnAdd(p.PSN, k)
	c.Start = p.Start && k == 0
	last := k == p.N-1
	if !last {
		c.End, c.HasImm, c.HasInv = false, false, false
		c.SE, c.Ack = false, false
	}
	c.Len = p.Len
	if p.N > 1 {
		lo := k * p.MTU
		hi := min(lo+p.MTU, p.Len)
		all = all[lo:hi]
		c.Len = hi - lo
	}
	if p.Op != 0 && len(all) > 0 {
		c.Payload = [][]byte{all}
	} else {
		c.Payload = nil
	}
	return c
}

const testCaps = ci.CapAtomicWrite | ci.CapFlush | ci.CapFlushPersistent |
	ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapSRQ | ci.CapMW1 |
	ci.CapMW2 | ci.CapFMR |
	ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR | ci.CapSendInvalidate | ci.CapResizeCQ |
	ci.CapModeration |
	ci.CapPeek | ci.CapNotifyAfter | ci.CapModifySRQDepth | ci.CapAPM | ci.CapCurrentQPState | ci.CapEventHandlers |
	ci.CapPKeyCounter | ci.CapQKeyCounter | ci.CapHardwareSMA

// A side is one end of a test connection.
type side struct {
	t     *testing.T
	hca   *HCA
	clock clock.Clock
	// simulated: a sim advances the clock.
	simulated bool
	ca        ci.CA
	pd        ci.PD
	cq        ci.CQ
	qp        ci.QP
	mr        ci.MR
	buf       []byte
	events    chan ci.Event
	lid       ci.LID
}

func newSide(t *testing.T, l *wireLink, guid ci.GUID, clock clock.Clock, typ ci.QPType,
	tweak func(*ci.QPCreate)) *side {
	return newSideOn(t, []*linkPort{l.port()}, guid, clock, plainRings{}, typ, tweak)
}

// newSideOn is like newSide with the given ports and queues.
func newSideOn(t *testing.T, ports []*linkPort, guid ci.GUID, clock clock.Clock, rings Rings, typ ci.QPType,
	tweak func(*ci.QPCreate)) *side {
	var list []Port
	for _, p := range ports {
		list = append(list, p)
	}
	return newSideOnPorts(t, ports, list, guid, clock, rings, typ, tweak)
}

// newSideWith is like newSide with a changed configuration.
func newSideWith(t *testing.T, l *wireLink, guid ci.GUID, tweak func(*Config)) *side {
	p := l.port()
	p.configure = tweak
	return newSideOn(t, []*linkPort{p}, guid, nil, plainRings{}, ci.RC, nil)
}

// newSideOnPorts is like newSideOn, with wrappers in front of the link's ports.
func newSideOnPorts(t *testing.T, ports []*linkPort, front []Port, guid ci.GUID, clock clock.Clock,
	rings Rings, typ ci.QPType,
	tweak func(*ci.QPCreate)) *side {
	p := ports[0]
	if clock == nil { // stands still: on a slow machine, a timer would take the token from the test
		if p.link.clock == nil {
			p.link.clock = newClock()
		}
		clock = p.link.clock
	}
	cfg := Config{Info: ci.HCAInfo{GUID: guid}, Attr: ci.CAAttr{Caps: testCaps}, Rings: rings, Clock: clock,
		Rand: rand.NewChaCha8([32]byte{byte(guid)})}
	cfg.Ports = front
	if p.configure != nil {
		p.configure(&cfg)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	s := &side{t: t, hca: h, clock: clock, simulated: p.link.sim != nil, lid: p.lid, events: make(chan ci.Event, 64),
		buf: make([]byte, 1<<20)}
	s.ca, err = h.OpenCA(guid, func(ci.Event) {}, nil)
	require.NoError(t, err)
	s.pd, err = s.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	s.cq, err = s.pd.CreateCQ(ci.CQCreate{Size: 4096})
	require.NoError(t, err)
	c := ci.QPCreate{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, QPCaps: ci.QPCaps{SendDepth: 256, RecvDepth: 256,
		SendSGE: 4, RecvSGE: 4, MaxInline: 256},
		OnEvent: func(e ci.Event) { s.events <- e }}
	if tweak != nil {
		tweak(&c)
	}
	s.qp, err = s.pd.CreateQP(c)
	require.NoError(t, err)
	s.mr, err = s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(s.buf), Access: ci.LocalWrite | ci.RemoteRead |
		ci.RemoteWrite | ci.RemoteAtomic | ci.BindWindow})
	require.NoError(t, err)
	t.Cleanup(func() {
		if s.qp != nil {
			require.NoError(t, s.qp.Destroy())
		}
		require.NoError(t, s.mr.Destroy())
		require.NoError(t, s.cq.Destroy())
		require.NoError(t, s.pd.Destroy())
		require.NoError(t, s.ca.Destroy())
		require.NoError(t, h.Close())
	})
	return s
}

// remake replaces the side's QP. Objects created before are destroyed after it.
func (s *side) remake(c ci.QPCreate) {
	s.t.Helper()
	require.NoError(s.t, s.qp.Destroy())
	s.qp = nil
	if c.OnEvent == nil {
		c.OnEvent = func(e ci.Event) { s.events <- e }
	}
	qp, err := s.pd.CreateQP(c)
	require.NoError(s.t, err)
	s.qp = qp
	s.t.Cleanup(func() {
		if s.qp == qp {
			require.NoError(s.t, qp.Destroy())
			s.qp = nil
		}
	})
}

func (s *side) attr(peer *side) ci.QPAttr { return s.attrTo(peer.qp.Num(), peer.lid) }

func (s *side) attrTo(num ci.QPN, lid ci.LID) ci.QPAttr {
	return ci.QPAttr{Port: 1, DestNum: num, SQPSN: 0xfffff0, RQPSN: 0xfffff0, MTU: ci.MTU1024,
		RetryCount: 7, RNRRetry: 7,
		MinRNRTimer: 1, InitDepth: 4, RespRes: 4, Access: ci.RemoteRead | ci.RemoteWrite |
			ci.RemoteAtomic, QKey: 0x1234,
		Primary: ci.Path{AckTimeout: 14, AV: ci.AVAttr{Port: 1, DLID: lid}}}
}

func (s *side) connect(peer *side, tweak func(*ci.QPAttr)) {
	a := s.attr(peer)
	if tweak != nil {
		tweak(&a)
	}
	s.toRTS(a)
}

// toRTS moves the QP from Reset to RTS.
func (s *side) toRTS(a ci.QPAttr) {
	for _, st := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
		s.step(st, a)
	}
}

// step executes one transition on the way to RTS with the fields that the service needs.
func (s *side) step(st ci.QPState, a ci.QPAttr) {
	s.t.Helper()
	a.State = st
	require.NoError(s.t, s.qp.Modify(stepFields(s.qp.(*QP).typ)[st], a))
}

// stepFields returns the fields of the transitions on the way to RTS.
func stepFields(typ ci.QPType) map[ci.QPState]ci.QPField {
	switch typ {
	case ci.UC:
		return map[ci.QPState]ci.QPField{ci.QPInit: ci.QPFieldsInit, ci.QPRTR: ci.QPFieldsUCRTR,
			ci.QPRTS: ci.QPFieldsUCRTS}
	case ci.UD:
		return map[ci.QPState]ci.QPField{ci.QPInit: ci.QPFieldsUDInit, ci.QPRTR: ci.QPFieldsUDRTR,
			ci.QPRTS: ci.QPFieldsUDRTS}
	case ci.QP0, ci.QP1:
		return map[ci.QPState]ci.QPField{ci.QPInit: ci.QPFieldsSpecial, ci.QPRTR: ci.QPFieldsUDRTR,
			ci.QPRTS: ci.QPFieldsUDRTS}
	}
	return map[ci.QPState]ci.QPField{ci.QPInit: ci.QPFieldsInit, ci.QPRTR: ci.QPFieldsRTR, ci.QPRTS: ci.QPFieldsRTS}
}

func (s *side) state() ci.QPState {
	a, err := s.qp.Query()
	require.NoError(s.t, err)
	return a.State
}

// toState executes a transition with the state only.
func (s *side) toState(st ci.QPState) {
	s.t.Helper()
	require.NoError(s.t, s.qp.Modify(ci.QPFieldState, ci.QPAttr{State: st}))
}

func (s *side) sge(off, n int) []ci.SGE { return []ci.SGE{s.mr.Region().SGE(uint64(off), uint32(n))} }

func (s *side) send(wrs ...ci.SendWR) {
	n, err := s.qp.PostSend(wrs)
	require.NoError(s.t, err)
	require.Equal(s.t, len(wrs), n)
}

func (s *side) recv(wrs ...ci.RecvWR) {
	n, err := s.qp.PostRecv(wrs)
	require.NoError(s.t, err)
	require.Equal(s.t, len(wrs), n)
}

// poll runs waiting turns and polls the available completions.
func (s *side) poll() []ci.WC {
	if c, ok := s.clock.(*fakeClock); ok && !s.simulated {
		c.Advance(0)
	}
	wc := make([]ci.WC, 1024)
	n, err := s.cq.Poll(wc)
	require.NoError(s.t, err)
	return wc[:n]
}

// A pair is two connected sides whose clock stands still.
func pair(t *testing.T, l *wireLink, typ ci.QPType) (a, b *side) { return pairOn(t, l, typ, nil) }

// livePair is a pair on the machine's clock, for tests whose goroutines collide and must recover from it.
func livePair(t *testing.T, l *wireLink, typ ci.QPType) (a, b *side) {
	return pairOn(t, l, typ, clock.Real())
}

func pairOn(t *testing.T, l *wireLink, typ ci.QPType, clock clock.Clock) (a, b *side) {
	if l.mtu == 0 {
		l.mtu = ci.MTU4096
	}
	a = newSide(t, l, 0xa, clock, typ, nil)
	b = newSide(t, l, 0xb, clock, typ, nil)
	a.connect(b, nil)
	b.connect(a, nil)
	return a, b
}

// receiverOf returns a receiver of a port, which is counted from 0.
func receiverOf(h *HCA, port int) *receiver {
	return &receiver{port: h.ports[port]}
}
