package ual

import (
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// CQ is a completion queue of the daemon.
type CQ struct {
	ci.UnimplementedCQ
	ca      *CA
	handle  schema.Handle
	events  receiver
	context func(uint64) any // of a token, made once
	user    ci.UserCQ        // the library's

	poll    sync.Mutex // one poll at a time, so that entries are returned in order
	mu      sync.Mutex
	size    int        // the largest that the queue ever had
	polled  uint64     // entries
	taking  uint64     // the most that a message in progress polls
	retired []leftover // QPs that were destroyed, whose entries may wait in the queue
}

var _ ci.CQ = (*CQ)(nil)

// CreateCQ creates a completion queue.
func (p *PD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	q := &CQ{ca: p.ca, context: p.ca.c.tokens.context}
	q.events = receiver{context: c.Context, onCompletion: c.OnCompletion, onEvent: c.OnEvent, drained: p.ca.drained,
		ca: p.ca}
	p.ca.c.tokens.add(&q.events)
	a := &ci.UserCreateCQ{PD: p.state, Create: c}
	v := verbKind{verb: "PD.CreateCQ", data: true}
	_, err := aroundFallible(p.ca, p.state, p.ca.hooks().CreateCQ, a, v, func(x private) error {
		req := &schema.CreateCQ{PD: p.handle, Token: q.events.token, Async: p.ca.async.handle,
			Size: schema.Int32(a.Create.Size), Affinity: a.Create.Affinity.Mask, Group: a.Create.Affinity.Group,
			Vector: a.Create.Affinity.Vector}
		if c.OnCompletion != nil {
			req.Completions = p.ca.completions.handle
		}
		var r schema.CreateCQReply
		err := p.ca.c.doUser(schema.CmdCreateCQ, req, &r, &req.User, &r.User, x)
		q.handle, a.Granted = r.Handle, int(r.Size)
		return err
	}, func() { _, _ = p.ca.c.destroyEvents(q.handle, &q.events) }) // the application receives the error of Post
	if err != nil {
		p.ca.c.tokens.remove(&q.events)
		return nil, err
	}
	q.user, q.size = a.CQ, a.Granted
	return q, nil
}

// Destroy destroys the queue.
func (q *CQ) Destroy() error {
	a, v := &ci.UserDestroyCQ{CQ: q.user.Handle}, verbKind{verb: "CQ.Destroy"}
	err := around(q.ca, q.user.Handle, q.ca.hooks().DestroyCQ, a, v, func(private) error {
		_, err := q.ca.c.destroyEvents(q.handle, &q.events)
		return err
	})
	if err != nil {
		return err
	}
	q.ca.c.tokens.remove(&q.events)
	q.forget(q.takeRetired())
	return nil
}

// Poll takes completions: one message for up to schema.MaxBatch of them.
func (q *CQ) Poll(wc []ci.WC) (int, error) {
	if q.user.Poll != nil {
		n, err := q.user.Poll(wc)
		if n == 0 && err == nil { // otherwise completions from before the end are returned first
			err = q.ca.bypassError(schema.CmdPoll)
		}
		return n, err
	}
	q.poll.Lock()
	defer q.poll.Unlock()
	retired := q.takeRetired() // those whose last entries this poll will find, if it empties the queue
	total := 0
	for {
		want := min(len(wc)-total, schema.MaxBatch)
		q.count(0, want)
		n, err := q.pollOnce(wc[total : total+want])
		q.count(n, 0)
		total += n
		switch {
		case err != nil:
			q.keep(retired)
			if total > 0 {
				return total, nil // the next poll returns the error
			}
			return 0, err
		case n < want:
			q.forget(retired)
			return total, nil
		case total == len(wc):
			q.keep(retired)
			return total, nil
		}
	}
}

func (q *CQ) pollOnce(wc []ci.WC) (int, error) {
	x := q.ca.c.begin()
	defer x.end()
	x.out = native.AppendPoll(x.out, q.handle, len(wc))
	if err := q.ca.c.roundTrip(schema.CmdPoll, x, nil); err != nil {
		return 0, err
	}
	if err := x.failure(); err != nil {
		return 0, err
	}
	n, err := native.ParseCompletions(x.body, wc, q.context)
	if err != nil {
		return 0, badReply(schema.CmdPoll, err)
	}
	return n, nil
}

// retired is a QP that was destroyed. Its context remains valid until no entry of it can be in its CQs.
type retired struct {
	c    *Client
	r    *receiver
	mu   sync.Mutex
	uses int // CQs
}

// retire keeps the context of a destroyed QP for the entries that wait in its CQs. empty reports that none do.
func (c *Client) retire(r *receiver, empty bool, send, recv ci.CQ) {
	x := &retired{c: c, r: r}
	var queues []*CQ
	if q, ok := ci.As[*CQ](send); ok {
		queues = append(queues, q)
	}
	if q, ok := ci.As[*CQ](recv); ok && (len(queues) == 0 || q != queues[0]) {
		queues = append(queues, q)
	}
	var wait []*CQ
	for _, q := range queues {
		// A poll in progress may have taken the last entries and not returned them yet.
		switch {
		case q.user.Poll != nil: // the library finds the contexts of the entries
		case empty && q.poll.TryLock():
			q.poll.Unlock()
		default:
			wait = append(wait, q)
		}
	}
	x.uses = len(wait)
	for _, q := range wait {
		q.add(x)
	}
	if len(wait) == 0 {
		c.tokens.remove(r)
	}
}

// A leftover is a retired QP in the list of a CQ. Its last entry is among those up to number until that are polled.
type leftover struct {
	qp    *retired
	until uint64
}

func (q *CQ) takeRetired() []leftover {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.retired
	q.retired = nil
	return list
}

// add retires a QP. The queue holds at most its size, and a poll in progress has taken some more.
func (q *CQ) add(x *retired) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retired = append(q.retired, leftover{x, q.polled + uint64(q.size) + q.taking})
}

