package accesslayer

import (
	"sync/atomic"

	"ciddk/ci"
)

// CQ is a completion queue. It is a ci.CQ: Poll, Notify, NotifyAfter and Peek go straight to the driver. Wait is the
// usual way to consume completions; the package comment describes the others. Destroying a CQ destroys the QPs that use
// it, also those of other PDs.
type CQ struct {
	object
	cqVerbs
	pd *PD

	live    atomic.Bool   // NewCQ has returned
	waiters atomic.Int32  // calls of Wait that sleep
	signal  chan struct{} // holds a token after a completion callback
	baton   chan struct{} // held by the one Wait that arms the CQ
	ended   chan struct{} // closed when the destruction begins
}

// CQHandler holds callbacks whose argument is the CQ. They may run before NewCQ has returned. The callbacks of
// ci.CQCreate, which get a context, are called as well.
type CQHandler struct {
	// OnCompletion runs in the driver's callback context, so it must not block.
	OnCompletion func(*CQ)
	// OnEvent runs on a goroutine of the access layer, for one event at a time.
	OnEvent func(*CQ, ci.Event)
}

func (q *CQ) Unwrap() any { return q.cqVerbs.CQ }

// PD returns the parent.
func (q *CQ) PD() *PD { return q.pd }

// NewCQ creates a completion queue. Status: as ci.PD.CreateCQ; InvalidState with ErrClosed.
func (p *PD) NewCQ(c ci.CQCreate, h CQHandler) (*CQ, error) {
	q := &CQ{pd: p, signal: make(chan struct{}, 1), baton: make(chan struct{}, 1), ended: make(chan struct{})}
	q.n = &node{kind: kindCQ, obj: q, onCreated: func() { q.live.Store(true) }, onDestroy: func() { close(q.ended) }}
	down := c
	if h.OnEvent != nil || c.OnEvent != nil {
		down.OnEvent = func(e ci.Event) {
			q.n.callback(func() {
				if h.OnEvent != nil {
					h.OnEvent(q, e)
				}
				if c.OnEvent != nil {
					c.OnEvent(e)
				}
			})
		}
	}
	complete := func(arg any) {
		if q.waiters.Load() > 0 {
			select {
			case q.signal <- struct{}{}:
			default:
			}
		}
		if h.OnCompletion != nil {
			h.OnCompletion(q)
		}
		if c.OnCompletion != nil {
			c.OnCompletion(arg)
		}
	}
	down.OnCompletion = func(arg any) {
		if q.live.Load() {
			complete(arg)
		} else {
			q.n.callback(func() { complete(arg) })
		}
	}
	err := q.n.make(p.n, "PD.CreateCQ", func() (func() error, error) {
		in, err := p.verbs.CreateCQ(down)
		q.cqVerbs.CQ = in
		return destroyer(in), err
	})
	return made(q, err)
}

// Query returns the attributes. Status: as ci.CQ.Query; InvalidCQHandle with ErrClosed.
func (q *CQ) Query() (attr ci.CQAttr, err error) {
	err = q.n.during("CQ.Query", func() error { attr, err = q.cqVerbs.Query(); return err })
	return attr, err
}

// Resize changes the size. Status: as ci.CQ.Resize; InvalidCQHandle with ErrClosed.
func (q *CQ) Resize(r ci.CQResize) (granted int, err error) {
	err = q.n.during("CQ.Resize", func() error { granted, err = q.cqVerbs.Resize(r); return err })
	return granted, err
}

// Modify sets the moderation. Status: as ci.CQ.Modify; InvalidCQHandle with ErrClosed.
func (q *CQ) Modify(m ci.Moderation) error {
	return q.n.during("CQ.Modify", func() error { return q.cqVerbs.Modify(m) })
}
