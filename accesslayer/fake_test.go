package accesslayer_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
)

// fakeHCA is a small driver that enforces the rules that the access layer has to keep. It refuses a destroy in the
// wrong order, records verbs on destroyed objects, and drains callbacks as ci.Object demands, so that a destroy on a
// callback's own goroutine would hang.
type fakeHCA struct {
	ci.UnimplementedHCA
	info ci.HCAInfo

	mu         sync.Mutex
	cond       *sync.Cond
	attr       ci.CAAttr
	opens      int // number of CA opens so far
	open       *fakeCA
	closed     bool
	live       map[*fakeObj]bool
	trace      []string
	violations []string           // violations of rules
	fail       map[string][]error // errors by verb, used from the front
	nextID     int
	queries    int
	ranges     []ci.DMARange // of the next mappings
	onQuery    func()
	onEarly    func(*fakeQP) // called in CreateQP, before its result is decided
	onCreate   func(any)     // called in CreateCQ and CreateQP, before they return
}

const fakeGUID ci.GUID = 0x0002c90300001000

func newFake(ports int) *fakeHCA {
	h := &fakeHCA{live: map[*fakeObj]bool{}, fail: map[string][]error{}}
	h.cond = sync.NewCond(&h.mu)
	h.setGUID(fakeGUID)
	h.attr.Caps = ci.CapSRQ | ci.CapUD | ci.CapAV | ci.CapMulticast | ci.CapFMR | ci.CapMW1
	h.attr.PageSizes = []uint64{4096, 1 << 16}
	h.attr.MaxSRQWRs, h.attr.MaxSRQSGEs, h.attr.MaxMapsPerFMR = 128, 4, 3
	for i := range ports {
		h.attr.Ports = append(h.attr.Ports, ci.PortAttr{Num: uint8(i + 1), GUID: fakeGUID + ci.GUID(i+1),
			State: ci.PortDown, Link: ci.LinkEthernet,
			PKeys: []ci.PKey{0xffff}, GIDs: []ci.GIDEntry{{GID: ci.GID{15: byte(i + 1)}}}})
	}
	return h
}

func (h *fakeHCA) setGUID(g ci.GUID) {
	h.info = ci.HCAInfo{GUID: g, Version: ci.InterfaceVersion}
	h.attr.GUID = g
}

func (h *fakeHCA) Info() ci.HCAInfo { return h.info }

func (h *fakeHCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	if err := h.verb("HCA.OpenCA"); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != nil {
		return nil, &ci.Error{Verb: "HCA.OpenCA", Status: ci.ResourceBusy}
	}
	h.opens++
	h.closed = false
	h.open = &fakeCA{fakeObj: fakeObj{h: h, kind: "CA", onEvent: onEvent, ctx: arg}}
	h.trace = append(h.trace, "open")
	return h.open, nil
}

// verb returns the next error planned for a verb.
func (h *fakeHCA) verb(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errs := h.fail[name]; len(errs) > 0 {
		h.fail[name] = errs[1:]
		return errs[0]
	}
	return nil
}

func (h *fakeHCA) plan(verb string, errs ...error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail[verb] = append(h.fail[verb], errs...)
}

func (h *fakeHCA) setPort(num int, change func(*ci.PortAttr)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attr.Ports = slices.Clone(h.attr.Ports)
	change(&h.attr.Ports[num-1])
}

func (h *fakeHCA) liveObjects() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o := range h.live {
		names = append(names, o.name())
	}
	slices.Sort(names)
	return names
}

func (h *fakeHCA) traced() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.trace)
}

func (h *fakeHCA) violationList() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.violations)
}

// fakeObj is the part that all objects have in common.
type fakeObj struct {
	h         *fakeHCA
	kind      string
	id        int
	uses      []*fakeObj // the parent and others, which must be destroyed later
	users     int
	destroyed bool
	calling   int
	onEvent   func(ci.Event)
	ctx       any
	bound     bool // reports busy: the region of a bound window, a mapped FMR
	obj       any
}

func (o *fakeObj) name() string { return fmt.Sprintf("%s%d", o.kind, o.id) }

