package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
)

// endings lists the ways to end a connection. The quiet ones wait until everything has arrived and completed.
var endings = []struct {
	name  string
	quiet bool
	act   func(*conn, *actor)
}{
	{"disconnected", true, func(*conn, *actor) {}},
	{"disconnected in the middle of traffic", false, func(*conn, *actor) {}},
	{"access violation", true, (*conn).violate},
	{"region deregistered", false, (*conn).deregister},
	{"QP moved to Error", false, func(c *conn, a *actor) { c.move(a, ci.QPError) }},
	{"QP moved to Reset", false, func(c *conn, a *actor) { c.move(a, ci.QPReset) }},
	{"send queue drained", false, func(c *conn, a *actor) { c.move(a, ci.QPSQD) }},
	{"ID closed", false, func(c *conn, a *actor) { c.each(a, func(e *end) error { return e.id.Close() }) }},
	{"QP destroyed", false, func(c *conn, a *actor) { c.each(a, func(e *end) error { return e.destroyQP() }) }},
	{"PD destroyed", false, func(c *conn, a *actor) { c.each(a, func(e *end) error { return e.pd.Destroy() }) }},
}

// finish ends the connection, and returns when all requests of both ends have completed.
func (c *conn) finish(a *actor) {
	how := one(a.rnd, endings)
	c.how.Store(how.name)
	c.w.tally.add("connections ended: "+how.name, 1)
	if how.quiet {
		c.quiet.Store(true)
		if !c.settle(a) {
			how.act = func(*conn, *actor) {}
		}
	}
	c.harm()
	how.act(c, a)
	a.pause(20 * time.Millisecond)
	c.quiet.Store(true)
	c.halt()
	a.beat()
}

// settle waits until all requests have been received and completed, and compares the atomics of both ends. It reports
// whether that succeeded.
func (c *conn) settle(a *actor) bool {
	deadline := c.w.clock.Elapsed() + patience
	done := func(e *end) bool { return e.senderDone.Load() && e.other().received.Load() == e.sent }
	dead := func() bool { return c.ends[0].isDead.Load() || c.ends[1].isDead.Load() }
	for !done(c.ends[0]) || !done(c.ends[1]) {
		if dead() || c.w.v.failed() {
			return false
		}
		if c.w.clock.Elapsed() > deadline {
			if !c.fragile.Load() {
				c.w.v.failf("%s: %d and %d messages were sent, %d and %d received", c.name,
					c.ends[0].sent, c.ends[1].sent,
					c.ends[1].received.Load(), c.ends[0].received.Load())
			}
			return false
		}
		a.beat()
		time.Sleep(time.Millisecond)
	}
	if dead() {
		return false
	}
	for _, e := range c.ends {
		b := e.other().ctr.body()
		for i, want := range e.mirror {
			if got := ne.Uint64(b[8*i:]); got != want {
				c.w.v.failf("%s: counter %d of end %d is %#x after all atomics, want %#x", c.name, i,
					1-e.side, got, want)
			}
		}
	}
	c.w.tally.add("connections settled", 1)
	return true
}

// each runs f on one end, or on both at once.
func (c *conn) each(a *actor, f func(*end) error) {
	var wg sync.WaitGroup
	which := a.rnd.IntN(3)
	for i, e := range c.ends {
		if which != 1-i {
			wg.Go(func() {
				if err := f(e); err != nil && !errors.Is(err, errClosed) {
					c.w.v.failf("%s: end %d: %v", c.name, i, err)
				}
			})
		}
	}
	wg.Wait()
}

// destroyQP destroys the QP but not its CQs. The requests in its queues never complete.
func (e *end) destroyQP() error {
	defer e.lost.Store(true)
	if err := e.id.QP().Destroy(); err != nil && !errors.Is(err, errClosed) {
		return fmt.Errorf("QP destroy: %w", err)
	}
	return nil
}

// move changes the state of a QP under traffic.
func (c *conn) move(a *actor, to ci.QPState) {
	e := one(a.rnd, c.ends[:])
	if to == ci.QPReset {
		e.lost.Store(true) // requests in the queues never complete
	}
	if err := e.id.QP().Modify(ci.QPFieldState, ci.QPAttr{State: to}); err != nil && !errors.Is(err, errClosed) &&
		!errors.Is(err, ci.InvalidQPState) && !e.isDead.Load() && !c.unsteady {
		c.w.v.failf("%s: modify to %v: %v", c.name, to, err)
	}
}

// deregister deregisters memory that the peer writes to. The memory must not change after that.
func (c *conn) deregister(a *actor) {
	e := one(a.rnd, c.ends[:])
	// If the region has been destroyed before, the memory must not change either.
	if err := e.rwMR.Destroy(); err != nil && !errors.Is(err, errClosed) {
		if !c.unsteady {
			c.w.v.failf("%s: deregister: %v", c.name, err)
		}
		return
	}
	e.rwMu.Lock()
	defer e.rwMu.Unlock()
	e.rwGone = true
	fill(e.rw.body(), mix(c.seed), 99)
}

