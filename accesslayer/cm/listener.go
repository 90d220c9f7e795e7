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

// listeners finds the listener for a request. Manager.mu guards it.
type listeners struct {
	all   []*listener
	exact map[mad.ServiceID][]*listener // listeners for a single service ID, best match first
	wide  []*listener                   // listeners with a mask, best match first
}

func (l *listeners) init() { l.exact = map[mad.ServiceID][]*listener{} }

type listener struct {
	m   *Manager
	cfg ListenConfig

	// Guarded by m.mu.
	closed  bool
	conns   backlog[*conn]          // requests in StateREQRcvd or StateMRAREQSent
	lookups backlog[*lookupRequest] // SIDR requests without an answer
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
		return nil, invalid(verb, "Compare has %d bytes at Offset %d, the private data has %d", len(cfg.Compare),
			cfg.Offset, room)
	case cfg.Port.Num != 0 && cfg.Port.CA == 0:
		return nil, invalid(verb, "Port.Num is %d without Port.CA", cfg.Port.Num)
	case cfg.Backlog < 0:
		return nil, invalid(verb, "Backlog is %d, want at least 0", cfg.Backlog)
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
		return nil, managerClosed(verb)
	}
	for _, o := range m.listeners.candidates(&cfg) {
		if o.cfg.isSame(&cfg) {
			return nil, &ci.Error{Verb: verb, Status: ci.InvalidSetting,
				Detail: "another listener has this service ID, these filters and this Compare"}
		}
	}
	m.listeners.add(l)
	return l, nil
}

const memberBit = 0x8000

// isSame reports whether two listeners would match the same requests with the same precedence.
func (c *ListenConfig) isSame(o *ListenConfig) bool {
	sameService := c.Service == o.Service && c.Mask == o.Mask && c.Datagram == o.Datagram
	sameFilters := c.Port == o.Port && c.GID == o.GID && c.LID == o.LID && c.PKey == o.PKey
	return sameService && sameFilters && c.Offset == o.Offset && bytes.Equal(c.Compare, o.Compare)
}

func (c *ListenConfig) numFilters() (n int) {
	for _, isSet := range []bool{c.Port.CA != 0, c.Port.Num != 0, c.GID != ci.GID{}, c.LID != 0, c.PKey != 0} {
		if isSet {
			n++
		}
	}
	return n
}

// candidates returns the listeners that may be the same as cfg.
func (l *listeners) candidates(cfg *ListenConfig) []*listener {
	if cfg.Mask == mad.ServiceIDExact {
		return l.exact[cfg.Service]
	}
	return l.wide
}

// compareListeners orders listeners by precedence. It is negative if a takes precedence over b, because a is more
// specific.
func compareListeners(a, b *listener) int {
	return cmp.Or(cmp.Compare(len(b.cfg.Compare), len(a.cfg.Compare)),
		cmp.Compare(bits.OnesCount64(uint64(b.cfg.Mask)), bits.OnesCount64(uint64(a.cfg.Mask))),
		cmp.Compare(b.cfg.numFilters(), a.cfg.numFilters()))
}

func (l *listeners) add(n *listener) {
	l.all = append(l.all, n)
	if n.cfg.Mask == mad.ServiceIDExact {
		l.exact[n.cfg.Service] = insert(l.exact[n.cfg.Service], n)
	} else {
		l.wide = insert(l.wide, n)
	}
}

// insert adds l to an ordered list. Among equals, the first one stays first.
func insert(list []*listener, l *listener) []*listener {
	i, _ := slices.BinarySearchFunc(list, l, func(o, l *listener) int {
		if compareListeners(o, l) <= 0 {
			return -1
		}
		return 1
	})
	return slices.Insert(list, i, l)
}

func (l *listeners) remove(old *listener) {
	isOld := func(o *listener) bool { return o == old }
	l.all = slices.DeleteFunc(l.all, isOld)
	if old.cfg.Mask != mad.ServiceIDExact {
		l.wide = slices.DeleteFunc(l.wide, isOld)
		return
	}
	rest := slices.DeleteFunc(l.exact[old.cfg.Service], isOld)
	if l.exact[old.cfg.Service] = rest; len(rest) == 0 {
		delete(l.exact, old.cfg.Service)
	}
}

// target is the destination of a request, as listeners compare it.
type target struct {
	service  mad.ServiceID
	datagram bool
	path     *Path // to the sender
	gid      ci.GID
	lid      ci.LID
	private  []byte
}

// find returns the listener for a request, or nil if there is none.
func (l *listeners) find(t *target) *listener {
	var best *listener
	for _, list := range [2][]*listener{l.exact[t.service], l.wide} {
		for _, n := range list {
			if n.cfg.isMatch(t) {
				if best == nil || compareListeners(n, best) < 0 {
					best = n
				}
				break
			}
		}
	}
	return best
}

func (c *ListenConfig) isMatch(t *target) bool {
	isService := c.Datagram == t.datagram && t.service.Matches(c.Service, c.Mask)
	isPort := (c.Port.CA == 0 || c.Port.CA == t.path.Port.CA) && (c.Port.Num == 0 || c.Port.Num == t.path.Port.Num)
	isAddress := (c.GID == ci.GID{} || c.GID == t.gid) && (c.LID == 0 || c.LID == t.lid)
	isPartition := c.PKey == 0 || c.PKey == t.path.PKey&^memberBit
	return isService && isPort && isAddress && isPartition && bytes.HasPrefix(t.private[c.Offset:], c.Compare)
}

// enqueue passes a request to the listener. It returns false if the backlog is full. The caller holds m.mu.
func (l *listener) enqueue(c *conn) bool {
	if !l.hasRoom() {
		return false
	}
	c.listener = l
	l.conns.add(c)
	return true
}

// hasRoom reports whether the backlog has room for another request. The caller holds m.mu.
func (l *listener) hasRoom() bool {
	return len(l.conns.requests)+len(l.lookups.requests) < l.cfg.Backlog
}

// dequeue removes a request that has not been accepted. The caller holds m.mu.
func (l *listener) dequeue(c *conn) {
	l.conns.remove(c)
	c.listener = nil
}

// Accept implements Listener.
func (l *listener) Accept(ctx context.Context) (Conn, error) {
	c, err := acceptAndWait(ctx, l, "Listener.Accept", &l.conns)
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
	return startAccepting(ctx, l, verb, &l.conns, func(c *conn, err error) {
		if err != nil {
			go done(nil, err)
		} else {
			go done(c, nil)
		}
	})
}

// AcceptLookup implements Listener.
func (l *listener) AcceptLookup(ctx context.Context) (LookupRequest, error) {
	r, err := acceptAndWait(ctx, l, "Listener.AcceptLookup", &l.lookups)
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
	return startAccepting(ctx, l, verb, &l.lookups, func(r *lookupRequest, err error) {
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
		c.rejectUnaccepted(mad.RejInvalidServiceID)
	}
	for _, r := range lookups {
		r.rejectUnaccepted(mad.SIDRUnsupportedService)
	}
	return nil
}
