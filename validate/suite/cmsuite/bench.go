package cmsuite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Classes of the bench, of vendor range 1, where the certifier has its own. On QP0 it uses versions of ClassSubnetLID.
const (
	carrierClass = mad.ClassVendor1Last
	echoClass    = mad.ClassVendor1Last - 1
	qp0Version   = 6 // of carriers and echoes
	carrierMagic = 0x63617272
)

// A bench is the adapter under test with MAD services that the case controls: their settings, their time, what they
// receive, and what the driver does with their sends. A peer sends the datagrams that the bench replaces.
type bench struct {
	*side
	peer *side
	time *clock.Virtual // nil: the time is the machine's
	qps  [2]*benchSide

	mu      sync.Mutex
	serial  uint32
	edits   map[uint32]func(w *ci.WC, b []byte)
	log     []*posted
	mem     map[ci.Key]benchMemory
	hook    func(typ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error)      // replaces PostSend of QP0 and QP1
	local   func(src *ci.AVAttr, in, out *ci.MAD) error                     // replaces CA.LocalMAD
	query   func(*ci.CAAttr)                                                // changes a copy of the result of CA.Query
	raise   func(ci.Event)                                                  // reports an event of the adapter
	modify  func(typ ci.QPType, q ci.QP, set ci.QPField, a ci.QPAttr) error // replaces Modify of QP0 and QP1
	hold    func(typ ci.QPType, w *ci.WC) bool                              // keeps completions of QP0 and QP1 back
	refuse  error                                                           // result of CreateAV; nil: the driver's
	drivers [2][]benchQP                                                    // QP0 and QP1 of the ports, in order
	avs     map[*benchAV]bool                                               // address vectors that exist
	recvs   int                                                             // number of calls of PostRecv for QP1
	newAVs  int                                                             // number of calls of CreateAV
}

// benchSide is what the bench has on QP0 or QP1.
type benchSide struct {
	here    mads.Agent // answers echoes
	carrier mads.Agent // of the peer
	echo    mads.Agent // of the peer
	to      mads.Address
}

// posted is a datagram that the services have posted to QP0 or QP1.
type posted struct {
	qp  ci.QPType
	av  ci.AVAttr
	to  ci.Dest
	mad []byte
}

func (p *posted) header() (h mad.Header) { h.Parse(p.mad); return h }

func (p *posted) rmpp() (r mad.RMPP) { r.Parse(p.mad[mad.HeaderLen:]); return r }

type benchMemory struct {
	mem  ci.Memory
	addr uint64 // of byte 0
}

// benchSetting holds what a case chooses for a bench.
type benchSetting struct {
	mads    mads.Config
	virtual bool             // the time is that of bench.time
	query   func(*ci.CAAttr) // see bench
	layer   ciwrap.Layer     // below the bench
	over    func(b *bench)   // called before the services start
}

// newBench returns a bench over the adapter under test. Services in another process cannot be controlled.
func newBench(t *validate.T, set benchSetting) *bench {
	ha, hb := t.Pair()
	if _, ok := ha.(Host); ok {
		t.Skip("the MAD services are in another process, and the case cannot control them")
	}
	b := &bench{edits: map[uint32]func(*ci.WC, []byte){}, mem: map[ci.Key]benchMemory{}, avs: map[*benchAV]bool{},
		query: set.query}
	s := setting{mads: set.mads}
	if set.virtual {
		b.time = clock.NewVirtual(time.Hour)
		s.clock = b.time
	}
	if set.over != nil {
		set.over(b)
	}
	b.side = newSideWith(t, b.wrap(ciwrap.Wrap(ha, set.layer)), s)
	b.peer = newSide(t, hb)
	b.qps[1] = b.connect(mads.AgentConfig{Class: carrierClass, Version: vendorVersion},
		mads.AgentConfig{Class: echoClass, Version: vendorVersion}, b.peer.to(b.side))
	silent := vendor(mad.Get, mad.Set) // requests of the bench have no response but those that the case makes
	silent.OnReceive = func(*mads.Received) {}
	b.peer.agent(silent)
	return b
}

// end closes both sides, so that the case can make another bench.
func (b *bench) end() {
	for _, s := range []*side{b.side, b.peer} {
		kit.OK(b.t, s.services.Close(), "end of the MAD services")
		kit.OK(b.t, s.al.Close(), "AL.Close")
	}
}

// onQP0 makes the bench usable on QP0. An adapter with an agent of its own passes up what it chooses.
func (b *bench) onQP0() {
	if b.t.Attr().HasHardwareAgents(b.port.Num) {
		b.t.Skip("the adapter has agents of its own, and the services none")
	}
	to := b.peer.to(b.side)
	to.QPN = 0
	c := mads.AgentConfig{Class: mad.ClassSubnetLID, Version: qp0Version, SubnetManagement: true}
	b.qps[0] = b.connect(c, c, to)
}

