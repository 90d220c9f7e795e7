package mutant

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Teardown are faults of destruction, concurrency, callbacks and events.
func Teardown() []Mutant {
	qp := func(name, breaks, does string, f func(q ci.QP, c ci.QPCreate) ci.QP) Mutant {
		return Mutant{Name: name, Area: "teardown", Breaks: breaks, Does: does, Wrap: tap.Layer(ciwrap.Layer{QP: f})}
	}
	events := func(name, breaks, does string, make func() func(e ci.Event, deliver func(ci.Event))) Mutant {
		return Mutant{Name: name, Area: "events", Breaks: breaks, Does: does,
			Wrap: func(h ci.HCA) ci.HCA { return ciwrap.Wrap(h, ciwrap.Layer{Event: make()}) }}
	}
	const none = ci.EventType(0)
	return []Mutant{
		qp("teardown.flush-on-destroy", "CI-Teardown-02", "Destroy flushes what is outstanding into the CQs",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return flusher{ciwrap.QP{QP: q}} }),
		{
			Name:   "teardown.purge",
			Area:   "teardown",
			Breaks: "CI-Teardown-03",
			Does:   "completions of a QP that is gone are thrown away",
			Wrap: func(h ci.HCA) ci.HCA {
				gone := &sync.Map{}
				return ciwrap.Wrap(h, ciwrap.Layer{
					QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return &mourned{QP: ciwrap.QP{QP: q}, gone: gone} },
					CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return purger{ciwrap.CQ{CQ: c}, gone} },
				})
			},
		},
		qp("teardown.post-after-destroy", "CI-Teardown-01", "posts to a QP that is gone are taken, and forgotten",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return sponge{ciwrap.QP{QP: q}} }),
		qp("teardown.busy-with-work", "CI-Teardown-02", "Destroy refuses while work is outstanding",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return &clingy{QP: ciwrap.QP{QP: q}} }),
		qp("teardown.drops-concurrent-post", "CI-Teardown-04", "of two posts at the same time one is lost",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return &postLoser{QP: ciwrap.QP{QP: q}} }),
		{
			Name:   "teardown.polled-twice",
			Area:   "teardown",
			Breaks: "CI-Teardown-04",
			Does:   "every 64th completion is given out twice",
			Wrap: tap.Layer(
				ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &stutterer{CQ: ciwrap.CQ{CQ: c}} }},
			),
		},
		{
			Name:   "teardown.leak",
			Area:   "teardown",
			Breaks: "CI-Teardown-05",
			Does:   "now and then the destroy of a region keeps it",
			Wrap: tap.Layer(ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return &leakyPD{PD: ciwrap.PD{PD: p}} },
				MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return &leakedMR{MR: ciwrap.MR{MR: m}} }}),
		},
		{
			Name:   "teardown.aliased-qp",
			Area:   "teardown",
			Breaks: "CI-Teardown-06",
			Does:   "the handle of a QP that is gone answers for the newest one",
			Wrap: func(h ci.HCA) ci.HCA {
				newest := &atomic.Pointer[ci.QP]{}
				return ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					newest.Store(&q)
					return &aliased{QP: ciwrap.QP{QP: q}, newest: newest}
				}})
			},
		},
		{
			Name:   "teardown.close-busy",
			Area:   "teardown",
			Breaks: "CI-Teardown-07",
			Does:   "Close succeeds although objects are left, and leaves the CA open",
			Wrap:   tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return careless{ciwrap.CA{CA: c}} }}),
		},
		{
			Name:   "teardown.number-again",
			Area:   "teardown",
			Breaks: "CI-Teardown-08",
			Does:   "a QP gets the number of the one destroyed last",
			Wrap: func(h ci.HCA) ci.HCA {
				last := &atomic.Uint32{}
				return ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					return &renumbered{QP: ciwrap.QP{QP: q}, num: ci.QPN(last.Swap(0)), last: last}
				}})
			},
		},
		events("events.late", "SAS-2.1-30", "events come a moment later, whatever has become of the object",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) { time.AfterFunc(2*time.Millisecond, func() { deliver(e) }) }
			}),
		events("events.no-context", "SAS-2.1-10", "events carry no context", func() func(ci.Event, func(ci.Event)) {
			return func(e ci.Event, deliver func(ci.Event)) { e.Context = nil; deliver(e) }
		}),
		events("events.swapped", "SAS-2.3-21", "communication established is told after the next event",
			func() func(ci.Event, func(ci.Event)) {
				var mu sync.Mutex
				held := map[any]ci.Event{}
				return func(e ci.Event, deliver func(ci.Event)) {
					mu.Lock()
					if e.Type == ci.EventQPComm {
						held[e.Context] = e
						mu.Unlock()
						return
					}
					first := held[e.Context]
					delete(held, e.Context)
					mu.Unlock()
					deliver(e)
					if first.Type != none {
						deliver(first)
					}
				}
			}),
		events(
			"events.no-comm",
			"CI-EventComm-01",
			"communication established is never told",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) {
					if e.Type != ci.EventQPComm {
						deliver(e)
					}
				}
			},
		),
		events(
			"events.one-thread",
			"CI-Callback-01",
			"all callbacks wait for one another",
			func() func(ci.Event, func(ci.Event)) {
				var mu sync.Mutex
				return func(e ci.Event, deliver func(ci.Event)) {
					mu.Lock()
					defer mu.Unlock()
					deliver(e)
				}
			},
		),
		events(
			"events.overlap",
			"CI-Callback-02",
			"each event comes on a goroutine of its own",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) { go deliver(e) }
			},
		),
		events(
			"events.no-port-down",
			"CI-PortEvent-01",
			"a port that goes down is not told",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) {
					if e.Type != ci.EventPortDown {
						deliver(e)
					}
				}
			},
		),
		{
			Name:   "events.open-only",
			Area:   "events",
			Breaks: "CI-EventHandler-01",
			Does:   "events of a port come to the open's callback only",
			Needs:  ci.CapEventHandlers,
			Wrap: tap.Layer(
				ciwrap.Layer{
					OnEvent: func(func(ci.Event), any) (func(ci.Event), any) { return func(ci.Event) {}, nil },
				},
			),
		},
		{
			Name:   "events.handler-lives",
			Area:   "events",
			Breaks: "CI-EventHandler-02",
			Does:   "a handler that was destroyed goes on",
			Needs:  ci.CapEventHandlers,
			Wrap:   tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &listening{CA: ciwrap.CA{CA: c}} }}),
		},
		{
			Name:   "events.handlers-only",
			Area:   "events",
			Breaks: "SAS-2.3-04",
			Does:   "the callback of the open gets nothing",
			Wrap: tap.Layer(
				ciwrap.Layer{OpenCA: func(func(ci.Event), any) (func(ci.Event), any) { return func(ci.Event) {}, nil }},
			),
		},
	}
}

