package sa

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// PathsConfig holds the settings of Paths. The zero value selects the defaults.
type PathsConfig struct {
	// MaxBytes bounds the memory of the cache, in bytes; 0: 4 MiB. A path counts as 512 bytes. The path that was used
	// the longest time ago is dropped first.
	MaxBytes int
	// MaxAge is how long a path is used; 0: 5 minutes.
	MaxAge time.Duration
	// NoNotices leaves out the subscriptions to traps 64 and 65. Then the paths of a port that was moved to another
	// LID are used until MaxAge.
	NoNotices bool
}

const (
	pathBytes       = 512 // an entry, its places in the map and the list, and its timer
	defaultMaxBytes = 4 << 20
	defaultMaxAge   = 5 * time.Minute
)

// Paths is a cache of paths. Requests for a path that is being queried wait for that query.
//
// A path is dropped when it is too old; when its port loses its LID, GIDs or partitions, goes down, is removed, has
// another subnet manager, or is to register again; when the administrator reports that a port with its source or
// destination GID came into service or went out of it (traps 64 and 65); and by Forget.
type Paths struct {
	c     *Client
	cfg   PathsConfig
	clock clock.Clock

	mu       sync.Mutex
	closed   bool
	entries  map[pathKey]*list.Element // of *pathEntry
	used     *list.List                // the last one used is at the front
	flights  map[pathKey]*flight
	watched  map[mads.Port][]*Subscription // nil: being made
	counters PathCounters
}

var _ watcher = (*Paths)(nil)

type pathKey struct {
	port mads.Port
	q    PathQuery
}

type pathEntry struct {
	key pathKey
	rec mad.PathRecord
	at  time.Duration
}

// flight is a query with the requests that wait for it.
type flight struct {
	waiting []*pathCall
	cancel  context.CancelFunc
	stale   bool // its result is not to be kept
}

type pathCall struct {
	done func(*mad.PathRecord, error)
	stop func() bool // ends the wait for the context
}

// PathCounters count what a cache of paths does.
type PathCounters struct {
	Paths   int    // in the cache
	Hits    uint64 // requests answered from the cache
	Shared  uint64 // requests that waited for the query of another one
	Queries uint64 // to administrators
	Expired uint64 // paths that were too old
	Evicted uint64 // paths dropped for others
	Dropped uint64 // paths dropped because of events, notices and Forget
}

// NewPaths creates a cache of the client's paths. The caller closes it; Client.Close closes it as well. Status: those
// of accesslayer.AL.Open.
func (c *Client) NewPaths(cfg PathsConfig) (*Paths, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = defaultMaxAge
	}
	if c.al == nil {
		return nil, failure(ci.InvalidParameter, "New was called without an access layer", nil)
	}
	p := &Paths{c: c, cfg: cfg, clock: c.al.Clock(), entries: map[pathKey]*list.Element{}, used: list.New(),
		flights: map[pathKey]*flight{}, watched: map[mads.Port][]*Subscription{}}
	if err := c.watch(p); err != nil {
		return nil, err
	}
	return p, nil
}

// Path returns the path of Client.Path, from the cache if it is there. Errors: as Client.Do.
func (p *Paths) Path(ctx context.Context, port mads.Port, q PathQuery) (*mad.PathRecord, error) {
	return wait(func(done func(*mad.PathRecord, error)) error { return p.StartPath(ctx, port, q, done) })
}

