package alsuite

import (
	"errors"
	"fmt"
	"slices"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap/faults"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The order in which objects are destroyed, and objects that belong to another parent.
var orders = area()

// inOrder expects that objects were destroyed one after the other. Those that were not created are left out.
func (s *stage) inOrder(where string, objects ...string) {
	order := s.rec[0].order()
	last, before := -1, ""
	for _, o := range objects {
		at := slices.Index(order, o)
		if o == "" {
			continue
		}
		kit.True(s.t, at > last, "order of destroys, "+where, o+" after "+before, "%v", order)
		last, before = at, o
	}
}

var CIOrder01 = orders.Must("CI-Order-01", "CI access layer", "accesslayer, PD, CQ, object.Destroy",
	"Objects are destroyed after everything below them and after their users. Of several objects of a parent, "+
		"windows come first, then the others from the newest to the oldest, and mappings for DMA last; each waits "+
		"for the one before it and everything below it. The QPs of a CQ are destroyed from the newest to the "+
		"oldest.")

var _ = orders.Case(validate.Case{
	ID:    "al.order.tree",
	Title: "destroy an open with three PDs whose objects use each other, and a CQ with QPs of several PDs",
	Run:   orderTree,
}, CIOrder01)

func orderTree(t *validate.T) {
	s := registered(t)
	caps := t.Claims()
	for _, how := range kit.Variants(t, "", []string{"CA.Destroy", "CA.DestroyAsync", "Client.Close", "Deregister"}) {
		client := s.newClient("order")
		ca := made[*accesslayer.CA](t, "Client.OpenCA")(client.OpenCA(s.guid(0), nil))
		x := &tree{t: t, s: s, ca: ca, numbers: map[string]int{}}
		s.rec[0].mu.Lock()
		for kind, n := range s.rec[0].made {
			x.numbers[kind] = n
		}
		s.rec[0].mu.Unlock()
		window := func(p *accesslayer.PD) func() error {
			return func() error { _, err := p.NewMW(ci.MWCreate{Type: ci.MWType1}); return err }
		}
		mapping := func() error { _, err := ca.NewDMA(ci.Bytes(make([]byte, 8))); return err }
		oldest, pdO := x.pd() // without objects until the end of the tree
		pd0, p0 := x.pd()
		hasDMA := caps&(ci.CapPhysicalMR|ci.CapFMR|ci.CapFastReg) != 0
		dma0 := x.when(hasDMA, "DMA", mapping)
		pd1, p1 := x.pd()
		cq0, c0 := x.cq(p0)
		mr0, r0 := x.mr(p0)
		mw0 := x.when(caps.Has(ci.CapMW1), "MW", window(p0))
		qp0 := x.qp(p0, c0, c0)
		cq1, c1 := x.cq(p1)
		qp1 := x.qp(p1, c0, c1)
		mr1, _ := x.mr(p1)
		mw1 := x.when(caps.Has(ci.CapMW1), "MW", window(p1))
		qp2 := x.qp(p0, c1, c1)
		mr2 := x.when(caps.Has(ci.CapSharedMR), "MR", func() error {
			_, err := p1.NewSMR(r0, 0, ci.LocalWrite)
			return err
		})
		mr3, _ := x.mr(p0)
		mw2 := x.when(caps.Has(ci.CapMW1), "MW", window(p0))
		empty, _ := x.pd()
		youngest, p3 := x.pd()
		cq3, c3 := x.cq(p3)
		qp3 := x.qp(p3, c3, c3)
		dma1 := x.when(hasDMA, "DMA", mapping)
		mrO, _ := x.mr(pdO)
		switch how {
		case "CA.Destroy":
			kit.OK(t, ca.Destroy(), how)
		case "CA.DestroyAsync":
			done := make(chan error, 2)
			kit.OK(t, ca.DestroyAsync(func(err error) { done <- err }), how)
			kit.OK(t, expect(t, done, "callback of CA.DestroyAsync"), how)
		case "Client.Close":
			kit.OK(t, client.Close(), how)
		case "Deregister":
			kit.OK(t, s.al.Deregister(s.guid(0)), how)
		}
		_ = client.Close()
		s.inOrder("PDs of a CA, then its mappings", youngest, empty, pd1, pd0, oldest, dma1, dma0)
		s.inOrder("objects of a PD", mw2, mw0, mr3, qp0, mr0, cq0, pd0)
		s.inOrder("objects of another PD", mw1, mr2, mr1, qp1, cq1, pd1)
		s.inOrder("objects of the newest PD", qp3, cq3, youngest)
		s.inOrder("object of the oldest PD", mrO, oldest)
		s.inOrder("users of the first CQ", qp1, qp0, cq0)
		s.inOrder("a user of a CQ in another PD", qp2, cq1)
		s.inOrder("a user of a region", mr2, mr0)
		s.rec[0].empty(t)
		s.rec[0].clean(t)
	}
	s.rec[0].shut(t)
}

// tree creates objects and names them as the recorder does.
type tree struct {
	t       *validate.T
	s       *stage
	ca      *accesslayer.CA
	numbers map[string]int
}

// name returns the name of the object of a kind that was created last.
func (x *tree) name(kind string) string {
	x.numbers[kind]++
	return fmt.Sprint(kind, " ", x.numbers[kind]-1)
}

// when creates an object if the driver supports it, and returns its name.
func (x *tree) when(isSupported bool, kind string, create func() error) string {
	if !isSupported {
		return ""
	}
	kit.OK(x.t, create(), "create of "+kind)
	return x.name(kind)
}

func (x *tree) pd() (string, *accesslayer.PD) {
	p := made[*accesslayer.PD](x.t, "CA.NewPD")(x.ca.NewPD(ci.PDNormal))
	return x.name("PD"), p
}

func (x *tree) cq(p *accesslayer.PD) (string, *accesslayer.CQ) {
	q := made[*accesslayer.CQ](x.t, "PD.NewCQ")(p.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	return x.name("CQ"), q
}

func (x *tree) mr(p *accesslayer.PD) (string, *accesslayer.MR) {
	m := made[*accesslayer.MR](x.t, "PD.NewMR")(p.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)),
		Access: kit.AllAccess}))
	return x.name("MR"), m
}