type flusher struct{ ciwrap.QP }

func (q flusher) Destroy() error {
	if err := q.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}); ci.StatusOf(err) == ci.InvalidQPHandle {
		return err
	}
	return q.QP.Destroy()
}

type mourned struct {
	ciwrap.QP
	gone *sync.Map
}

func (q *mourned) Destroy() error {
	err := q.QP.Destroy()
	if err == nil {
		q.gone.Store(q.Num(), true)
	}
	return err
}

type purger struct {
	ciwrap.CQ
	gone *sync.Map
}

func (c purger) Poll(wc []ci.WC) (int, error) {
	n, err := c.CQ.Poll(wc)
	left := slices.DeleteFunc(wc[:n], func(w ci.WC) bool { _, gone := c.gone.Load(w.QPN); return gone })
	return len(left), err
}

type sponge struct{ ciwrap.QP }

func (q sponge) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := q.QP.PostRecv(wrs)
	if ci.StatusOf(err) == ci.InvalidQPHandle {
		return len(wrs), nil
	}
	return n, err
}

type clingy struct {
	ciwrap.QP
	posted atomic.Bool
	asked  atomic.Bool
}

func (q *clingy) PostSend(wrs []ci.SendWR) (int, error) {
	q.posted.Store(true)
	return q.QP.PostSend(wrs)
}

func (q *clingy) Destroy() error {
	if q.posted.Load() && !q.asked.Swap(true) {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.ResourceBusy}
	}
	return q.QP.Destroy()
}

// postLoser loses one post. Each of the first hundred waits a moment for a second one, so that two goroutines that post
// at the same time are found together however they are scheduled.
type postLoser struct {
	ciwrap.QP
	mu    sync.Mutex
	waits int
	met   chan struct{} // closed by the second post; nil while none waits
}

const (
	maxPostWaits = 100
	postWait     = 5 * time.Millisecond
)

