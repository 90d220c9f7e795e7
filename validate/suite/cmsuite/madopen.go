package cmsuite

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The start of the services on an HCA whose driver fails.

// census counts what the services have of a driver, and has one of its verbs fail.
type census struct {
	mu    sync.Mutex
	calls map[string]int // of each verb since the last start
	live  map[string]int // objects of each kind
	fail  string         // the verb that fails; "": none
	at    int            // the call of it that fails, from 1
	types []ci.QPType    // of the special QPs, in the order of their creates
	caps  []ci.QPCaps    // of these QPs
	recvs int            // receives that were posted to them
	query func(*ci.CAAttr)
	moves func(set ci.QPField, a *ci.QPAttr) // sees, and may change, each QP.Modify
}

// begins counts a call, and returns the error of the one that fails.
func (c *census) begins(verb string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[verb]++
	if verb == c.fail && c.calls[verb] == c.at {
		return &ci.Error{Verb: verb, Status: ci.InsufficientMemory, Detail: "as the case wants it"}
	}
	return nil
}

// made counts an object that exists until destroy succeeds.
func (c *census) made(kind string, err error) {
	if err == nil {
		c.mu.Lock()
		c.live[kind]++
		c.mu.Unlock()
	}
}

func (c *census) gone(kind string, err error) error {
	if err == nil {
		c.mu.Lock()
		c.live[kind]--
		c.mu.Unlock()
	}
	return err
}

// objects returns how many objects of each kind exist.
func (c *census) objects() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := maps.Clone(c.live)
	maps.DeleteFunc(list, func(_ string, n int) bool { return n == 0 })
	return list
}

type censusCA struct {
	ciwrap.CA
	c *census
}

func (a censusCA) Query() (*ci.CAAttr, error) {
	attr, err := a.CA.Query()
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if err != nil || a.c.query == nil {
		return attr, err
	}
	b := *attr
	b.Ports = slices.Clone(attr.Ports)
	a.c.query(&b)
	return &b, nil
}

func (a censusCA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	if err := a.c.begins("CA.AllocatePD"); err != nil {
		return nil, err
	}
	p, err := a.CA.AllocatePD(typ)
	a.c.made("PD", err)
	return p, err
}

type censusPD struct {
	ciwrap.PD
	c *census
}

func (p censusPD) RegisterMR(m ci.MRCreate) (ci.MR, error) {
	if err := p.c.begins("PD.RegisterMR"); err != nil {
		return nil, err
	}
	x, err := p.PD.RegisterMR(m)
	p.c.made("MR", err)
	return x, err
}

func (p censusPD) CreateCQ(q ci.CQCreate) (ci.CQ, error) {
	if err := p.c.begins("PD.CreateCQ"); err != nil {
		return nil, err
	}
	x, err := p.PD.CreateCQ(q)
	p.c.made("CQ", err)
	return x, err
}

func (p censusPD) CreateSpecialQP(port uint8, q ci.QPCreate) (ci.QP, error) {
	p.c.mu.Lock()
	p.c.types, p.c.caps = append(p.c.types, q.Type), append(p.c.caps, q.QPCaps)
	p.c.mu.Unlock()
	if err := p.c.begins("PD.CreateSpecialQP"); err != nil {
		return nil, err
	}
	x, err := p.PD.CreateSpecialQP(port, q)
	p.c.made("QP", err)
	return x, err
}

func (p censusPD) Destroy() error { return p.c.gone("PD", p.PD.Destroy()) }

type censusMR struct {
	ciwrap.MR
	c *census
}

func (m censusMR) Destroy() error { return m.c.gone("MR", m.MR.Destroy()) }

type censusCQ struct {
	ciwrap.CQ
	c *census
}

func (q censusCQ) Destroy() error { return q.c.gone("CQ", q.CQ.Destroy()) }

type censusQP struct {
	ciwrap.QP
	c *census
}

func (q censusQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if err := q.c.begins("QP.Modify to " + a.State.String()); err != nil {
		return err
	}
	q.c.mu.Lock()
	if q.c.moves != nil {
		q.c.moves(set, &a)
	}
	q.c.mu.Unlock()
	return q.QP.Modify(set, a)
}

func (q censusQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	if err := q.c.begins("QP.PostRecv"); err != nil {
		return 0, err
	}
	n, err := q.QP.PostRecv(wrs)
	q.c.mu.Lock()
	q.c.recvs += n
	q.c.mu.Unlock()
	return n, err
}

