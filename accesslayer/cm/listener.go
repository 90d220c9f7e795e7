package cm

import (
	"bytes"
	"cmp"
	"context"
	"math/bits"
	"slices"

	"ciddk/ci"
	"ciddk/mad"
)

// listeners finds who answers a request. m.mu guards it.
type listeners struct {
	all   []*listener
	exact map[mad.ServiceID][]*listener // those for one ID, best first
	wide  []*listener                   // those with a mask, best first
}

func (ls *listeners) init() { ls.exact = map[mad.ServiceID][]*listener{} }

type listener struct {
	m   *Manager
	cfg ListenConfig

	// Guarded by m.mu.
	closed  bool
	conns   backlog[*conn]   // requests in StateREQRcvd or StateMRAREQSent
	lookups backlog[*lookup] // requests without an answer
}

var _ Listener = (*listener)(nil)

// Listen implements Service.
func (m *Manager) Listen(cfg ListenConfig) (Listener, error) {
	const verb = "Service.Listen"
	room := mad.REQPrivateLen
	if cfg.Datagram {
		room = mad.SIDRREQPrivateLen
	}
	switch {
	case cfg.Offset < 0 || cfg.Offset+len(cfg.Compare) > room:
		return nil, invalid(verb, "Compare at Offset is not within the %d bytes of private data", room)
	case cfg.Port.Num != 0 && cfg.Port.CA == 0:
		return nil, invalid(verb, "Port has a number and no CA")
	case cfg.Backlog < 0:
		return nil, invalid(verb, "Backlog is negative")
	}
	if cfg.Mask == 0 {
		cfg.Mask = mad.ServiceIDExact
	}
	if cfg.Backlog == 0 {
		cfg.Backlog = defaultBacklog
	}
	if len(cfg.Compare) == 0 {
		cfg.Offset = 0
	}
	cfg.Service &= cfg.Mask
	cfg.PKey &^= memberBit
	cfg.Compare = bytes.Clone(cfg.Compare)
	l := &listener{m: m, cfg: cfg}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, closed(verb, "the connection manager is closed")
	}
	for _, o := range m.listeners.rivals(&cfg) {
		if o.cfg.same(&cfg) {
			return nil, &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "another listener has this service ID, these filters and this Compare"}
		}
	}
	m.listeners.add(l)
	return l, nil
}

const memberBit = 0x8000

func (a *ListenConfig) same(b *ListenConfig) bool {
	return a.Service == b.Service && a.Mask == b.Mask && a.Port == b.Port && a.GID == b.GID && a.LID == b.LID && a.PKey == b.PKey &&
		a.Datagram == b.Datagram && a.Offset == b.Offset && bytes.Equal(a.Compare, b.Compare)
}

func (a *ListenConfig) filters() (n int) {
	for _, set := range []bool{a.Port.CA != 0, a.Port.Num != 0, a.GID != ci.GID{}, a.LID != 0, a.PKey != 0} {
		if set {
			n++
		}
	}
	return n
}

// rivals are the listeners that may be the same.
func (ls *listeners) rivals(cfg *ListenConfig) []*listener {
	if cfg.Mask == mad.ServiceIDExact {
		return ls.exact[cfg.Service]
	}
	return ls.wide
}

// better orders listeners: who is more particular comes first.
func better(a, b *listener) int {
	return cmp.Or(cmp.Compare(len(b.cfg.Compare), len(a.cfg.Compare)),
		cmp.Compare(bits.OnesCount64(uint64(b.cfg.Mask)), bits.OnesCount64(uint64(a.cfg.Mask))),
		cmp.Compare(b.cfg.filters(), a.cfg.filters()))
}

func (ls *listeners) add(l *listener) {
	ls.all = append(ls.all, l)
	if l.cfg.Mask == mad.ServiceIDExact {
		ls.exact[l.cfg.Service] = insert(ls.exact[l.cfg.Service], l)
	} else {
		ls.wide = insert(ls.wide, l)
	}
}

// insert keeps the order; of equals, the first stays first.
func insert(list []*listener, l *listener) []*listener {
	i, _ := slices.BinarySearchFunc(list, l, func(o, l *listener) int {
		if better(o, l) <= 0 {
			return -1
		}
		return 1
	})
	return slices.Insert(list, i, l)
}

