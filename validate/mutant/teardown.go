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

// Teardown returns mutants with faults in destruction, concurrency, callbacks and events.
func Teardown() []Mutant {
	qp := func(name, breaks, does string, f func(q ci.QP, c ci.QPCreate) ci.QP) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{QP: f}))
	}
	events := func(name, breaks, does string, make func() func(e ci.Event, deliver func(ci.Event))) Mutant {
		return Of(name, breaks, does, func(h ci.HCA) ci.HCA { return ciwrap.Wrap(h, ciwrap.Layer{Event: make()}) })
	}
	const none = ci.EventType(0)
	return []Mutant{
		qp("teardown.flush-on-destroy", "CI-Teardown-02", "Destroy flushes outstanding requests into the CQs",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return flusher{ciwrap.QP{QP: q}} }),
		Of("teardown.purge", "CI-Teardown-03", "completions of a destroyed QP are dropped", func(h ci.HCA) ci.HCA {
			destroyed := &sync.Map{}
			return ciwrap.Wrap(h, ciwrap.Layer{
				QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					return &recordedQP{QP: ciwrap.QP{QP: q}, destroyed: destroyed}
				},
				CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return purger{ciwrap.CQ{CQ: c}, destroyed} },
			})
		}),
		qp("teardown.post-after-destroy", "CI-Teardown-01", "posts to a destroyed QP succeed and are dropped",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return sponge{ciwrap.QP{QP: q}} }),
		qp("teardown.busy-with-work", "CI-Teardown-02", "Destroy fails while work is outstanding",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return &clingy{QP: ciwrap.QP{QP: q}} }),
		qp("teardown.drops-concurrent-post", "CI-Teardown-04", "one of two concurrent posts is lost",
			func(q ci.QP, _ ci.QPCreate) ci.QP { return &postLoser{QP: ciwrap.QP{QP: q}} }),
		Of("teardown.polled-twice", "CI-Teardown-04", "every 64th completion is returned twice",
			tap.CQs(func(c ciwrap.CQ) ci.CQ { return &stutterer{CQ: c} })),
		Of("teardown.leak", "CI-Teardown-05", "some destroyed regions are kept",
			tap.Layer(ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return &leakyPD{PD: ciwrap.PD{PD: p}} },
				MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return &leakedMR{MR: ciwrap.MR{MR: m}} }})),
		Of("teardown.aliased-qp", "CI-Teardown-06", "the handle of a destroyed QP acts on the newest QP",
			func(h ci.HCA) ci.HCA {
				newest := &atomic.Pointer[ci.QP]{}
				return ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					newest.Store(&q)
					return &aliased{QP: ciwrap.QP{QP: q}, newest: newest}
				}})
			}),
		Of("teardown.close-busy", "CI-Teardown-07",
			"CA.Destroy succeeds although objects are left, and leaves the CA open",
			tap.CAs(func(c ciwrap.CA) ci.CA { return careless{c} })),
		Of("teardown.number-again", "CI-Teardown-08", "a QP is created with the number of the QP destroyed last",
			func(h ci.HCA) ci.HCA {
				last := &atomic.Uint32{}
				return ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					return &renumbered{QP: ciwrap.QP{QP: q}, num: ci.QPN(last.Swap(0)), last: last}
				}})
			}),
		events("events.late", "SAS-2.1-30", "events are delayed, even beyond Destroy of the object",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) {
					time.AfterFunc(2*time.Millisecond, func() { deliver(e) })
				}
			}),
		events("events.no-context", "SAS-2.1-10", "events carry no context", func() func(ci.Event, func(ci.Event)) {
			return func(e ci.Event, deliver func(ci.Event)) { e.Context = nil; deliver(e) }
		}),
		events("events.swapped", "SAS-2.3-21", "the event communication established is raised after the next event",
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
		events("events.stacked", "SAS-2.3-21",
			"events that wait for a callback are delivered newest first",
			func() func(ci.Event, func(ci.Event)) {
				var mu sync.Mutex
				isBusy, waiting := map[any]bool{}, map[any][]ci.Event{}
				return func(e ci.Event, deliver func(ci.Event)) {
					mu.Lock()
					defer mu.Unlock()
					if k := e.Context; isBusy[k] {
						waiting[k] = append(waiting[k], e)
						return
					}
					isBusy[e.Context] = true
					go func() {
						for {
							deliver(e)
							mu.Lock()
							list := waiting[e.Context]
							if len(list) == 0 {
								isBusy[e.Context] = false
								mu.Unlock()
								return
							}
							waiting[e.Context] = list[:len(list)-1]
							e = list[len(list)-1]
							mu.Unlock()
						}
					}()
				}
			}).By("events.order.waiting"),
		events("events.no-comm", "CI-EventComm-01", "the event communication established is never raised",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) {
					if e.Type != ci.EventQPComm {
						deliver(e)
					}
				}
			}),
		events("events.one-thread", "CI-Callback-01", "all callbacks wait for one another",
			func() func(ci.Event, func(ci.Event)) {
				var mu sync.Mutex
				return func(e ci.Event, deliver func(ci.Event)) {
					mu.Lock()
					defer mu.Unlock()
					deliver(e)
				}
			}),
		events("events.overlap", "CI-Callback-02", "each event is delivered on its own goroutine",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) { go deliver(e) }
			}),
		events("events.no-port-down", "CI-PortEvent-01", "a port that goes down causes no event",
			func() func(ci.Event, func(ci.Event)) {
				return func(e ci.Event, deliver func(ci.Event)) {
					if e.Type != ci.EventPortDown {
						deliver(e)
					}
				}
			}),
		Of("events.open-only", "CI-EventHandler-01", "events of a port reach only the callback given to OpenCA",
			tap.Layer(ciwrap.Layer{
				OnEvent: func(func(ci.Event), any) (func(ci.Event), any) { return func(ci.Event) {}, nil }})).
			Needing(ci.CapEventHandlers),
		Of("events.handler-lives", "CI-EventHandler-02", "a destroyed handler still receives events",
			tap.CAs(func(c ciwrap.CA) ci.CA { return &listening{CA: c} })).Needing(ci.CapEventHandlers),
		Of("events.handlers-only", "SAS-2.3-04", "the callback given to OpenCA receives no events", tap.Layer(
			ciwrap.Layer{OpenCA: func(func(ci.Event), any) (func(ci.Event), any) { return func(ci.Event) {}, nil }})),
	}
}

