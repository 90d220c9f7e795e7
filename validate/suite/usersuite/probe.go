package usersuite

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// probe is the driver's half of a case. It claims CapUser, records the verbs that have private data, replies to the
// data, and then has the adapter under test execute the verb without them.
type probe struct {
	trace   *trace
	library string // HCAInfo.Library

	mu     sync.Mutex
	on     func(verb string, ub *ci.UserBuffer) error // in place of reply, if not nil
	procs  []ci.Process
	live   map[string]int
	cqs    []ci.CQCreate
	buffer map[string]string // description of the private data of each verb
	qps    []any             // contexts of the QPs, in the order of their creation
}

func newProbe(r *trace) *probe {
	return &probe{trace: r, library: libraryName, live: map[string]int{}, buffer: map[string]string{}}
}

// handle sets the function that replies to private data.
func (p *probe) handle(on func(verb string, ub *ci.UserBuffer) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
}

// process returns the last process that opened a context.
func (p *probe) process() ci.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.procs) == 0 {
		return nil
	}
	return p.procs[len(p.procs)-1]
}

// lastCQ returns the arguments of the last CreateCQ.
func (p *probe) lastCQ() ci.CQCreate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.cqs) == 0 {
		return ci.CQCreate{}
	}
	return p.cqs[len(p.cqs)-1]
}

// living returns the number of objects of each kind that exist.
func (p *probe) living() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := maps.Clone(p.live)
	maps.DeleteFunc(list, func(_ string, n int) bool { return n == 0 })
	return list
}

func (p *probe) count(kind string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[kind] += n
}

// seen returns the description of the private data of the last call of a verb.
func (p *probe) seen(verb string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buffer[verb]
}

// verb records a verb and replies to its private data.
func (p *probe) verb(verb string, ub *ci.UserBuffer) error {
	p.trace.add("driver %s", verb)
	p.mu.Lock()
	on := p.on
	p.buffer[verb] = describe(ub)
	p.mu.Unlock()
	defer p.trace.order()
	if on != nil {
		return on(verb, ub)
	}
	reply(ub)
	return nil
}

// describe describes private data as a driver receives them.
func describe(ub *ci.UserBuffer) string {
	if ub == nil {
		return "none"
	}
	return fmt.Sprintf("command %d, status %d, %d bytes %q, room for %d, %d descriptors", ub.Command, ub.Status,
		len(ub.In), ub.In, cap(ub.Out), len(ub.InFiles))
}

// reply sends private data back, after "reply to ".
func reply(ub *ci.UserBuffer) {
	if ub == nil {
		return
	}
	ub.Status = 0
	text := replyTo(string(ub.In))
	ub.Out = append(ub.Out[:0], text[:min(len(text), cap(ub.Out))]...)
}

func replyTo(in string) string { return strings.TrimSpace("reply to " + in) }

// over returns an adapter with the probe in front of it.
func (p *probe) over(h ci.HCA) ci.HCA {
	born := func(kind string) func(func() error) error {
		p.count(kind, 1)
		return func(destroy func() error) error {
			err := destroy()
			if err == nil {
				p.count(kind, -1)
			}
			return err
		}
	}
	return ciwrap.Wrap(h, ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return probeHCA{ciwrap.HCA{HCA: h}, p} },
		CA:  func(c ci.CA) ci.CA { return &probeCA{CA: ciwrap.CA{CA: c}, p: p} },
		PD:  func(o ci.PD, _ ci.PDType) ci.PD { return probePD{ciwrap.PD{PD: o}, p, born("PD")} },
		CQ:  func(o ci.CQ, _ ci.CQCreate) ci.CQ { return probeCQ{ciwrap.CQ{CQ: o}, p, born("CQ")} },
		QP:  func(o ci.QP, _ ci.QPCreate) ci.QP { return probeQP{ciwrap.QP{QP: o}, p, born("QP")} },
		MR:  func(o ci.MR, _ ciwrap.MROrigin) ci.MR { return probeMR{ciwrap.MR{MR: o}, born("MR")} },
		SRQ: func(o ci.SRQ, _ ci.SRQCreate) ci.SRQ { return probeSRQ{ciwrap.SRQ{SRQ: o}, p, born("SRQ")} },
		AV:  func(o ci.AV, _ ci.AVAttr) ci.AV { return probeAV{ciwrap.AV{AV: o}, p, born("AV")} },
		MW:  func(o ci.MW, _ ci.MWCreate) ci.MW { return probeMW{ciwrap.MW{MW: o}, born("MW")} }})
}