// violate posts an access that the peer's region does not allow. It must fail and change nothing, and the requests
// after it must be flushed.
func (c *conn) violate(a *actor) {
	e := one(a.rnd, c.ends[:])
	p := e.other()
	v := one(a.rnd, violations)
	wr := v.wr(e, p)
	wr.ID, wr.Flags = e.nextSend, ci.SendSignaled
	wrs := []ci.SendWR{wr, {ID: e.nextSend + 1, Op: ci.OpSend}, {ID: e.nextSend + 2, Op: ci.OpSend,
		Flags: ci.SendSignaled}}
	rw, ctr := bytes.Clone(p.rw.body()), bytes.Clone(p.ctr.body())
	in := bytes.Clone(e.in.body()[:outSlots*slotLen])
	n, err := e.id.QP().PostSend(wrs)
	if err != nil || n != len(wrs) {
		if !c.unsteady {
			c.w.v.failf("%s: post of a violation: %d of %d, %v", c.name, n, len(wrs), err)
		}
		e.lost.Store(true)
		return
	}
	for i := range wrs {
		e.sendQ.add(entry{id: wrs[i].ID, signaled: i != 1})
	}
	e.nextSend += 3
	var got []ci.WC
	deadline := c.w.clock.Elapsed() + patience
	for e.sendQ.len() > 0 {
		var wc [4]ci.WC
		k, err := e.wait(a, e.id.SendCQ(), 100*time.Millisecond, wc[:])
		if err != nil {
			e.lost.Store(true)
			return // removed
		}
		for i := range wc[:k] {
			got = append(got, wc[i])
			if err := e.sendQ.complete(&wc[i]); err != nil {
				c.w.v.failf("%s: violation (%s): %v", c.name, v.name, err)
			}
		}
		if c.w.clock.Elapsed() > deadline {
			c.w.v.failf("%s: violation (%s): completions are missing, got %d", c.name, v.name, len(got))
			return
		}
	}
	e.isDead.Store(true)
	if st := got[0].Status; st != ci.WCRemAccessErr && !c.unsteady && !(st == ci.WCTimeoutRetryErr &&
		c.w.dog.starved()) {
		c.w.v.failf("%s: %s completed with: %v, want: %v", c.name, v.name, st, ci.WCRemAccessErr)
	}
	if !bytes.Equal(rw, p.rw.body()) || !bytes.Equal(ctr, p.ctr.body()) ||
		!bytes.Equal(in, e.in.body()[:outSlots*slotLen]) {
		c.w.v.failf("%s: %s changed memory", c.name, v.name)
	}
	c.w.tally.add("violations refused", 1)
}

// violations are requests of e that the regions of its peer p do not allow.
var violations = []struct {
	name string
	wr   func(e, p *end) ci.SendWR
}{
	{"a write to a region for reads", func(e, _ *end) ci.SendWR { return e.access(ci.OpWrite, 64, e.peer.ro, 0) }},
	{"a write to a region for atomics", func(e, _ *end) ci.SendWR { return e.access(ci.OpWrite, 8, e.peer.ctr, 0) }},
	{"a read of a region for writes", func(e, _ *end) ci.SendWR { return e.access(ci.OpRead, 64, e.peer.rw, 0) }},
	{"a read of a region for atomics", func(e, _ *end) ci.SendWR { return e.access(ci.OpRead, 8, e.peer.ctr, 0) }},
	{"an atomic on a region for writes", func(e, _ *end) ci.SendWR { return e.access(ci.OpFetchAdd, 8, e.peer.rw, 0) }},
	{"an atomic on a region for reads", func(e, _ *end) ci.SendWR {
		return e.access(ci.OpCompareSwap, 8,
			e.peer.ro, 0)
	}},
	{"a write across the end", func(e, _ *end) ci.SendWR {
		return e.access(ci.OpWrite, 4000, e.peer.rw,
			rwSlots*slotLen-3999)
	}},
	{"a write behind the end", func(e, _ *end) ci.SendWR {
		return e.access(ci.OpWrite, 1, e.peer.rw,
			rwSlots*slotLen)
	}},
	{"a write before the start", func(e, _ *end) ci.SendWR { return e.access(ci.OpWrite, 4000, e.peer.rw, -1) }},
	{"a read across the end", func(e, _ *end) ci.SendWR {
		return e.access(ci.OpRead, 2048, e.peer.ro,
			2*slotLen-2047)
	}},
	{"a read before the start", func(e, _ *end) ci.SendWR { return e.access(ci.OpRead, 2, e.peer.ro, -1) }},
	{"an atomic behind the end", func(e, _ *end) ci.SendWR {
		return e.access(ci.OpFetchAdd, 8,
			e.peer.ctr, 8*counters)
	}},
	{"a write that wraps the address space", func(e, _ *end) ci.SendWR {
		wr := e.access(ci.OpWrite, 4000, e.peer.rw, 0)
		wr.Remote.Addr = 1<<64 - 2000
		return wr
	}},
	{"a write with another key", func(e, _ *end) ci.SendWR {
		wr := e.access(ci.OpWrite, 64, e.peer.rw, 0)
		wr.Remote.RKey ^= 1
		return wr
	}},
	{"a write with a local key", func(e, p *end) ci.SendWR {
		wr := e.access(ci.OpWrite, 64, p.inMR.Region().Remote(0), 0)
		wr.Remote.RKey = p.inMR.Region().LKey
		return wr
	}},
	{"a read with the key of another protection domain", func(e, _ *end) ci.SendWR {
		return e.access(ci.OpRead, 64,
			e.own.ro, 0)
	}},
}