func (x *tree) qp(p *accesslayer.PD, send, recv *accesslayer.CQ) string {
	made[*accesslayer.QP](x.t, "PD.NewQP")(p.NewQP(ci.QPCreate{SendCQ: send, RecvCQ: recv,
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}, nil))
	return x.name("QP")
}

var _ = orders.Case(validate.Case{
	ID:    "al.order.users",
	Title: "destroy a CQ with QPs of several PDs, the newest of which has callbacks and multicast groups",
	Run:   orderUsers,
}, CIOrder01)

func orderUsers(t *validate.T) {
	s := registered(t)
	ca := made[*accesslayer.CA](t, "Client.OpenCA")(s.client.OpenCA(s.guid(0), nil))
	x := &tree{t: t, s: s, ca: ca, numbers: map[string]int{}}
	pd0, p0 := x.pd()
	pd1, p1 := x.pd()
	_, other := x.cq(p0)
	cq, q := x.cq(p1)
	for range 3 {
		qps := []string{cq, x.qp(p0, q, other), x.qp(p1, other, q), x.qp(p0, q, q), x.qp(p1, q, other)}
		mcast := ""
		if t.Claims().Has(ci.CapUD|ci.CapMulticast) && t.Attr().Ports[0].Link == ci.LinkInfiniBand {
			ud := made[*accesslayer.QP](t, "PD.NewQP")(p0.NewQP(ci.QPCreate{Type: ci.UD, SendCQ: q, RecvCQ: q,
				QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}, nil))
			kit.OK(t, ud.InitDatagram(t.Attr().Ports[0].Num, 1, 0), "QP.InitDatagram")
			made[ci.Mcast](t, "QP.AttachMcast")(ud.AttachMcast(ci.McastAttach{GID: ci.GID{0xff, 0x12, 15: 1},
				LID: 0xc001}))
			qps, mcast = append(qps, x.name("QP")), x.name("Mcast")
		}
		kit.OK(t, q.Destroy(), "CQ.Destroy with QPs")
		slices.Reverse(qps)
		s.inOrder("users of a CQ", append([]string{mcast}, qps...)...)
		cq, q = x.cq(p1)
	}
	kit.OK(t, p1.Destroy(), "PD.Destroy")
	kit.OK(t, p0.Destroy(), "PD.Destroy")
	s.inOrder("PDs", pd1, pd0)
	s.rec[0].clean(t)
}