type flusher struct{ ciwrap.QP }

func (f flusher) Destroy() error {
	if err := f.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}); ci.StatusOf(err) == ci.InvalidQPHandle {
		return err
	}
	return f.QP.Destroy()
}

type recordedQP struct {
	ciwrap.QP
	destroyed *sync.Map
}

func (r *recordedQP) Destroy() error {
	err := r.QP.Destroy()
	if err == nil {
		r.destroyed.Store(r.Num(), true)
	}
	return err
}

type purger struct {
	ciwrap.CQ
	destroyed *sync.Map
}

func (p purger) Poll(wc []ci.WC) (int, error) {
	n, err := p.CQ.Poll(wc)
	left := slices.DeleteFunc(wc[:n], func(w ci.WC) bool { _, destroyed := p.destroyed.Load(w.QPN); return destroyed })
	return len(left), err
}

type sponge struct{ ciwrap.QP }

func (s sponge) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := s.QP.PostRecv(wrs)
	if ci.StatusOf(err) == ci.InvalidQPHandle {
		return len(wrs), nil
	}
	return n, err
}

type clingy struct {
	ciwrap.QP
	posted  atomic.Bool
	refused atomic.Bool
}

func (c *clingy) PostSend(wrs []ci.SendWR) (int, error) {
	c.posted.Store(true)
	return c.QP.PostSend(wrs)
}

func (c *clingy) Destroy() error {
	if c.posted.Load() && !c.refused.Swap(true) {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.ResourceBusy}
	}
	return c.QP.Destroy()
}

// postLoser loses one post. Each of the first hundred posts waits briefly for another one, so that two goroutines that
// post at the same time meet however they are scheduled.
type postLoser struct {
	ciwrap.QP
	mu       sync.Mutex
	numWaits int
	second   chan struct{} // closed by the second post; nil if no post waits
}

