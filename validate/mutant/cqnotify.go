package mutant

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// CQNotify returns mutants with faults in armed completion queues and their optional verbs.
func CQNotify() []Mutant {
	cq := func(name, breaks, does string, f func(c ciwrap.CQ) ci.CQ) Mutant {
		return Of(name, breaks, does,
			tap.CQs(f))
	}
	create := func(name, breaks, does string, f func(c ci.CQCreate) ci.CQCreate) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{CQCreate: f}))
	}
	return []Mutant{
		create("cq.rings-twice", "CI-Notify-01", "each completion callback is called twice",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					c.OnCompletion = func(arg any) { fn(arg); fn(arg) }
				}
				return c
			}),
		Of("cq.born-armed", "CI-Notify-02", "a CQ is armed when it is created", tap.Layer(
			ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { _ = c.Notify(ci.NotifyNext); return c }})),
		Of("cq.fires-at-once", "CI-Notify-03", "arming a CQ that has entries calls back at once", tap.Layer(
			ciwrap.Layer{CQ: func(c ci.CQ, a ci.CQCreate) ci.CQ { return eager{ciwrap.CQ{CQ: c}, a} }})),
		cq("cq.all-solicited", "CI-Notify-04", "every completion is treated as solicited",
			func(c ciwrap.CQ) ci.CQ { return anyNotify{c} }),
		cq("cq.last-arming-wins", "CI-Notify-05", "arming for solicited completions replaces arming for any completion",
			func(c ciwrap.CQ) ci.CQ {
				return &forgetful{CQ: c}
			}),
		create("cq.wrong-context", "SAS-2.1-09", "the completion callback does not receive the context",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					c.OnCompletion = func(any) { fn(nil) }
				}
				return c
			}),
		cq("cq.after-early", "CI-NotifyAfter-01", "NotifyAfter calls back one completion early",
			func(c ciwrap.CQ) ci.CQ { return afterEarly{c} }),
		cq("cq.after-any-count", "CI-NotifyAfter-02", "NotifyAfter accepts any count",
			func(c ciwrap.CQ) ci.CQ { return afterAny{c} }),
		cq("cq.lifo", "CI-PollCQ-02", "Poll returns the newest completion of a batch first",
			func(c ciwrap.CQ) ci.CQ { return lifo{c} }),
		cq("cq.loses-tenth", "CI-PollCQ-02", "Poll drops the tenth completion of a CQ",
			func(c ciwrap.CQ) ci.CQ { return &losesTenth{CQ: c} }),
		cq("cq.peek-one-less", "CI-PeekCQ-01", "Peek returns one entry too few",
			func(c ciwrap.CQ) ci.CQ { return shortPeek{c} }),
		cq("cq.resize-drops", "CI-ResizeCQ-01", "Resize loses an entry",
			func(c ciwrap.CQ) ci.CQ { return dropResize{c} }),
		cq("cq.resize-overflow-unseen", "CI-ResizeCQ-02",
			"Resize below the number of entries in use returns InvalidCQSize",
			func(c ciwrap.CQ) ci.CQ { return noOverflow{c} }),
		cq("cq.resize-any", "CI-ResizeCQ-03", "Resize to 0 succeeds and does not change the size",
			func(c ciwrap.CQ) ci.CQ { return zeroResize{c} }),
		create("cq.silent-overflow", "CI-CQError-01", "a CQ error causes no event", func(c ci.CQCreate) ci.CQCreate {
			if fn := c.OnEvent; fn != nil {
				c.OnEvent = func(e ci.Event) {
					if e.Type != ci.EventCQError {
						fn(e)
					}
				}
			}
			return c
		}),
		create("cq.moderation-loses", "CI-ModifyCQ-01", "every second callback is lost",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					var mu sync.Mutex
					n := 0
					c.OnCompletion = func(arg any) {
						mu.Lock()
						n++
						lost := n%2 == 0
						mu.Unlock()
						if !lost {
							fn(arg)
						}
					}
				}
				return c
			}),
		cq("cq.moderation-ignored", "CI-ModifyCQ-01", "Modify succeeds and moderates nothing",
			func(c ciwrap.CQ) ci.CQ { return unmoderated{CQ: c, most: math.MaxInt64} }),
		cq("cq.moderation-ignored-short", "CI-ModifyCQ-01", "Modify has short periods only, and moderates nothing",
			func(c ciwrap.CQ) ci.CQ { return unmoderated{CQ: c, most: time.Second} }),
		Of("cq.destroy-overtakes", "CI-DestroyCQ-03", "Destroy does not wait for a running callback",
			tap.Layer(ciwrap.Layer{Completion: func(arg any, deliver func(any)) { go deliver(arg) }})),
		create("cq.late-callback", "CI-DestroyCQ-03", "callbacks run on another goroutine, with a delay",
			func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					c.OnCompletion = func(arg any) { time.AfterFunc(2*time.Millisecond, func() { fn(arg) }) }
				}
				return c
			}),
	}
}