func (q *postLoser) PostSend(wrs []ci.SendWR) (int, error) {
	q.mu.Lock()
	switch {
	case q.met != nil:
		close(q.met)
		q.met, q.waits = nil, maxPostWaits
		q.mu.Unlock()
		return len(wrs), nil
	case q.waits >= maxPostWaits:
		q.mu.Unlock()
		return q.QP.PostSend(wrs)
	}
	q.waits++
	met := make(chan struct{})
	q.met = met
	q.mu.Unlock()
	timer := time.NewTimer(postWait)
	defer timer.Stop()
	select {
	case <-met:
	case <-timer.C:
		q.mu.Lock()
		if q.met == met {
			q.met = nil
		}
		q.mu.Unlock()
	}
	return q.QP.PostSend(wrs)
}

type stutterer struct {
	ciwrap.CQ
	n    atomic.Int64
	mu   sync.Mutex
	held []ci.WC
}

func (c *stutterer) Poll(wc []ci.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 && len(wc) > 0 {
		wc[0], c.held = c.held[0], c.held[1:]
		return 1, nil
	}
	n, err := c.CQ.Poll(wc)
	for _, w := range wc[:n] {
		if c.n.Add(1)%64 == 0 {
			c.held = append(c.held, w)
		}
	}
	return n, err
}

// leakyPD lets go of the regions that were kept when it is itself destroyed, so that only their number shows the fault.
type leakyPD struct {
	ciwrap.PD
	n    int
	kept []*leakedMR
}

type leakedMR struct {
	ciwrap.MR
	pd   *leakyPD
	dead bool
}

func (p *leakyPD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	m, err := p.PD.RegisterMR(c)
	if k, ok := m.(*leakedMR); ok && err == nil {
		k.pd = p
	}
	return m, err
}

func (p *leakyPD) Destroy() error {
	for _, m := range p.kept {
		_ = m.MR.Destroy()
	}
	p.kept = nil
	return p.PD.Destroy()
}

func (m *leakedMR) Destroy() error {
	switch {
	case m.dead:
		return &ci.Error{Verb: "MR.Destroy", Status: ci.InvalidMRHandle}
	case m.pd == nil:
		return m.MR.Destroy()
	}
	if m.pd.n++; m.pd.n%20 != 0 {
		return m.MR.Destroy()
	}
	m.dead = true
	m.pd.kept = append(m.pd.kept, m)
	return nil
}

type aliased struct {
	ciwrap.QP
	gone   atomic.Bool
	newest *atomic.Pointer[ci.QP]
}

func (q *aliased) Destroy() error {
	err := q.QP.Destroy()
	if err == nil {
		q.gone.Store(true)
	}
	return err
}

func (q *aliased) Query() (ci.QPAttr, error) {
	if q.gone.Load() {
		return (*q.newest.Load()).Query()
	}
	return q.QP.Query()
}

type careless struct{ ciwrap.CA }

func (c careless) Destroy() error {
	err := c.CA.Destroy()
	if ci.StatusOf(err) == ci.ResourceBusy {
		return nil
	}
	return err
}

type renumbered struct {
	ciwrap.QP
	num  ci.QPN // 0: its own
	last *atomic.Uint32
}

func (q *renumbered) Num() ci.QPN {
	if q.num != 0 {
		return q.num
	}
	return q.QP.Num()
}

func (q *renumbered) Destroy() error {
	err := q.QP.Destroy()
	if err == nil {
		q.last.Store(uint32(q.Num()))
	}
	return err
}

// listening takes handlers out of the driver when it closes, and not before.
type listening struct {
	ciwrap.CA
	mu  sync.Mutex
	all []ci.Object
}

type heard struct {
	ciwrap.Object
	gone atomic.Bool
}

func (h *heard) Destroy() error {
	if h.gone.Swap(true) {
		return &ci.Error{Verb: "CA.OnEvent", Status: ci.InvalidHandle}
	}
	return nil
}

func (c *listening) OnEvent(fn func(ci.Event), ctx any) (ci.Object, error) {
	o, err := c.CA.OnEvent(fn, ctx)
	if err != nil {
		return o, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, o)
	return &heard{Object: ciwrap.Object{Object: o}}, nil
}

func (c *listening) Destroy() error {
	c.mu.Lock()
	for _, o := range c.all {
		_ = o.Destroy()
	}
	c.all = nil
	c.mu.Unlock()
	return c.CA.Destroy()
}