// keep puts a list back. It forgets those whose entries have been polled.
func (q *CQ) keep(list []leftover) {
	if len(list) == 0 {
		return
	}
	q.mu.Lock()
	n := 0
	for n < len(list) && q.polled >= list[n].until {
		n++
	}
	q.retired = append(slices.Clip(list[n:]), q.retired...)
	q.mu.Unlock()
	q.forget(list[:n])
}

// count counts n entries that were polled, before a poll of up to next.
func (q *CQ) count(n, next int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.polled, q.taking = q.polled+uint64(n), uint64(next)
}

func (q *CQ) forget(list []leftover) {
	for _, l := range list {
		x := l.qp
		x.mu.Lock()
		x.uses--
		last := x.uses == 0
		x.mu.Unlock()
		if last {
			x.c.tokens.remove(x.r)
		}
	}
}

// Notify arms the queue for one callback.
func (q *CQ) Notify(when ci.Notify) error {
	if q.user.Notify != nil {
		if err := q.ca.bypassError(schema.CmdNotify); err != nil {
			return err
		}
		return q.user.Notify(when)
	}
	if when > ci.NotifySolicited {
		return &ci.Error{Verb: "CQ.Notify", Status: ci.InvalidParameter, Detail: "unknown kind of notification"}
	}
	return q.notify(schema.Notify{CQ: q.handle, Mode: schema.NotifyMode(when)})
}

// NotifyAfter arms the queue for one callback after n more completions.
func (q *CQ) NotifyAfter(n int) error {
	if q.user.NotifyAfter != nil {
		if err := q.ca.bypassError(schema.CmdNotify); err != nil {
			return err
		}
		return q.user.NotifyAfter(n)
	}
	return q.notify(schema.Notify{CQ: q.handle, Mode: schema.NotifyAfter, N: schema.Int32(n)})
}

func (q *CQ) notify(r schema.Notify) error {
	x := q.ca.c.begin()
	defer x.end()
	x.small.notify = r
	return x.do(schema.CmdNotify, &x.small.notify, nil, &x.small.none)
}

// Peek returns the number of entries that wait.
func (q *CQ) Peek() (int, error) {
	if q.user.Peek != nil {
		n, err := q.user.Peek()
		if n == 0 && err == nil {
			err = q.ca.bypassError(schema.CmdPeek)
		}
		return n, err
	}
	x := q.ca.c.begin()
	defer x.end()
	x.small.cq.CQ = q.handle
	if err := x.do(schema.CmdPeek, &x.small.cq, nil, &x.small.peek); err != nil {
		return 0, err
	}
	return int(x.small.peek.N), nil
}

// Query returns the attributes.
func (q *CQ) Query() (ci.CQAttr, error) {
	a, v := &ci.UserQueryCQ{CQ: q.user.Handle}, verbKind{verb: "CQ.Query", finish: true}
	err := around(q.ca, q.user.Handle, q.ca.hooks().QueryCQ, a, v, func(private) error {
		var r schema.QueryCQReply
		err := q.ca.c.do(schema.CmdQueryCQ, &schema.CQ{CQ: q.handle}, nil, &r)
		a.Attr = ci.CQAttr{Size: int(r.Size),
			Moderation: ci.Moderation{Count: int(r.Count), Period: time.Duration(r.Period)}}
		return err
	})
	if err != nil {
		return ci.CQAttr{}, err
	}
	return a.Attr, nil
}

// Resize changes the size.
func (q *CQ) Resize(c ci.CQResize) (int, error) {
	a, v := &ci.UserResizeCQ{CQ: q.user.Handle, Size: c.Size}, verbKind{verb: "CQ.Resize", data: true}
	err := around(q.ca, q.user.Handle, q.ca.hooks().ResizeCQ, a, v, func(p private) error {
		var r schema.ResizeCQReply
		req := &schema.ResizeCQ{CQ: q.handle, Size: schema.Int32(a.Size)}
		err := q.ca.c.doUser(schema.CmdResizeCQ, req, &r, &req.User, &r.User, p)
		a.Granted = int(r.Size)
		q.mu.Lock()
		q.size = max(q.size, a.Granted)
		q.mu.Unlock()
		return err
	})
	if err != nil {
		return 0, err
	}
	return a.Granted, nil
}

// Modify sets moderation.
func (q *CQ) Modify(m ci.Moderation) error {
	req := &schema.ModifyCQ{CQ: q.handle, Count: schema.Int32(m.Count), Period: int64(m.Period)}
	return q.ca.c.do(schema.CmdModifyCQ, req, nil, &schema.None{})
}