// StartPath starts Path and returns. done is called with the outcome, on a goroutine of its own.
func (p *Paths) StartPath(ctx context.Context, port mads.Port, q PathQuery,
	done func(*mad.PathRecord, error)) error {
	if done == nil {
		return errNoDone
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	key := pathKey{port, q}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	if rec := p.find(key); rec != nil {
		p.counters.Hits++
		p.mu.Unlock()
		go done(rec, nil)
		return nil
	}
	call := &pathCall{done: done, stop: func() bool { return true }}
	f := p.flights[key]
	isFirst := f == nil || f.stale
	if isFirst {
		f = &flight{}
		p.flights[key] = f
		p.counters.Queries++
	} else {
		p.counters.Shared++
	}
	f.waiting = append(f.waiting, call)
	if ctx.Done() != nil {
		call.stop = context.AfterFunc(ctx, func() { p.giveUp(key, f, call, ctx.Err()) })
	}
	var flightCtx context.Context
	if isFirst {
		flightCtx, f.cancel = context.WithCancel(context.Background())
	}
	p.mu.Unlock()
	if !isFirst {
		return nil
	}
	err := p.c.StartPath(flightCtx, port, q, func(rec *mad.PathRecord, err error) { p.land(key, f, rec, err) })
	if err != nil {
		go p.land(key, f, nil, err)
		return nil
	}
	p.watchNotices(port)
	return nil
}

// find returns a copy of a path that is in the cache and not too old, or nil. p.mu is held.
func (p *Paths) find(key pathKey) *mad.PathRecord {
	e := p.entries[key]
	if e == nil {
		return nil
	}
	entry := e.Value.(*pathEntry)
	if p.clock.Elapsed()-entry.at >= p.cfg.MaxAge {
		p.counters.Expired++
		p.remove(e)
		return nil
	}
	p.used.MoveToFront(e)
	rec := entry.rec
	return &rec
}

// land ends a query.
func (p *Paths) land(key pathKey, f *flight, rec *mad.PathRecord, err error) {
	p.mu.Lock()
	if p.flights[key] == f {
		delete(p.flights, key)
	}
	waiting := f.waiting
	f.waiting = nil
	f.cancel()
	if err == nil && !f.stale && !p.closed {
		p.keep(&pathEntry{key: key, rec: *rec, at: p.clock.Elapsed()})
	}
	p.mu.Unlock()
	for _, call := range waiting {
		call.stop()
		if err != nil {
			go call.done(nil, err)
			continue
		}
		own := *rec
		go call.done(&own, nil)
	}
}

// keep adds a path, and drops others for it. p.mu is held.
func (p *Paths) keep(entry *pathEntry) {
	if old := p.entries[entry.key]; old != nil {
		p.remove(old)
	}
	for p.used.Len() > 0 && (p.used.Len()+1)*pathBytes > p.cfg.MaxBytes {
		p.counters.Evicted++
		p.remove(p.used.Back())
	}
	if pathBytes <= p.cfg.MaxBytes {
		p.entries[entry.key] = p.used.PushFront(entry)
	}
}

// remove drops a path. p.mu is held.
func (p *Paths) remove(e *list.Element) {
	delete(p.entries, e.Value.(*pathEntry).key)
	p.used.Remove(e)
}

// giveUp ends a request whose context has ended. A query without requests is canceled.
func (p *Paths) giveUp(key pathKey, f *flight, call *pathCall, err error) {
	p.mu.Lock()
	i := slices.Index(f.waiting, call)
	if i >= 0 {
		f.waiting = slices.Delete(f.waiting, i, i+1)
		if len(f.waiting) == 0 {
			if p.flights[key] == f {
				delete(p.flights, key)
			}
			f.cancel()
		}
	}
	p.mu.Unlock()
	if i >= 0 {
		call.done(nil, err)
	}
}

// Forget drops the paths from a port to a GID, such as after a connection over one has failed. The zero GID stands for
// all.
func (p *Paths) Forget(port mads.Port, dgid ci.GID) {
	p.drop(func(k pathKey) bool { return k.port == port && (dgid == ci.GID{} || k.q.DGID == dgid) })
}

// drop drops the paths that match, and makes the results of running queries that match not be kept.
func (p *Paths) drop(matches func(pathKey) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, e := range p.entries {
		if matches(k) {
			p.counters.Dropped++
			p.remove(e)
		}
	}
	for k, f := range p.flights {
		if matches(k) {
			f.stale = true
		}
	}
}

// portEvent implements watcher.
func (p *Paths) portEvent(port mads.Port, e accesslayer.PortEvent) {
	switch {
	case losesRegistrations(e.Type), e.Type == accesslayer.PortDown, e.Type == accesslayer.PortRemove,
		e.Type == accesslayer.PortPKey:
		p.Forget(port, ci.GID{})
	}
}

// watchNotices subscribes to the notices of a port that concern paths, once for each port. Without them, paths are
// dropped by age.
func (p *Paths) watchNotices(port mads.Port) {
	p.mu.Lock()
	_, has := p.watched[port]
	if has || p.cfg.NoNotices || p.closed {
		p.mu.Unlock()
		return
	}
	p.watched[port] = nil
	p.mu.Unlock()
	for _, trap := range []uint16{mad.TrapGIDInService, mad.TrapGIDOutOfService} {
		cfg := SubscriptionConfig{Trap: trap, OnNotice: func(n *mad.NoticeRecord) { p.noticed(port, n) },
			OnChange: func(err error) { // notices may have been missed
				if err == nil {
					p.Forget(port, ci.GID{})
				}
			}}
		err := p.c.StartSubscription(context.Background(), port, cfg, func(s *Subscription, err error) {
			p.subscribed(port, s, err)
		})
		if err != nil {
			p.subscribed(port, nil, err)
		}
	}
}

// subscribed takes the outcome of a subscription.
func (p *Paths) subscribed(port mads.Port, s *Subscription, err error) {
	if err != nil {
		p.c.al.Logger().Debug("sa: paths are dropped by age alone", "port", port, "error", err)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.watched[port]) == 0 { // try again with the next query
			delete(p.watched, port)
		}
		return
	}
	p.mu.Lock()
	isClosed := p.closed
	if !isClosed {
		p.watched[port] = append(p.watched[port], s)
	}
	p.mu.Unlock()
	if isClosed {
		_ = s.DestroyAsync(nil)
	}
}

// noticed is called with a notice about a GID.
func (p *Paths) noticed(port mads.Port, n *mad.NoticeRecord) {
	var d mad.TrapGID
	d.Parse(n.Notice.Details[:])
	p.drop(func(k pathKey) bool {
		return k.port == port && (k.q.DGID == ci.GID(d.GID) || k.q.SGID == ci.GID(d.GID))
	})
}

// Counters returns the counters of the cache.
func (p *Paths) Counters() PathCounters {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counters
	c.Paths = p.used.Len()
	return c
}

// Close drops all paths and ends the requests with ErrClosed. It does not wait for their done functions. It is
// idempotent.
func (p *Paths) Close() error {
	p.close()
	return nil
}

func (p *Paths) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	var calls []*pathCall
	for _, f := range p.flights {
		calls = append(calls, f.waiting...)
		f.waiting = nil
		f.cancel()
	}
	var subscriptions []*Subscription
	for _, list := range p.watched {
		subscriptions = append(subscriptions, list...)
	}
	clear(p.entries)
	clear(p.flights)
	clear(p.watched)
	p.used.Init()
	p.mu.Unlock()
	p.c.unwatch(p)
	for _, call := range calls {
		call.stop()
		go call.done(nil, ErrClosed)
	}
	for _, s := range subscriptions {
		_ = s.DestroyAsync(nil) // its client may be closed
	}
}