const (
	maxPostWaits = 100
	postWait     = 5 * time.Millisecond
)

func (p *postLoser) PostSend(wrs []ci.SendWR) (int, error) {
	p.mu.Lock()
	switch {
	case p.second != nil:
		close(p.second)
		p.second, p.numWaits = nil, maxPostWaits
		p.mu.Unlock()
		return len(wrs), nil
	case p.numWaits >= maxPostWaits:
		p.mu.Unlock()
		return p.QP.PostSend(wrs)
	}
	p.numWaits++
	second := make(chan struct{})
	p.second = second
	p.mu.Unlock()
	timer := time.NewTimer(postWait)
	defer timer.Stop()
	select {
	case <-second:
	case <-timer.C:
		p.mu.Lock()
		if p.second == second {
			p.second = nil
		}
		p.mu.Unlock()
	}
	return p.QP.PostSend(wrs)
}

type stutterer struct {
	ciwrap.CQ
	n    atomic.Int64
	mu   sync.Mutex
	held []ci.WC
}

func (s *stutterer) Poll(wc []ci.WC) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 && len(wc) > 0 {
		wc[0], s.held = s.held[0], s.held[1:]
		return 1, nil
	}
	n, err := s.CQ.Poll(wc)
	for _, w := range wc[:n] {
		if s.n.Add(1)%64 == 0 {
			s.held = append(s.held, w)
		}
	}
	return n, err
}

// leakyPD destroys the kept regions when it is itself destroyed, so that only the number of regions shows the fault.
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

func (l *leakyPD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	m, err := l.PD.RegisterMR(c)
	if k, ok := m.(*leakedMR); ok && err == nil {
		k.pd = l
	}
	return m, err
}

func (l *leakyPD) Destroy() error {
	for _, m := range l.kept {
		_ = m.MR.Destroy()
	}
	l.kept = nil
	return l.PD.Destroy()
}

func (l *leakedMR) Destroy() error {
	switch {
	case l.dead:
		return &ci.Error{Verb: "MR.Destroy", Status: ci.InvalidMRHandle}
	case l.pd == nil:
		return l.MR.Destroy()
	}
	if l.pd.n++; l.pd.n%20 != 0 {
		return l.MR.Destroy()
	}
	l.dead = true
	l.pd.kept = append(l.pd.kept, l)
	return nil
}

type aliased struct {
	ciwrap.QP
	destroyed atomic.Bool
	newest    *atomic.Pointer[ci.QP]
}

func (a *aliased) Destroy() error {
	err := a.QP.Destroy()
	if err == nil {
		a.destroyed.Store(true)
	}
	return err
}

func (a *aliased) Query() (ci.QPAttr, error) {
	if a.destroyed.Load() {
		return (*a.newest.Load()).Query()
	}
	return a.QP.Query()
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
	num  ci.QPN // 0 means the real one
	last *atomic.Uint32
}

func (r *renumbered) Num() ci.QPN {
	if r.num != 0 {
		return r.num
	}
	return r.QP.Num()
}

func (r *renumbered) Destroy() error {
	err := r.QP.Destroy()
	if err == nil {
		r.last.Store(uint32(r.Num()))
	}
	return err
}

// listening destroys handlers of the driver only when the CA is destroyed.
type listening struct {
	ciwrap.CA
	mu  sync.Mutex
	all []ci.Object
}

type heard struct {
	ciwrap.Object
	destroyed atomic.Bool
}

func (h *heard) Destroy() error {
	if h.destroyed.Swap(true) {
		return &ci.Error{Verb: "CA.OnEvent", Status: ci.InvalidHandle}
	}
	return nil
}

func (l *listening) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	o, err := l.CA.OnEvent(fn, arg)
	if err != nil {
		return o, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, o)
	return &heard{Object: ciwrap.Object{Object: o}}, nil
}

func (l *listening) Destroy() error {
	l.mu.Lock()
	for _, o := range l.all {
		_ = o.Destroy()
	}
	l.all = nil
	l.mu.Unlock()
	return l.CA.Destroy()
}