func (o *fakeObj) base() *fakeObj { return o }

// add creates an object below parent.
func (h *fakeHCA) add(o *fakeObj, kind string, uses ...*fakeObj) error {
	if err := h.verb("create " + kind); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range uses {
		if u.destroyed {
			h.violations = append(h.violations, "create "+kind+" with destroyed "+u.name())
			return ci.InvalidHandle
		}
	}
	h.nextID++
	o.h, o.kind = h, kind
	o.id, o.uses = h.nextID, uses
	for _, u := range uses {
		u.users++
	}
	h.live[o] = true
	h.trace = append(h.trace, "create "+o.name())
	return nil
}

func (o *fakeObj) Destroy() error {
	h := o.h
	if err := h.verb("destroy " + o.kind); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		h.violations = append(h.violations, "destroy after close of "+o.name())
		return ci.InvalidHandle
	case o.destroyed:
		h.violations = append(h.violations, "second destroy of "+o.name())
		return ci.InvalidHandle
	case o.bound:
		return &ci.Error{Verb: o.kind + ".Destroy", Status: ci.ResourceBusy}
	case o.users > 0:
		h.violations = append(h.violations, "destroy in the wrong order of "+o.name())
		return &ci.Error{Verb: o.kind + ".Destroy", Status: ci.ResourceBusy}
	}
	o.destroyed = true
	for o.calling > 0 {
		h.cond.Wait()
	}
	for _, u := range o.uses {
		u.users--
	}
	delete(h.live, o)
	h.trace = append(h.trace, "destroy "+o.name())
	return nil
}

// call runs a callback as a driver does: none begins after the destroy has begun.
func (o *fakeObj) call(f func()) bool {
	o.h.mu.Lock()
	if o.destroyed {
		o.h.mu.Unlock()
		return false
	}
	o.calling++
	o.h.mu.Unlock()
	f()
	o.h.mu.Lock()
	o.calling--
	o.h.cond.Broadcast()
	o.h.mu.Unlock()
	return true
}

func (o *fakeObj) fire(t ci.EventType, port uint8) bool {
	return o.call(func() {
		if o.onEvent != nil {
			o.onEvent(ci.Event{Type: t, Port: port, Context: o.ctx})
		}
	})
}

// check is called by every other verb.
func (o *fakeObj) check(verb string) error {
	if err := o.h.verb(verb); err != nil {
		return err
	}
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	if o.h.closed || o.destroyed {
		o.h.violations = append(o.h.violations, verb+" on destroyed "+o.name())
		return ci.InvalidHandle
	}
	return nil
}

type fakeCA struct {
	ci.UnimplementedCA
	fakeObj
}

