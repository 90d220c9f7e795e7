package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/mad"
)

// conn is one connection. Both ends share it outside of the network.
type conn struct {
	w    *world
	name string
	seed uint64
	ends [2]*end // 0 is the active one
	// fragile is set before an actor ends the connection. After that, errors are expected.
	fragile  atomic.Bool
	unsteady bool          // injected errors or hot removal may end the connection
	quiet    atomic.Bool   // no new requests
	stop     chan struct{} // closed when streams must stop without waiting for the peer
	stopped  sync.Once
	how      atomic.Value // name of the ending
	streams  sync.WaitGroup
	joined   chan struct{} // closed when the passive end is ready, or has failed
	left     sync.WaitGroup
}

// lifetime is the longest time that a connection carries streams.
const lifetime = 700 * time.Millisecond

// halt ends the streams at once.
func (c *conn) halt() { c.stopped.Do(func() { close(c.stop) }) }

// harm marks the connection as fragile, before an actor ends it.
func (c *conn) harm() { c.fragile.Store(true) }

// terms describes the memory of an end for its peer, in private data.
type terms struct {
	seed        uint64
	ro, rw, ctr ci.Remote
}

func (t *terms) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, t.seed)
	for _, r := range []ci.Remote{t.ro, t.rw, t.ctr} {
		b = binary.BigEndian.AppendUint64(b, r.Addr)
		b = binary.BigEndian.AppendUint32(b, uint32(r.RKey))
	}
	return b
}

func decodeTerms(b []byte) (t terms) {
	t.seed = binary.BigEndian.Uint64(b)
	for i, r := range []*ci.Remote{&t.ro, &t.rw, &t.ctr} {
		o := b[8+12*i:]
		r.Addr, r.RKey = binary.BigEndian.Uint64(o), ci.Key(binary.BigEndian.Uint32(o[8:]))
	}
	return t
}

// streams starts an actor that makes connections from one host to another, one after the other. Connections of hosts
// with hot removal or injected errors may end at any time.
func (w *world) streams(name string, from, to *host, fragile bool) {
	w.repeat(name, func(a *actor) { w.connection(a, from, to, fragile) })
}

// connection runs one connection at its active end.
func (w *world) connection(a *actor, from, to *host, fragile bool) {
	c := &conn{w: w, name: a.name, seed: a.rnd.Uint64(), stop: make(chan struct{}), joined: make(chan struct{})}
	c.fragile.Store(fragile)
	c.unsteady = fragile
	e := newEnd(c, 0)
	w.mu.Lock()
	w.conns[c.seed] = c
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.conns, c.seed)
		w.mu.Unlock()
		c.harm()
		c.halt()
		if c.unsteady { // the passive end cannot do it without its HCA, and waits for the streams of both
			_ = e.disconnect() // injected errors
		}
		c.left.Wait()
		e.leave(a)
	}()
	if err := e.dial(a, from, to.addr); err != nil {
		switch {
		case isStale(err):
			w.tally.add(staleDials, 1)
			if m := w.tally.snapshot(); m[staleDials] > 5+m["connections"]/50 {
				w.v.failf("%s: dial: %v, for the %d. time in %d connections", c.name, err, m[staleDials],
					m["connections"])
			}
		case !fragile && !w.dog.starved() && w.ctx.Err() == nil:
			w.v.failf("%s: dial: %v", c.name, err)
		}
		w.tally.add("dials failed", 1)
		if fragile {
			a.pause(20 * time.Millisecond)
		}
		return
	}
	w.tally.add("connections", 1)
	select {
	case <-c.joined:
	case <-w.ctx.Done():
		return
	case <-time.After(patience):
		if !c.fragile.Load() && !w.dog.starved() {
			w.v.failf("%s: the passive end did not see the connection", c.name)
		}
		return
	}
	if c.ends[1] == nil {
		return
	}
	e.start(a.rnd.Uint64())
	a.pause(lifetime)
	c.finish(a)
}

// staleDials counts dials for which isStale is true. There are few.
const staleDials = "dials rejected, stale connection"

// isStale reports whether the peer has a connection of the same QP. The forger can make one: it sends a REQ that it has
// seen with another communication ID, and the network loses the original.
func isStale(err error) bool {
	var r *cm.RejectError
	return errors.As(err, &r) && r.Reason == mad.RejStaleConnection
}