type eager struct {
	ciwrap.CQ
	made ci.CQCreate
}

func (e eager) Notify(when ci.Notify) error {
	if n, err := e.Peek(); err == nil && n > 0 && e.made.OnCompletion != nil {
		go e.made.OnCompletion(e.made.Context)
	}
	return e.CQ.Notify(when)
}

type anyNotify struct{ ciwrap.CQ }

func (a anyNotify) Notify(ci.Notify) error { return a.CQ.Notify(ci.NotifyNext) }

// forgetful disarms the CQ before it arms it for solicited completions.
type forgetful struct{ ciwrap.CQ }

func (f *forgetful) Notify(when ci.Notify) error {
	if when == ci.NotifySolicited {
		a, err := f.Query()
		if err != nil {
			return err
		}
		return f.NotifyAfter(a.Size)
	}
	return f.CQ.Notify(when)
}

type afterEarly struct{ ciwrap.CQ }

func (a afterEarly) NotifyAfter(n int) error {
	if n > 1 {
		n--
	}
	return a.CQ.NotifyAfter(n)
}

type afterAny struct{ ciwrap.CQ }

func (a afterAny) NotifyAfter(n int) error {
	err := a.CQ.NotifyAfter(n)
	if ci.StatusOf(err) == ci.InvalidParameter {
		return a.CQ.NotifyAfter(1)
	}
	return err
}

type lifo struct{ ciwrap.CQ }

func (l lifo) Poll(wc []ci.WC) (int, error) {
	n, err := l.CQ.Poll(wc)
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		wc[i], wc[j] = wc[j], wc[i]
	}
	return n, err
}

type shortPeek struct{ ciwrap.CQ }

func (s shortPeek) Peek() (int, error) {
	n, err := s.CQ.Peek()
	return max(n-1, 0), err
}

// losesTenth drops its tenth completion.
type losesTenth struct {
	ciwrap.CQ
	n atomic.Int32
}

func (q *losesTenth) Poll(wc []ci.WC) (int, error) {
	const nth = 10
	n, err := q.CQ.Poll(wc)
	if before := int(q.n.Add(int32(n))) - n; before < nth && before+n >= nth {
		at := nth - 1 - before
		n = at + copy(wc[at:n], wc[at+1:n])
	}
	return n, err
}

type dropResize struct{ ciwrap.CQ }

func (d dropResize) Resize(r ci.CQResize) (int, error) {
	n, err := d.CQ.Resize(r)
	if err == nil {
		_, err = d.Poll(make([]ci.WC, 1))
	}
	return n, err
}

type noOverflow struct{ ciwrap.CQ }

func (n noOverflow) Resize(r ci.CQResize) (int, error) {
	size, err := n.CQ.Resize(r)
	if ci.StatusOf(err) == ci.Overflow {
		err = &ci.Error{Verb: "CQ.Resize", Status: ci.InvalidCQSize}
	}
	return size, err
}

type zeroResize struct{ ciwrap.CQ }

func (z zeroResize) Resize(r ci.CQResize) (int, error) {
	if r.Size == 0 {
		a, err := z.Query()
		return a.Size, err
	}
	return z.CQ.Resize(r)
}

type unmoderated struct {
	ciwrap.CQ
	most time.Duration // the longest period
}

func (u unmoderated) Modify(m ci.Moderation) error {
	if m.Period > u.most {
		return ci.InvalidParameter
	}
	return nil
}