func (c *fakeCA) Query() (*ci.CAAttr, error) {
	if err := c.check("CA.Query"); err != nil {
		return nil, err
	}
	if c.h.onQuery != nil {
		c.h.onQuery()
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.queries++
	attr := c.h.attr
	attr.Ports = slices.Clone(attr.Ports)
	return &attr, nil
}

func (c *fakeCA) Modify(port uint8, _ ci.PortField, attr ci.PortModify) error {
	if err := c.check("CA.Modify"); err != nil {
		return err
	}
	c.h.setPort(int(port), func(p *ci.PortAttr) {
		p.Capability = p.Capability&^attr.CapMask |
			attr.Capability&attr.CapMask
	})
	return nil
}

func (c *fakeCA) Destroy() error {
	if err := c.h.verb("CA.Destroy"); err != nil {
		return err
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if len(c.h.live) > 0 {
		c.h.violations = append(c.h.violations, "close with objects left")
		return &ci.Error{Verb: "CA.Destroy", Status: ci.ResourceBusy}
	}
	c.destroyed = true
	for c.calling > 0 {
		c.h.cond.Wait()
	}
	c.h.closed, c.h.open = true, nil
	c.h.trace = append(c.h.trace, "close")
	return nil
}

func (c *fakeCA) AllocatePD(ci.PDType) (ci.PD, error) {
	if err := c.check("CA.AllocatePD"); err != nil {
		return nil, err
	}
	p := &fakePD{}
	return ret[ci.PD](p, c.h.add(&p.fakeObj, "PD"))
}

func (c *fakeCA) OpenUser(ci.Process, *ci.UserBuffer) (ci.UserCA, error) {
	u := &fakeUser{}
	return ret[ci.UserCA](u, c.h.add(&u.fakeObj, "UserCA"))
}

func (c *fakeCA) MapDMA(ci.Memory) (ci.DMA, error) {
	d := &fakeDMA{ranges: []ci.DMARange{{Addr: 4096, Size: 4096}}}
	if c.h.ranges != nil {
		d.ranges = c.h.ranges
	}
	return ret[ci.DMA](d, c.h.add(&d.fakeObj, "DMA"))
}

func ret[I any](o I, err error) (I, error) {
	if err != nil {
		var none I
		return none, err
	}
	return o, nil
}

type fakeUser struct {
	ci.UnimplementedUserCA
	fakeObj
}

func (u *fakeUser) AllocatePD(ci.PDType, *ci.UserBuffer) (ci.PD, error) {
	p := &fakePD{}
	return ret[ci.PD](p, u.h.add(&p.fakeObj, "PD", &u.fakeObj))
}

type fakeDMA struct {
	ci.UnimplementedDMA
	fakeObj
	ranges []ci.DMARange
}

func (d *fakeDMA) Ranges() []ci.DMARange { return d.ranges }

type fakePD struct {
	ci.UnimplementedPD
	fakeObj
}

type basic interface{ base() *fakeObj }

// behind returns the driver's own object of an argument, as drivers do.
func behind(o any) *fakeObj {
	b, ok := ci.As[basic](o)
	if !ok {
		return nil
	}
	return b.base()
}

func (p *fakePD) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	a := &fakeAV{attr: attr}
	return ret[ci.AV](a, p.h.add(&a.fakeObj, "AV", &p.fakeObj))
}

func (p *fakePD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	q := &fakeCQ{create: c}
	q.onEvent, q.ctx, q.obj = c.OnEvent, c.Context, q
	if err := p.h.add(&q.fakeObj, "CQ", &p.fakeObj); err != nil {
		return nil, err
	}
	if hook := p.h.onCreate; hook != nil {
		hook(q)
	}
	return q, nil
}

func (p *fakePD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	s := &fakeSRQ{}
	s.onEvent, s.ctx = c.OnEvent, c.Context
	return ret[ci.SRQ](s, p.h.add(&s.fakeObj, "SRQ", &p.fakeObj))
}

func (p *fakePD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	uses := []*fakeObj{&p.fakeObj}
	for _, o := range []any{c.SendCQ, c.RecvCQ} {
		b := behind(o)
		if b == nil {
			return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InvalidCQHandle}
		}
		uses = append(uses, b)
	}
	if c.SRQ != nil {
		uses = append(uses, behind(c.SRQ))
	}
	q := &fakeQP{create: c}
	q.onEvent, q.ctx = c.OnEvent, c.Context
	if early := p.h.onEarly; early != nil {
		early(q)
	}
	if err := p.h.add(&q.fakeObj, "QP", uses...); err != nil {
		return nil, err
	}
	if hook := p.h.onCreate; hook != nil {
		hook(q)
	}
	return q, nil
}

func (p *fakePD) CreateSpecialQP(_ uint8, c ci.QPCreate) (ci.QP, error) { return p.CreateQP(c) }

func (p *fakePD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	m := &fakeMR{length: c.Length}
	return ret[ci.MR](m, p.h.add(&m.fakeObj, "MR", &p.fakeObj))
}

func (p *fakePD) RegisterPMR(ci.PMRCreate) (ci.MR, error) {
	m := &fakeMR{}
	return ret[ci.MR](m, p.h.add(&m.fakeObj, "MR", &p.fakeObj))
}

func (p *fakePD) RegisterSMR(src ci.MR, _ uint64, _ ci.Access) (ci.MR, error) {
	m := &fakeMR{}
	return ret[ci.MR](m, p.h.add(&m.fakeObj, "MR", &p.fakeObj, behind(src)))
}