// serve accepts connections.
func (h *host) serve() {
	h.w.repeat(fmt.Sprintf("listener of %v", h.addr), func(a *actor) {
		ctx, cancel := context.WithTimeout(h.w.ctx, time.Second)
		defer cancel()
		id, err := h.ln.Accept(ctx)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && !ended(err) {
				h.w.v.failf("listener of %v: %v", h.addr, err)
			}
			return
		}
		seed := a.rnd.Uint64()
		c := h.w.take(decodeTerms(id.Request().Private).seed)
		if c == nil { // the active end has stopped waiting
			if a.rnd.IntN(2) == 0 {
				_ = id.Reject([]byte("late"))
			}
			if err := id.Close(); err != nil {
				h.w.v.failf("listener of %v: close: %v", h.addr, err)
			}
			return
		}
		h.w.start(fmt.Sprintf("passive end %x of %s", seed, c.name), func(a *actor) {
			defer c.left.Done()
			h.passive(a, c, id)
		})
	})
}

// take removes and returns the connection of a request.
func (w *world) take(seed uint64) *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.conns[seed]
	if c != nil {
		delete(w.conns, seed)
		c.left.Add(1)
	}
	return c
}

// passive runs a connection at its passive end.
func (h *host) passive(a *actor, c *conn, id *cmid.ID) {
	e := newEnd(c, 1)
	defer e.leave(a)
	e.id = id
	err := e.accept(a)
	if err != nil {
		if !c.fragile.Load() && !h.w.dog.starved() && h.w.ctx.Err() == nil {
			h.w.v.failf("%s: accept: %v", c.name, err)
		}
		close(c.joined)
		return
	}
	c.ends[1] = e
	e.start(a.rnd.Uint64())
	close(c.joined)
	<-c.stop
	a.beat()
}

// lifeTime of packets, as rdmacm names it: the acknowledgement timeout is about twice 268 ms, and a connection ends
// after 4 s of silence.
const lifeTime = 16

func (e *end) dial(a *actor, from *host, to netip.Addr) error {
	ctx, cancel := a.patient()
	defer cancel()
	id, err := from.rcm.NewID(cmid.IDConfig{LifeTime: lifeTime})
	if err != nil {
		return err
	}
	e.id = id
	if err := id.Bind(netip.AddrPortFrom(from.addr, 0)); err != nil {
		return err
	}
	if err := id.ResolveAddr(ctx, netip.AddrPortFrom(to, service)); err != nil {
		return err
	}
	if err := id.ResolveRoute(ctx); err != nil {
		return err
	}
	if err := e.setUp(); err != nil {
		return err
	}
	a.beat()
	if err := id.Connect(ctx, cmid.ConnParam{Private: e.own.encode()}); err != nil {
		return err
	}
	e.connected = true
	return e.learn(id.Reply())
}

func (e *end) accept(a *actor) error {
	ctx, cancel := a.patient()
	defer cancel()
	if err := e.learn(e.id.Request().Private); err != nil {
		return err
	}
	if err := e.setUp(); err != nil {
		_ = e.id.Reject(nil)
		return err
	}
	err := e.id.Accept(ctx, cmid.ConnParam{Private: e.own.encode()})
	e.connected = err == nil
	return err
}

// learn stores the peer's terms.
func (e *end) learn(private []byte) error {
	e.peer = decodeTerms(private)
	if e.peer.seed != e.c.seed {
		return fmt.Errorf("private data of another connection: seed %x", e.peer.seed)
	}
	return nil
}

// setUp creates the objects of the end and posts its receives.
func (e *end) setUp() error {
	ca, err := e.id.CA()
	if err != nil {
		return err
	}
	if e.pd, err = ca.NewPD(ci.PDNormal); err != nil {
		return err
	}
	for _, r := range []struct {
		mem    *guarded
		access ci.Access
		mr     **accesslayer.MR
	}{{e.ro, ci.RemoteRead, &e.roMR}, {e.rw, ci.LocalWrite | ci.RemoteWrite, &e.rwMR},
		{e.ctr, ci.LocalWrite | ci.RemoteAtomic, &e.ctrMR}, {e.out, 0, &e.outMR}, {e.in, ci.LocalWrite, &e.inMR}} {
		if *r.mr, err = e.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(r.mem.body()), Access: r.access}); err != nil {
			return err
		}
	}
	e.own = terms{e.c.seed, e.roMR.Region().Remote(0), e.rwMR.Region().Remote(0), e.ctrMR.Region().Remote(0)}
	err = e.id.CreateQP(cmid.QPConfig{PD: e.pd, Caps: ci.QPCaps{SendDepth: sendDepth,
		RecvDepth: recvDepth, SendSGE: 3,
		RecvSGE: 2, MaxInline: 64}})
	if err != nil {
		return err
	}
	for range recvDepth {
		if err := e.postRecv(); err != nil {
			return err
		}
	}
	return nil
}