func (q censusQP) Destroy() error { return q.c.gone("QP", q.QP.Destroy()) }

// countedSides is sides with a census of the driver of the adapter under test.
func countedSides(t *validate.T) (a, b *side, c *census) {
	h, hb, c := countedPair(t)
	return newSide(t, h), newSide(t, hb), c
}

// countedPair returns the adapter under test with a census of its driver, and the peer.
func countedPair(t *validate.T) (a, b ci.HCA, c *census) {
	ha, hb := t.Pair()
	if _, ok := ha.(Host); ok {
		t.Skip("the MAD services are in another process, and no case can put faults below them")
	}
	c = &census{calls: map[string]int{}, live: map[string]int{}}
	h := ciwrap.Wrap(ha, ciwrap.Layer{
		CA: func(x ci.CA) ci.CA { return censusCA{ciwrap.CA{CA: x}, c} },
		PD: func(p ci.PD, _ ci.PDType) ci.PD { return censusPD{ciwrap.PD{PD: p}, c} },
		MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return censusMR{ciwrap.MR{MR: m}, c} },
		CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ { return censusCQ{ciwrap.CQ{CQ: q}, c} },
		QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return censusQP{ciwrap.QP{QP: q}, c} },
	})
	return h, hb, c
}

// again removes the adapter and registers it again, with a verb that fails. The services have handled both.
func (s *side) again(c *census, verb string, call int, query func(*ci.CAAttr)) {
	kit.OK(s.t, s.al.Deregister(s.port.CA), "AL.Deregister")
	c.mu.Lock()
	c.calls, c.types = map[string]int{}, nil
	c.fail, c.at, c.query = verb, call, query
	c.mu.Unlock()
	kit.OK(s.t, s.al.Register(s.hca), "Registrar.Register")
	kit.OK(s.t, s.al.WaitPnP(s.t.Context()), "AL.WaitPnP")
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.watch.refused",
	Title: "services begin on an HCA whose driver fails, at each of their verbs, and on ports that have none",
	Run:   watchRefused,
}, MADWatch01)