func (b *bench) connect(carrier, echo mads.AgentConfig, to mads.Address) *benchSide {
	q := &benchSide{to: to}
	echo.Name, echo.Methods = "echo", []mad.Method{mad.Report}
	q.echo = b.peer.agent(echo)
	carrier.Name = "carrier"
	q.carrier = b.peer.agent(carrier)
	ready := make(chan struct{})
	echo.OnReceive = func(r *mads.Received) {
		<-ready
		if err := q.here.Send(&mads.Message{To: r.From, MAD: r.MAD}); err != nil {
			b.t.Logf("mads.Agent.Send of an echo: %v", err)
		}
	}
	q.here = b.side.agent(echo)
	close(ready)
	return q
}

// inject makes QP0 or QP1 receive a datagram. edit gets its completion and the content of its receive, a GRH area of 40
// bytes and the datagram. They are those of a datagram of the peer.
func (b *bench) inject(qp int, edit func(w *ci.WC, b []byte)) {
	b.mu.Lock()
	b.serial++
	n := b.serial
	b.edits[n] = edit
	b.mu.Unlock()
	m := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: carrierClass, ClassVersion: vendorVersion, Method: mad.Trap,
		Attribute: vendorAttr}
	if qp == 0 {
		h.Class, h.ClassVersion = mad.ClassSubnetLID, qp0Version
	}
	h.Put(m)
	binary.BigEndian.PutUint32(m[64:], carrierMagic)
	binary.BigEndian.PutUint32(m[68:], n)
	kit.OK(b.t, b.qps[qp].carrier.Send(&mads.Message{To: b.qps[qp].to, MAD: m}), "mads.Agent.Send of the peer")
}

// deliver is inject for a datagram that is not changed otherwise.
func (b *bench) deliver(qp int, m []byte) {
	b.inject(qp, func(_ *ci.WC, slot []byte) { copy(slot[grhLen:], m) })
}

const grhLen = 40

// settle waits until the services have handled everything that was injected before, and posted what follows from it.
func (b *bench) settle(qp int) {
	q := b.qps[qp]
	for range 2 { // completions of sends are handled after the receives of the same poll
		b.mu.Lock()
		b.serial++
		n := b.serial
		b.mu.Unlock()
		m := make([]byte, mad.Size)
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: echoClass, ClassVersion: vendorVersion,
			Method: mad.Report, TID: uint64(n), Attribute: vendorAttr}
		if qp == 0 {
			h.Class, h.ClassVersion = mad.ClassSubnetLID, qp0Version
		}
		h.Put(m)
		kit.OK(b.t, q.echo.Send(&mads.Message{To: q.to, MAD: m}), "mads.Agent.Send of the peer")
		for r := arrival(b.t, q.echo, "echo of a datagram"); r.Header().TID != uint64(n); {
			r = arrival(b.t, q.echo, "echo of a datagram")
		}
	}
}

// advance increases the time of the services by d, and waits for what follows from it.
func (b *bench) advance(d time.Duration) {
	b.t.Logf("time + %v", d)
	b.time.Advance(d)
	for i, q := range b.qps {
		if q == nil {
			continue
		}
		b.caughtUp(q.here)
		b.settle(i)
	}
}

// idle waits until the services post nothing, and neither does what was received before make them post. Then the next
// PostSend is one of the goroutine that sends, and not one of the services that a hook must not block.
func (b *bench) idle(a mads.Agent) {
	b.settle(1)
	b.caughtUp(a)
}

// caughtUp waits until an agent's services have caught up with their completions.
func (b *bench) caughtUp(a mads.Agent) {
	done := make(chan struct{})
	if !a.(mads.Backlog).CatchUp(func() { close(done) }) {
		b.t.Failf("mads.Backlog.CatchUp of an agent", "true", "false")
	}
	await(b.t, done, "the function of mads.Backlog.CatchUp")
}

// await waits for the end of a channel.
func await[V any](t *validate.T, c <-chan V, where string) (v V) {
	timer := time.NewTimer(t.Remaining())
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Failf(where, "an end by the deadline", "none")
	}
	return v
}

// until waits for a condition of the bench, which the calls of its hooks change.
func (b *bench) until(where string, ok func() bool) {
	tick := time.NewTicker(time.Millisecond / 4)
	defer tick.Stop()
	for end := time.Now().Add(b.t.Remaining()); ; <-tick.C {
		b.mu.Lock()
		is := ok()
		b.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(end) {
			b.t.Failf(where, "the condition holds by the deadline", "it does not")
		}
	}
}