type (
	probeHCA struct {
		ciwrap.HCA
		p *probe
	}
	probeCA struct {
		ciwrap.CA
		p *probe
	}
	probePD struct {
		ciwrap.PD
		p       *probe
		destroy func(func() error) error
	}
	probeCQ struct {
		ciwrap.CQ
		p       *probe
		destroy func(func() error) error
	}
	probeQP struct {
		ciwrap.QP
		p       *probe
		destroy func(func() error) error
	}
	probeMR struct {
		ciwrap.MR
		destroy func(func() error) error
	}
	probeSRQ struct {
		ciwrap.SRQ
		p       *probe
		destroy func(func() error) error
	}
	probeAV struct {
		ciwrap.AV
		p       *probe
		destroy func(func() error) error
	}
	probeMW struct {
		ciwrap.MW
		destroy func(func() error) error
	}
	// probeUser is the context of a process.
	probeUser struct {
		ci.UnimplementedUserCA
		ca *probeCA
	}
)

func (h probeHCA) Info() ci.HCAInfo {
	i := h.HCA.Info()
	i.Library = h.p.library
	return i
}

func (c *probeCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps |= ci.CapUser | ci.CapVendorCall
	}
	return a, err
}

func (c *probeCA) OpenUser(proc ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	c.p.mu.Lock()
	c.p.procs = append(c.p.procs, proc)
	c.p.mu.Unlock()
	if err := c.p.verb("OpenCA", ub); err != nil {
		return nil, err
	}
	c.p.count("UserCA", 1)
	return &probeUser{ca: c}, nil
}

func (u *probeUser) Destroy() error {
	u.ca.p.trace.add("driver DestroyCA")
	u.ca.p.count("UserCA", -1)
	return nil
}

func (u *probeUser) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	if err := u.ca.p.verb("AllocatePD", ub); err != nil {
		return nil, err
	}
	return u.ca.CA.AllocatePD(typ)
}

func (u *probeUser) VendorCall(_ *ci.VendorOp, ub *ci.UserBuffer, _ ...ci.Object) error {
	return u.ca.p.verb("VendorCall", ub)
}

func (o probePD) Destroy() error  { return o.destroy(o.PD.Destroy) }
func (o probeCQ) Destroy() error  { return o.destroy(o.CQ.Destroy) }
func (o probeQP) Destroy() error  { return o.destroy(o.QP.Destroy) }
func (o probeMR) Destroy() error  { return o.destroy(o.MR.Destroy) }
func (o probeSRQ) Destroy() error { return o.destroy(o.SRQ.Destroy) }
func (o probeAV) Destroy() error  { return o.destroy(o.AV.Destroy) }
func (o probeMW) Destroy() error  { return o.destroy(o.MW.Destroy) }

func (o probePD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	o.p.mu.Lock()
	o.p.cqs = append(o.p.cqs, c)
	o.p.mu.Unlock()
	if err := o.p.verb("CreateCQ", c.User); err != nil {
		return nil, err
	}
	c.User = nil
	return o.PD.CreateCQ(c)
}

func (o probePD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	o.p.mu.Lock()
	o.p.qps = append(o.p.qps, c.Context)
	o.p.mu.Unlock()
	if err := o.p.verb("CreateQP", c.User); err != nil {
		return nil, err
	}
	c.User = nil
	return o.PD.CreateQP(c)
}

func (o probePD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	if err := o.p.verb("CreateSRQ", c.User); err != nil {
		return nil, err
	}
	c.User = nil
	return o.PD.CreateSRQ(c)
}

func (o probePD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	if err := o.p.verb("CreateAV", a.User); err != nil {
		return nil, err
	}
	a.User = nil
	return o.PD.CreateAV(a)
}

func (o probePD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	if err := o.p.verb("CreateMW", c.User); err != nil {
		return nil, err
	}
	c.User = nil
	return o.PD.CreateMW(c)
}

func (o probeCQ) Resize(c ci.CQResize) (int, error) {
	if err := o.p.verb("ResizeCQ", c.User); err != nil {
		return 0, err
	}
	c.User = nil
	return o.CQ.Resize(c)
}

func (o probeCQ) Modify(m ci.Moderation) error {
	if err := o.p.verb(fmt.Sprintf("ModifyCQ %d %v", m.Count, m.Period), nil); err != nil {
		return err
	}
	return o.CQ.Modify(m)
}

func (o probeSRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	if err := o.p.verb("ModifySRQ", a.User); err != nil {
		return err
	}
	a.User = nil
	return o.SRQ.Modify(set, a)
}

func (o probeAV) Modify(a ci.AVAttr) error {
	if err := o.p.verb("ModifyAV", a.User); err != nil {
		return err
	}
	a.User = nil
	return o.AV.Modify(a)
}

func (o probeQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if err := o.p.verb("ModifyQP", a.User); err != nil {
		return err
	}
	a.User = nil
	return o.QP.Modify(set, a)
}

func (o probeQP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	if err := o.p.verb("AttachMcast", c.User); err != nil {
		return nil, err
	}
	c.User = nil
	return o.QP.AttachMcast(c)
}
