package mutant

import (
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// CQNotify are faults of armed completion queues and of their optional verbs.
func CQNotify() []Mutant {
	cq := func(name, breaks, does string, f func(c ciwrap.CQ) ci.CQ) Mutant {
		return Mutant{Name: name, Area: "cq.notify", Breaks: breaks, Does: does,
			Wrap: tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return f(ciwrap.CQ{CQ: c}) }})}
	}
	create := func(name, breaks, does string, f func(c ci.CQCreate) ci.CQCreate) Mutant {
		return Mutant{
			Name:   name,
			Area:   "cq.notify",
			Breaks: breaks,
			Does:   does,
			Wrap:   tap.Layer(ciwrap.Layer{CQCreate: f}),
		}
	}
	return []Mutant{
		create(
			"cq.rings-twice",
			"CI-Notify-01",
			"each completion callback comes twice",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					c.OnCompletion = func(ctx any) { fn(ctx); fn(ctx) }
				}
				return c
			},
		),
		{
			Name:   "cq.born-armed",
			Area:   "cq.notify",
			Breaks: "CI-Notify-02",
			Does:   "a CQ is armed from its birth",
			Wrap: tap.Layer(
				ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { _ = c.Notify(ci.NotifyNext); return c }},
			),
		},
		{
			Name:   "cq.fires-at-once",
			Area:   "cq.notify",
			Breaks: "CI-Notify-03",
			Does:   "arming a CQ with entries in it calls back at once",
			Wrap: tap.Layer(
				ciwrap.Layer{CQ: func(c ci.CQ, a ci.CQCreate) ci.CQ { return eager{ciwrap.CQ{CQ: c}, a} }},
			),
		},
		cq(
			"cq.all-solicited", "CI-Notify-04", "every completion counts as solicited",
			func(c ciwrap.CQ) ci.CQ { return anyNotify{c} },
		),
		cq(
			"cq.last-arming-wins",
			"CI-Notify-05",
			"arming for solicited completions takes the place of arming for any",
			func(c ciwrap.CQ) ci.CQ {
				return &forgetful{CQ: c}
			},
		),
		create(
			"cq.wrong-context",
			"SAS-2.1-09",
			"the completion callback gets something else than the context",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					c.OnCompletion = func(any) { fn(nil) }
				}
				return c
			},
		),
		cq(
			"cq.after-early", "CI-NotifyAfter-01", "NotifyAfter fires one completion early",
			func(c ciwrap.CQ) ci.CQ { return afterEarly{c} },
		),
		cq(
			"cq.after-any-count", "CI-NotifyAfter-02", "NotifyAfter takes any count",
			func(c ciwrap.CQ) ci.CQ { return afterAny{c} },
		),
		cq(
			"cq.lifo", "CI-PollCQ-02", "Poll gives the newest of a batch first",
			func(c ciwrap.CQ) ci.CQ { return lifo{c} },
		),
		cq(
			"cq.peek-one-less", "CI-PeekCQ-01", "Peek forgets one entry",
			func(c ciwrap.CQ) ci.CQ { return shortPeek{c} },
		),
		cq(
			"cq.resize-drops", "CI-ResizeCQ-01", "Resize loses an entry",
			func(c ciwrap.CQ) ci.CQ { return dropResize{c} },
		),
		cq(
			"cq.resize-overflow-unseen", "CI-ResizeCQ-02", "a shrink below the fill is InvalidCQSize",
			func(c ciwrap.CQ) ci.CQ { return noOverflow{c} },
		),
		cq(
			"cq.resize-any", "CI-ResizeCQ-03", "Resize to 0 leaves the size and succeeds",
			func(c ciwrap.CQ) ci.CQ { return zeroResize{c} },
		),
		create("cq.silent-overflow", "CI-CQError-01", "nobody is told of a CQ error", func(c ci.CQCreate) ci.CQCreate {
			if fn := c.OnEvent; fn != nil {
				c.OnEvent = func(e ci.Event) {
					if e.Type != ci.EventCQError {
						fn(e)
					}
				}
			}
			return c
		}),
		create(
			"cq.moderation-loses",
			"CI-ModifyCQ-01",
			"every other callback is lost",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					var mu sync.Mutex
					n := 0
					c.OnCompletion = func(ctx any) {
						mu.Lock()
						n++
						lost := n%2 == 0
						mu.Unlock()
						if !lost {
							fn(ctx)
						}
					}
				}
				return c
			},
		),
		create(
			"cq.late-callback",
			"CI-DestroyCQ-03",
			"callbacks run on a goroutine of their own, a little later",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					c.OnCompletion = func(ctx any) { time.AfterFunc(2*time.Millisecond, func() { fn(ctx) }) }
				}
				return c
			},
		),
	}
}

type eager struct {
	ciwrap.CQ
	made ci.CQCreate
}

func (q eager) Notify(when ci.Notify) error {
	if n, err := q.Peek(); err == nil && n > 0 && q.made.OnCompletion != nil {
		go q.made.OnCompletion(q.made.Context)
	}
	return q.CQ.Notify(when)
}

type anyNotify struct{ ciwrap.CQ }

func (q anyNotify) Notify(ci.Notify) error { return q.CQ.Notify(ci.NotifyNext) }

// forgetful arms for solicited completions by disarming first, which only a fresh count can do.
type forgetful struct{ ciwrap.CQ }

func (q *forgetful) Notify(when ci.Notify) error {
	if when == ci.NotifySolicited {
		a, err := q.Query()
		if err != nil {
			return err
		}
		return q.NotifyAfter(a.Size)
	}
	return q.CQ.Notify(when)
}

type afterEarly struct{ ciwrap.CQ }

func (q afterEarly) NotifyAfter(n int) error {
	if n > 1 {
		n--
	}
	return q.CQ.NotifyAfter(n)
}

type afterAny struct{ ciwrap.CQ }

func (q afterAny) NotifyAfter(n int) error {
	err := q.CQ.NotifyAfter(n)
	if ci.StatusOf(err) == ci.InvalidParameter {
		return q.CQ.NotifyAfter(1)
	}
	return err
}

type lifo struct{ ciwrap.CQ }

func (q lifo) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		wc[i], wc[j] = wc[j], wc[i]
	}
	return n, err
}

type shortPeek struct{ ciwrap.CQ }

func (q shortPeek) Peek() (int, error) {
	n, err := q.CQ.Peek()
	return max(n-1, 0), err
}

type dropResize struct{ ciwrap.CQ }

func (q dropResize) Resize(r ci.CQResize) (int, error) {
	n, err := q.CQ.Resize(r)
	if err == nil {
		_, err = q.Poll(make([]ci.WC, 1))
	}
	return n, err
}

type noOverflow struct{ ciwrap.CQ }

func (q noOverflow) Resize(r ci.CQResize) (int, error) {
	n, err := q.CQ.Resize(r)
	if ci.StatusOf(err) == ci.Overflow {
		err = &ci.Error{Verb: "CQ.Resize", Status: ci.InvalidCQSize}
	}
	return n, err
}

type zeroResize struct{ ciwrap.CQ }

func (q zeroResize) Resize(r ci.CQResize) (int, error) {
	if r.Size == 0 {
		a, err := q.Query()
		return a.Size, err
	}
	return q.CQ.Resize(r)
}