// sent returns what the services have posted since the last call, without echoes.
func (b *bench) sent() []*posted {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.log
	b.log = nil
	return list
}

// exchange injects datagrams on QP1, and returns what the services post until they have handled them.
func (b *bench) exchange(edits ...func(w *ci.WC, b []byte)) []*posted {
	b.sent()
	for _, e := range edits {
		b.inject(1, e)
	}
	b.settle(1)
	return b.sent()
}

// set changes hooks of the bench.
func (b *bench) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// driver returns QP1 of the case's port below the services.
func (b *bench) driver() benchQP {
	b.mu.Lock()
	defer b.mu.Unlock()
	if list := b.drivers[1]; len(list) >= int(b.port.Num) {
		return list[b.port.Num-1]
	}
	b.t.Failf("QPs that the MAD services create", "QP1 of each port", "none for port %d", b.port.Num)
	panic("not reached: Failf ends the case")
}

// event reports an event of the adapter.
func (b *bench) event(e ci.Event) {
	b.mu.Lock()
	raise := b.raise
	b.mu.Unlock()
	raise(e)
}

func (b *bench) wrap(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		HCA: func(h ci.HCA) ci.HCA { return benchHCA{ciwrap.HCA{HCA: h}, b} },
		CA:  func(c ci.CA) ci.CA { return benchCA{ciwrap.CA{CA: c}, b} },
		MR: func(mr ci.MR, o ciwrap.MROrigin) ci.MR {
			if o.Kind == ciwrap.MRVirtual {
				at := mr.Region()
				b.mu.Lock()
				b.mem[at.LKey] = benchMemory{o.Virtual.Memory, at.Addr - o.Virtual.Offset}
				b.mu.Unlock()
			}
			return mr
		},
		AV: func(av ci.AV, attr ci.AVAttr) ci.AV {
			v := &benchAV{ciwrap.AV{AV: av}, b, attr}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.avs[v] = true
			b.newAVs++
			return v
		},
		PD: func(p ci.PD, _ ci.PDType) ci.PD { return benchPD{ciwrap.PD{PD: p}, b} },
		CQ: func(q ci.CQ, c ci.CQCreate) ci.CQ {
			return &benchCQ{CQ: ciwrap.CQ{CQ: q}, b: b, create: c, posted: map[uint64]ci.SGE{}}
		},
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, ok := ci.As[*benchCQ](c.RecvCQ)
			if c.Type != ci.QP0 && c.Type != ci.QP1 || !ok {
				return q
			}
			of := benchQP{ciwrap.QP{QP: q}, b, c, cq}
			b.mu.Lock()
			defer b.mu.Unlock()
			cq.typ = c.Type
			b.drivers[c.Type-ci.QP0] = append(b.drivers[c.Type-ci.QP0], of)
			return of
		},
	})
}

// bytes returns the memory of an entry, or writes it. b.mu is held.
func (b *bench) bytes(e ci.SGE, data []byte, isWrite bool) bool {
	m, ok := b.mem[e.LKey]
	if !ok {
		return false
	}
	var err error
	if off := int64(e.Addr - m.addr); isWrite {
		_, err = m.mem.WriteAt(data, off)
	} else {
		_, err = m.mem.ReadAt(data, off)
	}
	return err == nil
}

type benchHCA struct {
	ciwrap.HCA
	b *bench
}

func (h benchHCA) OpenCA(guid ci.GUID, fn func(ci.Event), ctx any) (ci.CA, error) {
	h.b.mu.Lock()
	h.b.raise = func(e ci.Event) { e.Context = ctx; fn(e) }
	h.b.mu.Unlock()
	return h.HCA.OpenCA(guid, fn, ctx)
}

type benchCA struct {
	ciwrap.CA
	b *bench
}

func (c benchCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if err != nil || c.b.query == nil {
		return a, err
	}
	changed := *a
	changed.Ports = append([]ci.PortAttr(nil), a.Ports...)
	for i := range changed.Ports {
		p := &changed.Ports[i]
		p.GIDs, p.PKeys = append([]ci.GIDEntry(nil), p.GIDs...), append([]ci.PKey(nil), p.PKeys...)
	}
	c.b.query(&changed)
	return &changed, nil
}

func (c benchCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	c.b.mu.Lock()
	local := c.b.local
	c.b.mu.Unlock()
	if local != nil {
		return local(src, in, out)
	}
	return c.CA.LocalMAD(port, src, in, out)
}

type benchAV struct {
	ciwrap.AV
	b    *bench
	attr ci.AVAttr
}