func (p *fakePD) AllocFastRegMR(int) (ci.MR, error) {
	m := &fakeMR{fast: true}
	return ret[ci.MR](m, p.h.add(&m.fakeObj, "MR", &p.fakeObj))
}

func (p *fakePD) CreateMW(ci.MWCreate) (ci.MW, error) {
	w := &fakeMW{}
	return ret[ci.MW](w, p.h.add(&w.fakeObj, "MW", &p.fakeObj))
}

func (p *fakePD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	f := &fakeFMR{create: c}
	return ret[ci.FMR](f, p.h.add(&f.fakeObj, "FMR", &p.fakeObj))
}

func (p *fakePD) UnmapFMRs(fmrs []ci.FMR) error {
	if err := p.check("PD.UnmapFMRs"); err != nil {
		return err
	}
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for _, f := range fmrs {
		d, _ := ci.As[*fakeFMR](f)
		d.maps, d.bound = 0, false
	}
	p.h.trace = append(p.h.trace, fmt.Sprintf("unmap %d", len(fmrs)))
	return nil
}

func (p *fakePD) AllocRDD() (ci.RDD, error) {
	r := &fakeRDD{}
	return ret[ci.RDD](r, p.h.add(&r.fakeObj, "RDD", &p.fakeObj))
}

type fakeRDD struct {
	ci.UnimplementedRDD
	fakeObj
}

func (r *fakeRDD) CreateEEC(c ci.EECCreate) (ci.EEC, error) {
	e := &fakeEEC{}
	e.onEvent, e.ctx = c.OnEvent, c.Context
	return ret[ci.EEC](e, r.h.add(&e.fakeObj, "EEC", &r.fakeObj))
}

type fakeEEC struct {
	ci.UnimplementedEEC
	fakeObj
}

func (e *fakeEEC) Num() ci.EECN                       { return ci.EECN(e.id) }
func (e *fakeEEC) Query() (ci.QPAttr, error)          { return ci.QPAttr{}, e.check("EEC.Query") }
func (e *fakeEEC) Modify(ci.QPField, ci.QPAttr) error { return e.check("EEC.Modify") }

type fakeAV struct {
	ci.UnimplementedAV
	fakeObj
	attr ci.AVAttr
}

func (a *fakeAV) Query() (ci.AVAttr, ci.PD, error) { return a.attr, nil, a.check("AV.Query") }
func (a *fakeAV) Modify(attr ci.AVAttr) error {
	a.attr = attr
	return a.check("AV.Modify")
}

type fakeSRQ struct {
	ci.UnimplementedSRQ
	fakeObj
}

func (s *fakeSRQ) PostRecv(wrs []ci.RecvWR) (int, error) { return len(wrs), nil }
func (s *fakeSRQ) Query() (ci.SRQAttr, error)            { return ci.SRQAttr{}, s.check("SRQ.Query") }
func (s *fakeSRQ) Modify(ci.SRQField, ci.SRQAttr) error {
	return s.check("SRQ.Modify")
}

type fakeQP struct {
	ci.UnimplementedQP
	fakeObj
	create ci.QPCreate
	state  ci.QPState
	posted int
	wait   []time.Duration
	gate   chan struct{} // Modify waits for it, if set
}

func (q *fakeQP) Num() ci.QPN              { return ci.QPN(q.id) }
func (q *fakeQP) TimeWait(d time.Duration) { q.wait = append(q.wait, d) }
func (q *fakeQP) PostSend(wrs []ci.SendWR) (int, error) {
	q.posted += len(wrs)
	return len(wrs), nil
}
func (q *fakeQP) PostRecv(wrs []ci.RecvWR) (int, error) { return len(wrs), nil }
func (q *fakeQP) Query() (ci.QPAttr, error) {
	return ci.QPAttr{State: q.state, SendCQ: q.create.SendCQ}, q.check("QP.Query")
}
func (q *fakeQP) Modify(set ci.QPField, attr ci.QPAttr) error {
	if q.gate != nil {
		<-q.gate
	}
	if set&ci.QPFieldState != 0 {
		q.state = attr.State
	}
	return q.check("QP.Modify")
}
func (q *fakeQP) AttachMcast(ci.McastAttach) (ci.Mcast, error) {
	m := &fakeMcast{}
	return ret[ci.Mcast](m, q.h.add(&m.fakeObj, "Mcast", &q.fakeObj))
}