var CIOrder02 = orders.Must("CI-Order-02", "CI access layer", "accesslayer, MR.Modify",
	"A region that is moved to another PD is an object of that PD. If the driver refuses, it stays where it was. "+
		"If the other PD is destroyed meanwhile, the region is destroyed, too. A PD that is not of the same access "+
		"layer and adapter is rejected.")

var _ = orders.Case(validate.Case{
	ID:    "al.order.moved",
	Title: "move regions between PDs, and destroy the PDs",
	Needs: validate.Needs{Caps: ci.CapModifyMR, HCAs: 2},
	Run:   orderMoved,
}, CIOrder02)

func orderMoved(t *validate.T) {
	inj := faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, inj.Wrap)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := made[*accesslayer.CA](t, "Client.OpenCA")(s.client.OpenCA(s.guid(0), nil))
	x := &tree{t: t, s: s, ca: ca, numbers: map[string]int{}}
	pd0, from := x.pd()
	pd1, to := x.pd()
	older, _ := x.mr(to)
	moved, m := x.mr(from)
	stays, _ := x.mr(from)
	newer, _ := x.mr(to)
	set := ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess}
	belongs := func(pd *accesslayer.PD, where string) {
		kit.True(t, m.PD() == pd, "MR.PD "+where, "the PD of the region", "another one")
		a, err := m.Query()
		kit.OK(t, err, "MR.Query")
		kit.True(t, ci.Same(a.PD, pd.CI()), "PD of MR.Query "+where, "the PD of the region", "another one")
	}
	belongs(from, "after its create")
	fails := errors.New("an error of the driver")
	rule := inj.MustAdd(faults.Rule{Verb: "MR.Modify", Err: fails})
	err := m.Modify(ci.MRFieldPD, to.CI(), set)
	kit.True(t, errors.Is(err, fails), "MR.Modify that fails", "the error of the driver", "%v", err)
	rule.Remove()
	belongs(from, "after a Modify that failed")

	foreign := newStage(t)
	kit.OK(t, foreign.al.Register(foreign.hcas[1]), "Registrar.Register at another access layer")
	other := typed[*accesslayer.PD](t, foreign.open(foreign.client, 1).PD(), "PD")
	kit.WantExactly(t, m.Modify(ci.MRFieldPD, other.CI(), set), "MR.Modify to a PD of another access layer",
		ci.InvalidPDHandle)
	kit.OK(t, foreign.al.Deregister(foreign.guid(1)), "Registrar.Deregister")
	kit.OK(t, s.al.Register(s.hcas[1]), "Registrar.Register")
	bad := map[string]ci.PD{"a nil pointer": (*accesslayer.PD)(nil).CI(),
		"a PD of another adapter": s.open(s.client, 1).PD()}
	gone := made[*accesslayer.PD](t, "CA.NewPD")(ca.NewPD(ci.PDNormal))
	x.name("PD")
	kit.OK(t, gone.Destroy(), "PD.Destroy")
	bad["a destroyed PD"] = gone.CI()
	calls := inj.Calls("MR.Modify") + inj.Calls("MR.ModifyPMR")
	for name, pd := range bad {
		kit.WantExactly(t, m.Modify(ci.MRFieldPD, pd, set), "MR.Modify to "+name, ci.InvalidPDHandle)
		kit.WantExactly(t, m.ModifyPMR(ci.MRFieldPD, pd, ci.PMRCreate{}), "MR.ModifyPMR to "+name, ci.InvalidPDHandle)
	}
	kit.Equal(t, "calls of the driver for wrong PDs", inj.Calls("MR.Modify")+inj.Calls("MR.ModifyPMR"), calls)
	belongs(from, "after Modify to wrong PDs")
	kit.OK(t, m.Modify(ci.MRFieldAccess, nil, set), "MR.Modify of the access")
	belongs(from, "after a Modify of the access")
	for range 2 {
		kit.OK(t, m.Modify(ci.MRFieldPD, to.CI(), set), "MR.Modify to another PD")
		belongs(to, "after a Modify")
	}
	objects := s.client.Objects()["MR"]
	kit.OK(t, from.Destroy(), "PD.Destroy of the PD that the region has left")
	kit.Equal(t, "regions after the destroy of the PD that one has left", s.client.Objects()["MR"], objects-1)
	belongs(to, "after the other PD is destroyed")
	kit.OK(t, to.Destroy(), "PD.Destroy with a region that was moved")
	s.inOrder("a region that has left its PD", stays, pd0)
	s.inOrder("a region that was moved, between those of the PD", newer, moved, older, pd1)

	// The driver refuses, and the region is destroyed with its first PD; or the PD is destroyed inside the verb.
	_, from = x.pd()
	_, to = x.pd()
	name, m := x.mr(from)
	rule = inj.MustAdd(faults.Rule{Verb: "MR.Modify", Err: fails})
	err = m.Modify(ci.MRFieldPD, to.CI(), set)
	kit.True(t, errors.Is(err, fails), "MR.Modify that fails", "the error of the driver", "%v", err)
	rule.Remove()
	kit.OK(t, from.Destroy(), "PD.Destroy of the PD of the region")
	kit.True(t, slices.Contains(s.rec[0].order(), name), "region whose move has failed", "destroyed with its PD", "not")
	last, from := x.pd()
	name, m = x.mr(from)
	done := make(chan error, 2)
	rule = inj.MustAdd(faults.Rule{Verb: "MR.Modify", Hook: func(uint64) {
		if err := to.DestroyAsync(func(err error) { done <- err }); err != nil {
			done <- err
		}
	}})
	kit.OK(t, m.Modify(ci.MRFieldPD, to.CI(), set), "MR.Modify to a PD that is destroyed meanwhile")
	rule.Remove()
	kit.OK(t, expect(t, done, "callback of PD.DestroyAsync"), "PD.DestroyAsync inside MR.Modify")
	kit.True(t, slices.Contains(s.rec[0].order(), name), "region that was moved to a PD that is destroyed",
		"destroyed before the PD", "not")
	_, err = m.Query()
	kit.WantExactly(t, err, "MR.Query of a region that was moved to a PD that is destroyed", ci.InvalidMRHandle)
	kit.True(t, !slices.Contains(s.rec[0].order(), last), "PD that the region has left", "not destroyed", "destroyed")
	kit.OK(t, from.Destroy(), "PD.Destroy")
	s.rec[0].clean(t)
}