func (v *benchAV) Destroy() error {
	err := v.AV.Destroy()
	if err == nil {
		v.b.mu.Lock()
		delete(v.b.avs, v)
		v.b.mu.Unlock()
	}
	return err
}

type benchCQ struct {
	ciwrap.CQ
	b      *bench
	create ci.CQCreate
	typ    ci.QPType // of its QP; 0: not QP0 or QP1
	posted map[uint64]ci.SGE
	kept   []ci.WC // completions that were kept back
	ready  []ci.WC // completions that are returned next
}

// Poll returns the completions that are not kept back, with the contents that the case has injected.
func (q *benchCQ) Poll(wc []ci.WC) (int, error) {
	q.b.mu.Lock()
	early := copy(wc, q.ready)
	q.ready = q.ready[early:]
	q.b.mu.Unlock()
	if early > 0 {
		return early, nil
	}
	n, err := q.CQ.Poll(wc)
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	if hold := q.b.hold; hold != nil && q.typ != 0 {
		passed := wc[:0]
		for _, w := range wc[:n] {
			if hold(q.typ, &w) {
				q.kept = append(q.kept, w)
			} else {
				passed = append(passed, w)
			}
		}
		n = len(passed)
	}
	for i := range wc[:n] {
		w := &wc[i]
		e, ok := q.posted[w.ID]
		data := make([]byte, grhLen+mad.Size)
		if !ok || w.Op != ci.WCRecv || w.Status != ci.WCSuccess || !q.b.bytes(e, data, false) ||
			binary.BigEndian.Uint32(data[grhLen+64:]) != carrierMagic {
			continue
		}
		number := binary.BigEndian.Uint32(data[grhLen+68:])
		edit := q.b.edits[number] // of a copy, too
		if edit == nil {
			continue
		}
		clear(data[grhLen:])
		edit(w, data)
		q.b.bytes(e, data, true)
	}
	return n, err
}

type benchPD struct {
	ciwrap.PD
	b *bench
}

func (p benchPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	p.b.mu.Lock()
	err := p.b.refuse
	p.b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return p.PD.CreateAV(a)
}

type benchQP struct {
	ciwrap.QP
	b      *bench
	create ci.QPCreate
	cq     *benchCQ
}

func (q benchQP) Modify(set ci.QPField, a ci.QPAttr) error {
	q.b.mu.Lock()
	hook := q.b.modify
	q.b.mu.Unlock()
	if hook != nil {
		return hook(q.create.Type, q.QP.QP, set, a)
	}
	return q.QP.Modify(set, a)
}

func (q benchQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	q.b.mu.Lock()
	for _, w := range wrs {
		if len(w.SGL) == 1 {
			q.cq.posted[w.ID] = w.SGL[0]
		}
	}
	q.b.mu.Unlock()
	n, err := q.QP.PostRecv(wrs)
	if q.create.Type == ci.QP1 {
		q.b.mu.Lock()
		q.b.recvs++
		q.b.mu.Unlock()
	}
	return n, err
}

// PostSend notes the requests that are accepted. A request is noted before its effect can be seen.
func (q benchQP) PostSend(wrs []ci.SendWR) (n int, err error) {
	q.b.mu.Lock()
	var notes []*posted
	for i := range wrs {
		p := &posted{qp: q.create.Type, to: wrs[i].To, mad: make([]byte, mad.Size)}
		if v, ok := ci.As[*benchAV](wrs[i].To.AV); ok {
			p.av = v.attr
		}
		if len(wrs[i].SGL) == 1 && q.b.bytes(wrs[i].SGL[0], p.mad, false) && !isEcho(p.mad) {
			q.b.log = append(q.b.log, p)
		}
		notes = append(notes, p)
	}
	hook := q.b.hook
	q.b.mu.Unlock()
	if hook != nil {
		n, err = hook(q.create.Type, q.QP.QP, wrs)
	} else {
		n, err = q.QP.PostSend(wrs)
	}
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	q.b.log = slices.DeleteFunc(q.b.log, func(p *posted) bool { return slices.Contains(notes[n:], p) })
	return n, err
}

func isEcho(m []byte) bool {
	c := mad.Class(m[1])
	return mad.Method(m[3]) == mad.Report && (c == echoClass || c == mad.ClassSubnetLID && m[2] == qp0Version)
}

// describeSent describes datagrams for a finding.
func describeSent(list []*posted) string {
	s := fmt.Sprintf("%d", len(list))
	for _, p := range list {
		h, r := p.header(), p.rmpp()
		s += fmt.Sprintf("; class %v method %v status %#x", h.Class, h.Method, h.Status)
		if r.Active() {
			s += fmt.Sprintf(" %v %d %d status %d", r.Type, r.Data1, r.Data2, r.Status)
		}
	}
	return s
}