type fakeMcast struct {
	ci.UnimplementedMcast
	fakeObj
}

type fakeMR struct {
	ci.UnimplementedMR
	fakeObj
	length uint64
	fast   bool
}

func (m *fakeMR) Region() ci.Region {
	if m.fast { // the consumer chooses the low 8 bits
		return ci.Region{LKey: ci.Key(m.id)<<8 | 0xfe, RKey: ci.Key(m.id)<<8 | 0xfe}
	}
	return ci.Region{Length: m.length, LKey: ci.Key(m.id)}
}
func (m *fakeMR) Query() (ci.MRAttr, error) {
	return ci.MRAttr{Region: m.Region()}, m.check("MR.Query")
}
func (m *fakeMR) Modify(set ci.MRField, pd ci.PD, _ ci.MRCreate) error {
	if err := m.check("MR.Modify"); err != nil {
		return err
	}
	if set&ci.MRFieldPD != 0 {
		m.h.mu.Lock()
		defer m.h.mu.Unlock()
		m.uses[0].users--
		m.uses[0] = behind(pd)
		m.uses[0].users++
	}
	return nil
}

type fakeMW struct {
	ci.UnimplementedMW
	fakeObj
}

func (w *fakeMW) Key() ci.Key               { return ci.Key(w.id) }
func (w *fakeMW) Query() (ci.MWAttr, error) { return ci.MWAttr{}, w.check("MW.Query") }

type fakeFMR struct {
	ci.UnimplementedFMR
	fakeObj
	create ci.FMRCreate
	maps   int
	ever   int
}

func (f *fakeFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	if err := f.check("FMR.Map"); err != nil {
		return ci.Region{}, err
	}
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	if f.maps >= f.create.MaxMaps {
		return ci.Region{}, &ci.Error{Verb: "FMR.Map", Status: ci.InsufficientResources}
	}
	f.maps++
	f.ever++
	f.bound = true
	return ci.Region{Addr: iova, Length: uint64(len(pages)) << 12, LKey: ci.Key(f.id<<8 + f.ever)}, nil
}

// fakeCQ is a completion queue whose arming lasts for one callback.
type fakeCQ struct {
	ci.UnimplementedCQ
	fakeObj
	create ci.CQCreate

	qmu    sync.Mutex
	queue  []ci.WC
	head   int
	armed  bool
	fired  int
	broken error

	onNotify func() // called before the queue is armed
}

// complete adds completions, and calls back if the queue is armed.
func (q *fakeCQ) complete(wcs ...ci.WC) {
	q.qmu.Lock()
	q.queue = append(q.queue, wcs...)
	fire := q.armed
	q.armed = false
	if fire {
		q.fired++
	}
	q.qmu.Unlock()
	if fire {
		q.call(func() { q.create.OnCompletion(q.create.Context) })
	}
}

func (q *fakeCQ) Poll(wc []ci.WC) (int, error) {
	q.qmu.Lock()
	defer q.qmu.Unlock()
	if q.broken != nil {
		return 0, q.broken
	}
	n := copy(wc, q.queue[q.head:])
	q.head += n
	if q.head == len(q.queue) {
		q.queue, q.head = q.queue[:0], 0
	}
	return n, nil
}

func (q *fakeCQ) Notify(ci.Notify) error {
	if q.onNotify != nil {
		q.onNotify()
	}
	q.qmu.Lock()
	defer q.qmu.Unlock()
	q.armed = true
	return nil
}

func (q *fakeCQ) Query() (ci.CQAttr, error) {
	return ci.CQAttr{Size: q.create.Size}, q.check("CQ.Query")
}