var CIOrder03 = orders.Must("CI-Order-03", "CI access layer", "accesslayer, PD.NewQP, NewSMR",
	"Objects that a create names are of the same access layer and adapter, or lead to such: otherwise the create "+
		"is rejected with the status of the object, and does not reach the driver.")

var _ = orders.Case(validate.Case{
	ID:    "al.order.foreign",
	Title: "creates with objects of another access layer, and of one above",
	Needs: validate.Needs{HCAs: 2},
	Run:   orderForeign,
}, CIOrder03)

func orderForeign(t *validate.T) {
	inj := faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, inj.Wrap)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	pd := typed[*accesslayer.PD](t, s.open(s.client, 0).PD(), "PD")
	cq := made[*accesslayer.CQ](t, "PD.NewCQ")(pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	mr := made[*accesslayer.MR](t, "PD.NewMR")(pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)),
		Access: kit.AllAccess}))
	// An access layer above this one, and one beside it.
	below, err := s.client.HCA(s.guid(0))
	kit.OK(t, err, "Client.HCA")
	above := accesslayer.New(accesslayer.Config{PollInterval: -1})
	t.Cleanup(func() { kit.OK(t, above.Close(), "AL.Close of the access layer above") })
	kit.OK(t, above.Register(below), "Registrar.Register at an access layer above")
	client, err := above.Open(accesslayer.ClientConfig{Name: "above"})
	kit.OK(t, err, "AL.Open")
	ca := made[*accesslayer.CA](t, "Client.OpenCA")(client.OpenCA(s.guid(0), nil))
	upper := made[*accesslayer.PD](t, "CA.NewPD")(ca.NewPD(ci.PDNormal))
	upperCQ := made[*accesslayer.CQ](t, "PD.NewCQ")(upper.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	foreign := newStage(t)
	kit.OK(t, foreign.al.Register(foreign.hcas[1]), "Registrar.Register at another access layer")
	other := foreign.open(foreign.client, 1)
	beside := other.CQ(other.PD(), 4)
	create := ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}, SendCQ: cq, RecvCQ: cq}
	for _, v := range kit.Variants(t, "", []struct {
		name string
		edit func(*ci.QPCreate)
		want ci.Status
	}{
		{"a nil pointer as SendCQ", func(c *ci.QPCreate) { c.SendCQ = (*accesslayer.CQ)(nil) }, ci.InvalidCQHandle},
		{"a nil pointer as RecvCQ", func(c *ci.QPCreate) { c.RecvCQ = (*accesslayer.CQ)(nil) }, ci.InvalidCQHandle},
		{"a nil pointer as SRQ", func(c *ci.QPCreate) { c.SRQ = (*accesslayer.SRQ)(nil) }, ci.InvalidSRQHandle},
		{"a nil pointer as RDD", func(c *ci.QPCreate) { c.RDD = (*accesslayer.RDD)(nil).CI() }, ci.InvalidHandle},
		{"a SendCQ of another access layer", func(c *ci.QPCreate) { c.SendCQ = beside }, ci.InvalidCQHandle},
		{"a RecvCQ of another access layer", func(c *ci.QPCreate) { c.RecvCQ = beside }, ci.InvalidCQHandle},
		{"a SendCQ of another access layer, and other mistakes", func(c *ci.QPCreate) {
			c.SendCQ, c.SRQ = beside, (*accesslayer.SRQ)(nil)
		}, ci.InvalidCQHandle},
		{"a RecvCQ of another access layer, and other mistakes", func(c *ci.QPCreate) {
			c.RecvCQ, c.RDD = beside, (*accesslayer.RDD)(nil).CI()
		}, ci.InvalidCQHandle},
		{"nil pointers as SRQ and RDD", func(c *ci.QPCreate) {
			c.SRQ, c.RDD = (*accesslayer.SRQ)(nil), (*accesslayer.RDD)(nil).CI()
		}, ci.InvalidSRQHandle},
	}) {
		c, calls := create, inj.Calls("PD.CreateQP")+inj.Calls("PD.CreateSpecialQP")
		v.edit(&c)
		q, err := pd.NewQP(c, nil)
		kit.WantExactly(t, err, "PD.NewQP with "+v.name, v.want)
		kit.True(t, q == nil, "PD.NewQP with "+v.name, "no QP", "one")
		_, err = pd.NewSpecialQP(1, c, nil)
		kit.WantExactly(t, err, "PD.NewSpecialQP with "+v.name, v.want)
		kit.Equal(t, "creates of the driver for PD.NewQP with "+v.name,
			inj.Calls("PD.CreateQP")+inj.Calls("PD.CreateSpecialQP"), calls)
	}
	c := create
	c.SendCQ = nil
	calls := inj.Calls("PD.CreateQP")
	_, err = pd.NewQP(c, nil)
	kit.True(t, err != nil, "PD.NewQP without a SendCQ", "an error of the driver", "success")
	kit.Equal(t, "creates of the driver for PD.NewQP without a SendCQ", inj.Calls("PD.CreateQP")-calls, 1)
	for name, src := range map[string]ci.MR{"a nil pointer": (*accesslayer.MR)(nil),
		"a region of another access layer": other.Buf(other.PD(), 64, kit.AllAccess).MR} {
		calls := inj.Calls("PD.RegisterSMR")
		_, err := pd.NewSMR(src, 0, ci.LocalWrite)
		kit.WantExactly(t, err, "PD.NewSMR with "+name, ci.InvalidMRHandle)
		kit.Equal(t, "calls of the driver for PD.NewSMR with "+name, inj.Calls("PD.RegisterSMR"), calls)
	}
	// An object of the access layer above leads to one of this one, and not the other way round.
	c = create
	c.SendCQ = upperCQ
	q := made[*accesslayer.QP](t, "PD.NewQP with a CQ of the access layer above")(pd.NewQP(c, nil))
	kit.OK(t, q.Destroy(), "QP.Destroy")
	c.SendCQ, c.RecvCQ = cq, upperCQ
	_, err = upper.NewQP(c, nil)
	kit.WantExactly(t, err, "PD.NewQP of the access layer above with a CQ of the one below", ci.InvalidCQHandle)
	for _, f := range []ci.Object{upperCQ, upper, mr} {
		kit.OK(t, f.Destroy(), "destroy")
	}
	s.rec[0].clean(t)
}