func watchRefused(t *validate.T) {
	a, b, c := countedSides(t)
	a.again(c, "", 0, nil)
	all, types := c.objects(), slices.Clone(c.types)
	kit.Equal(t, "objects of QPs that the services have", len(types) > 0 && all["QP"] > 0, true)
	qp1, qp0 := vendor(mad.Get), mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true}
	register := func(cfg mads.AgentConfig) error {
		cfg.Port = a.port
		x, err := a.mads.Register(cfg)
		if err == nil {
			err = x.Close()
		}
		return err
	}
	none := func(where string) {
		kit.Equal(t, "ports with services, "+where, len(a.mads.Ports()), 0)
		kit.WantExactly(t, register(qp1), "mads.Service.Register, "+where, ci.InvalidPort)
		kit.Equal(t, "objects that the services leave, "+where, fmt.Sprint(c.objects()), "map[]")
	}
	hasQP0 := !t.Attr().HasHardwareAgents(a.port.Num) // those may have no QP0, and then create none
	verbs := []string{"PD.RegisterMR", "PD.CreateCQ", "PD.CreateSpecialQP", "QP.Modify to Init", "QP.Modify to RTR",
		"QP.Modify to RTS", "QP.PostRecv"}
	for _, verb := range kit.Variants(t, "", append([]string{"CA.AllocatePD"}, verbs...)) {
		for i, typ := range types {
			if verb == "CA.AllocatePD" && i > 0 || typ == ci.QP0 && !hasQP0 {
				continue
			}
			where := fmt.Sprintf("after call %d of %s has failed", i+1, verb)
			a.again(c, verb, i+1, nil)
			c.mu.Lock()
			calls := c.calls[verb]
			c.mu.Unlock()
			kit.True(t, calls >= i+1, "calls of "+verb, fmt.Sprint(i+1), "%d", calls)
			if typ == ci.QP1 || verb == "CA.AllocatePD" {
				kit.Equal(t, "calls of "+verb+" after one that has failed", calls, i+1)
				none(where)
				continue
			}
			kit.OK(t, register(qp1), "mads.Service.Register on QP1, "+where)
			if types[i] == ci.QP0 && i == 1 { // of the first port
				kit.WantExactly(t, register(qp0), "mads.Service.Register on QP0, "+where, ci.Unsupported)
			}
			want := maps.Clone(all)
			for _, kind := range []string{"MR", "CQ", "QP"} {
				want[kind]--
			}
			maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
			kit.Equal(t, "objects of the services, "+where, fmt.Sprint(c.objects()), fmt.Sprint(want))
		}
	}

	a.again(c, "", 0, func(attr *ci.CAAttr) { attr.Caps &^= ci.CapSpecialQP })
	none("on an HCA without special QPs")
	c.mu.Lock()
	kit.Equal(t, "calls of CA.AllocatePD on an HCA without special QPs", c.calls["CA.AllocatePD"], 0)
	c.mu.Unlock()
	a.again(c, "", 0, func(attr *ci.CAAttr) {
		for i := range attr.Ports {
			attr.Ports[i].Link = ci.LinkIWARP
		}
	})
	kit.Equal(t, "ports with services on an HCA of iWARP", len(a.mads.Ports()), 0)
	kit.Equal(t, "QPs on an HCA of iWARP", c.objects()["QP"], 0)

	for _, v := range []struct {
		keys []ci.PKey
		want uint16
	}{{[]ci.PKey{0x8001, 0x8002, 0}, 0}, {[]ci.PKey{0x8001, 0x8002, 0x7fff}, 2},
		{[]ci.PKey{0x8001, 0xffff, 0x8002}, 1}, {[]ci.PKey{0x7fff, 0x8001, 0xffff}, 2}} {
		var got []uint16
		c.mu.Lock()
		c.moves = func(set ci.QPField, attr *ci.QPAttr) {
			if set&ci.QPFieldPKeyIndex != 0 {
				got = append(got, attr.Primary.PKeyIndex)
				isKey := func(k ci.PKey) bool { return k&0x7fff != 0 } // the adapter does not have those of the table
				attr.Primary.PKeyIndex = uint16(slices.IndexFunc(t.Attr().Ports[attr.Port-1].PKeys, isKey))
			}
		}
		c.mu.Unlock()
		a.again(c, "", 0, func(attr *ci.CAAttr) {
			for i := range attr.Ports {
				attr.Ports[i].PKeys = slices.Clone(v.keys)
			}
		})
		kit.Equal(t, "QPs that are initialized", len(got) >= all["QP"], true)
		for _, index := range got {
			kit.Equal(t, fmt.Sprintf("index of the P_Key of QP0 and QP1 in the table %x", v.keys), index, v.want)
		}
	}
	c.mu.Lock()
	c.moves = nil
	c.mu.Unlock()

	a.again(c, "", 0, nil)
	kit.Equal(t, "objects of the services after all", fmt.Sprint(c.objects()), fmt.Sprint(all))
	pass(t, a.agent(vendor(mad.Send)), b.agent(vendor(mad.Send)), a.to(b), 3, "after services that did not begin")
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.limit.depth",
	Title: "the queues of QP0 and QP1, for each setting of them and limit of the adapter",
	Run:   limitDepth,
}, MADLimit01)

func limitDepth(t *validate.T) {
	h, _, c := countedPair(t)
	for _, v := range kit.Variants(t, "", []struct{ recv, send, most, wantRecv, wantSend int }{
		{0, 0, 1 << 20, 512, 128}, {-1, -1, 1 << 20, 512, 128}, {1, 1, 1 << 20, 64, 1}, {64, 2, 1 << 20, 64, 2},
		{65, 3, 1 << 20, 65, 3}, {200, 100, 90, 90, 90}, {200, 100, 0, 200, 100},
	}) {
		c.mu.Lock()
		c.caps, c.recvs = nil, 0
		c.query = func(attr *ci.CAAttr) { attr.MaxWRs = v.most }
		c.mu.Unlock()
		s := newSideWith(t, h, setting{mads: mads.Config{RecvDepth: v.recv, SendDepth: v.send}})
		c.mu.Lock()
		caps, recvs := slices.Clone(c.caps), c.recvs
		c.mu.Unlock()
		where := fmt.Sprintf("RecvDepth %d, SendDepth %d, and a limit of %d", v.recv, v.send, v.most)
		kit.True(t, len(caps) > 0, "special QPs for "+where, "some", "none")
		for _, q := range caps {
			kit.Equal(t, "depths of a special QP for "+where, [2]int{q.RecvDepth, q.SendDepth},
				[2]int{v.wantRecv, v.wantSend})
		}
		kit.Equal(t, "receives that are posted for "+where, recvs, c.objects()["QP"]*v.wantRecv)
		kit.OK(t, s.services.Close(), "end of the MAD services")
		kit.OK(t, s.al.Close(), "AL.Close")
	}
}
