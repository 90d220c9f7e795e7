package mads

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// localAgent passes datagrams to the HCA for execution, one at a time, on a goroutine that exists only while there are
// datagrams, since CA.LocalMAD may block. The endpoint's lock guards it.
type localAgent struct {
	e       *endpoint
	queue   []localRequest
	running bool
}

type localRequest struct {
	r  *Received // nil: from an agent of this port, not from the wire
	in *ci.MAD
}

const maxLocal = 64

// take queues a request. e.mu is held.
func (l *localAgent) take(r *Received, in *ci.MAD) {
	if l.e.closed || len(l.queue) >= maxLocal {
		l.e.p.count.drop(DropBusy)
		return
	}
	l.queue = append(l.queue, localRequest{r, in})
	if !l.running {
		l.running = true
		l.e.p.h.wg.Go(l.run)
	}
}

func (l *localAgent) run() {
	e := l.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(l.queue) > 0 && !e.closed {
		q := l.queue[0]
		l.queue = append(l.queue[:0], l.queue[1:]...)
		e.mu.Unlock()
		l.execute(q)
		e.mu.Lock()
	}
	l.queue, l.running = nil, false
}

func (l *localAgent) execute(q localRequest) {
	e := l.e
	var h mad.Header
	h.Parse(q.in[:])
	switch {
	case q.r == nil && e.table.Load().find(&h, q.in[:]) != nil:
		l.within(&h, q.in)
		return
	case h.Method == mad.TrapRepress:
		l.repress(q)
		return
	case isSubnet(h.Class) && !l.isBelow(q):
		l.subnet(&h, q)
		return
	}
	var src *ci.AVAttr
	if q.r != nil {
		src = &q.r.From.AV
	}
	var out ci.MAD
	if err := e.p.h.ca.LocalMAD(e.p.id.Num, src, q.in, &out); err != nil {
		e.p.count.drop(DropUnclaimed)
		e.p.m.al.Logger().Debug("mads: the HCA did not execute a datagram", "guid", e.p.id.CA, "port", e.p.id.Num,
			"class", h.Class, "error", err)
		return
	}
	if out == (ci.MAD{}) { // no response is due: the M_Key does not match (IBTA volume 1, 14.2.4.1)
		return
	}
	if q.r == nil {
		h.Parse(out[:])
		l.within(&h, &out)
		return
	}
	e.mu.Lock()
	defer e.unlock()
	e.reply(q.r, &out)
}

// isBelow reports whether CA.LocalMAD executes an SMP: one of an agent of this port, whose adapter answers those of the
// network below the driver's interface.
func (l *localAgent) isBelow(q localRequest) bool {
	return q.r == nil && l.e.p.hasOwnAgent() && l.e.p.h.a.Attr().Caps.Has(ci.CapLocalMAD)
}

// subnet executes an SMP on the adapter's subnet management agent.
func (l *localAgent) subnet(h *mad.Header, q localRequest) {
	e := l.e
	if e.p.hasOwnAgent() {
		l.within(h, q.in) // nobody receives it
		return
	}
	var slid ci.LID
	if q.r != nil {
		slid = q.r.From.AV.DLID
	}
	if !e.p.h.sma.ExecuteLocal(e.p.id.Num, slid, q.in) { // no response is due: the M_Key does not match
		return
	}
	if q.r == nil {
		h.Parse(q.in[:])
		l.within(h, q.in)
		return
	}
	e.mu.Lock()
	defer e.unlock()
	e.reply(q.r, q.in)
}

// repress passes a TrapRepress for a trap that the driver itself has sent to the driver if it has the M_Key. An adapter
// with an agent of its own has executed one of the network already.
func (l *localAgent) repress(q localRequest) {
	p := l.e.p
	if q.r != nil && (p.hasOwnAgent() || p.h.sma.Execute(p.id.Num, q.r.From.AV.DLID, q.in) != sma.Deliver) {
		return
	}
	var out ci.MAD
	var src *ci.AVAttr
	if q.r != nil {
		src = &q.r.From.AV
	}
	if err := p.h.ca.LocalMAD(p.id.Num, src, q.in, &out); err != nil {
		l.e.p.count.drop(DropUnclaimed)
	}
}

// within delivers the response to a datagram that an agent sent to its own port, along a directed route without hops.
func (l *localAgent) within(h *mad.Header, c *ci.MAD) {
	p := l.e.p
	if h.Status&mad.StatusDirection != 0 {
		c[6] = 0 // the return route ends at the sender (IBTA volume 1, 14.2.2.4)
	}
	in := &inbox{data: *c}
	in.MAD = in.data[:]
	in.Port = p.id
	in.From.AV = ci.AVAttr{Port: p.id.Num, DLID: permissiveLID}
	p.count.received.Add(1)
	if a := l.e.table.Load().find(h, in.MAD); a != nil && !isResponse(h) {
		a.deliver(&in.Received)
	} else if isResponse(h) {
		l.e.respond(h, &in.Received)
	} else {
		p.count.drop(DropUnclaimed)
	}
}