func (ls *listeners) remove(l *listener) {
	is := func(o *listener) bool { return o == l }
	ls.all = slices.DeleteFunc(ls.all, is)
	if l.cfg.Mask == mad.ServiceIDExact {
		if ls.exact[l.cfg.Service] = slices.DeleteFunc(ls.exact[l.cfg.Service], is); len(ls.exact[l.cfg.Service]) == 0 {
			delete(ls.exact, l.cfg.Service)
		}
	} else {
		ls.wide = slices.DeleteFunc(ls.wide, is)
	}
}

// target is what a request is addressed to.
type target struct {
	service  mad.ServiceID
	datagram bool
	path     *Path // the way back
	gid      ci.GID
	lid      ci.LID
	private  []byte
}

// find gives the listener for a request, nil if there is none.
func (ls *listeners) find(t *target) *listener {
	var best *listener
	for _, list := range [2][]*listener{ls.exact[t.service], ls.wide} {
		for _, l := range list {
			if l.cfg.fits(t) {
				if best == nil || better(l, best) < 0 {
					best = l
				}
				break
			}
		}
	}
	return best
}

func (a *ListenConfig) fits(t *target) bool {
	return a.Datagram == t.datagram && t.service.Matches(a.Service, a.Mask) &&
		(a.Port.CA == 0 || a.Port.CA == t.path.Port.CA) && (a.Port.Num == 0 || a.Port.Num == t.path.Port.Num) &&
		(a.GID == ci.GID{} || a.GID == t.gid) && (a.LID == 0 || a.LID == t.lid) && (a.PKey == 0 || a.PKey == t.path.PKey&^memberBit) &&
		bytes.HasPrefix(t.private[a.Offset:], a.Compare)
}

// enqueue hands a request to a listener; false if its backlog is full. m.mu is held.
func (l *listener) enqueue(c *conn) bool {
	if !l.hasRoom() {
		return false
	}
	c.listener = l
	l.conns.add(c)
	return true
}

// hasRoom reports whether the backlog takes another request; m.mu is held.
func (l *listener) hasRoom() bool {
	return len(l.conns.requests)+len(l.lookups.requests) < l.cfg.Backlog
}

// dequeue takes a request back that nobody has accepted; m.mu is held.
func (l *listener) dequeue(c *conn) {
	if i := slices.Index(l.conns.requests, c); i >= 0 {
		l.conns.requests = slices.Delete(l.conns.requests, i, i+1)
	}
	c.listener = nil
}

// Accept implements Listener.
func (l *listener) Accept(ctx context.Context) (Conn, error) {
	c, err := acceptNow(ctx, l, "Listener.Accept", &l.conns)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// StartAccept implements Listener.
func (l *listener) StartAccept(ctx context.Context, done func(Conn, error)) error {
	const verb = "Listener.StartAccept"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	return accept(ctx, l, verb, &l.conns, func(c *conn, err error) {
		if err != nil {
			go done(nil, err)
		} else {
			go done(c, nil)
		}
	})
}

// AcceptLookup implements Listener.
func (l *listener) AcceptLookup(ctx context.Context) (LookupRequest, error) {
	r, err := acceptNow(ctx, l, "Listener.AcceptLookup", &l.lookups)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// StartAcceptLookup implements Listener.
func (l *listener) StartAcceptLookup(ctx context.Context, done func(LookupRequest, error)) error {
	const verb = "Listener.StartAcceptLookup"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	return accept(ctx, l, verb, &l.lookups, func(r *lookup, err error) {
		if err != nil {
			go done(nil, err)
		} else {
			go done(r, nil)
		}
	})
}

// Close implements Listener.
func (l *listener) Close() error {
	m := l.m
	m.mu.Lock()
	if l.closed {
		m.mu.Unlock()
		return nil
	}
	l.closed = true
	m.listeners.remove(l)
	waiting, lookups := l.conns.close(), l.lookups.close()
	for _, c := range waiting {
		c.listener = nil
	}
	m.mu.Unlock()
	for _, c := range waiting {
		c.refuse(mad.RejInvalidServiceID)
	}
	for _, r := range lookups {
		r.refuse(mad.SIDRUnsupportedService)
	}
	return nil
}