// access returns a request for a location in a peer's region.
func (e *end) access(op ci.SendOp, n uint32, to ci.Remote, off int64) ci.SendWR {
	to.Addr += uint64(off)
	g := e.outMR.Region()
	if op != ci.OpWrite {
		g = e.inMR.Region()
	}
	return ci.SendWR{Op: op, SGL: []ci.SGE{g.SGE(0, n)}, Remote: to}
}

// disconnect disconnects the end. A second call does nothing.
func (e *end) disconnect() error {
	if e.id == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := e.id.Disconnect(ctx)
	if errors.Is(err, cm.ErrTimeout) || errors.Is(err, ci.InvalidState) {
		err = nil // the peer may have been removed, or the connection may have ended
	}
	if e.c.unsteady || !e.connected {
		e.flush()
	}
	return err
}

// leave closes an end after its streams have stopped.
func (e *end) leave(a *actor) {
	c, w := e.c, e.c.w
	fail := func(what string, err error) {
		if err != nil && !ended(err) && !c.unsteady {
			w.v.failf("%s: end %d: %s: %v", c.name, e.side, what, err)
		}
	}
	fail("disconnect", e.disconnect())
	c.streams.Wait()
	a.beat()
	if e.id != nil && e.id.QP() != nil {
		e.drainReceives(a)
	}
	for _, g := range []*guarded{e.ro, e.rw, e.ctr, e.out, e.in} {
		if err := g.check(); err != nil {
			w.v.failf("%s: end %d: %v", c.name, e.side, err)
		}
	}
	if i := differs(e.ro.body(), mix(c.seed+uint64(e.side)), 2); i >= 0 {
		w.v.failf("%s: end %d: byte %d of a region without write access changed", c.name, e.side, i)
	}
	steps := []func(){func() {
		if e.id != nil {
			fail("close of the ID", e.id.Close())
		}
	}, func() {
		if e.pd != nil {
			fail("close of the PD", e.pd.Destroy())
		}
	}}
	for _, mr := range []ci.Object{e.roMR, e.rwMR, e.ctrMR, e.outMR, e.inMR} {
		steps = append(steps, func() {
			if !ci.IsNil(mr) {
				fail("deregister", mr.Destroy())
			}
		})
	}
	a.rnd.Shuffle(len(steps), func(i, k int) { steps[i], steps[k] = steps[k], steps[i] })
	for _, f := range steps {
		f()
		a.beat()
	}
	e.rwMu.Lock()
	defer e.rwMu.Unlock()
	if e.rwGone {
		if i := differs(e.rw.body(), mix(c.seed), 99); i >= 0 {
			w.v.failf("%s: end %d: byte %d of a region changed after it was deregistered", c.name, e.side, i)
		}
	}
}

// flush moves the QP to Error, if an injected error prevented that before.
func (e *end) flush() {
	q := e.id.QP()
	for range 50 {
		if q == nil || q.Modify(ci.ToError()) == nil {
			return
		}
	}
	e.lost.Store(true) // destroyed
}

// drainReceives waits until all receives have completed. The QP is in Error, or destroyed.
func (e *end) drainReceives(a *actor) {
	deadline := e.c.w.clock.Elapsed() + patience
	for e.recvQ.len() > 0 && !e.lost.Load() {
		var wc [8]ci.WC
		n, err := e.wait(a, e.id.RecvCQ(), 100*time.Millisecond, wc[:])
		if err != nil {
			if !errors.Is(err, errClosed) {
				e.c.w.v.failf("%s: end %d: poll of the receive queue: %v", e.c.name, e.side, err)
			}
			return
		}
		for i := range wc[:n] {
			if e.lost.Load() {
				break
			}
			if err := e.recvQ.complete(&wc[i]); err != nil {
				e.c.w.v.failf("%s: end %d: receive queue: %v", e.c.name, e.side, err)
			}
		}
		if e.c.w.clock.Elapsed() > deadline && !e.c.unsteady {
			e.c.w.v.failf("%s: end %d: %d receives were not flushed; %s", e.c.name, e.side, e.recvQ.len(), e.state())
			return
		}
	}
}
