package kernelcm

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
)

// resolver implements resolve.Resolver. Each question has an ID of its own.
type resolver struct{ s *Service }

var _ resolve.Resolver = resolver{}

// question is an ID that resolves an address, and then perhaps a route.
type question struct {
	x    *kernelID
	q    *resolve.Query
	last uint32 // the event of the answer
	left int    // tries to resolve the address
	done func(error)

	mu   sync.Mutex
	over bool
	stop func() bool // ends the reaction to the end of the context; nil: none yet
}

// ask resolves up to the event last.
func (r resolver) ask(ctx context.Context, q *resolve.Query, last uint32, done func(*kernelID, error)) {
	a := &question{q: q, last: last, left: tries}
	var err error
	if a.x, err = r.s.d.newID(spaces[cmid.TCP], nil); err != nil {
		done(nil, err)
		return
	}
	a.done = func(err error) {
		done(a.x, err)
		a.x.destroy()
	}
	if err = a.x.setHandle(a.event); err == nil {
		err = a.resolve()
	}
	if err != nil {
		a.end(err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.stop = context.AfterFunc(ctx, func() { a.end(ctx.Err()) })
	}
}

func (a *question) resolve() error { return a.x.resolve(a.q.Local.Addr(), a.q.Remote) }

func (a *question) event(e *abi.EventResp) {
	switch {
	case e.Event == a.last:
		a.end(nil)
	case e.Event == abi.EventAddrResolved:
		if err := a.x.resolveRoute(); err != nil {
			a.end(err)
		}
	case again(e, &a.left):
		if err := a.resolve(); err != nil {
			a.end(err)
		}
	default:
		a.end(failure(e))
	}
}

// end ends the question, once: done runs on a goroutine of its own, since it may take its time.
func (a *question) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.over = true
	if a.stop != nil {
		a.stop()
	}
	go a.done(err)
}

// ResolveAddr implements resolve.Resolver.
func (r resolver) ResolveAddr(ctx context.Context, q resolve.Query, done func(resolve.Source, error)) {
	r.ask(ctx, &q, abi.EventAddrResolved, func(x *kernelID, err error) {
		var src resolve.Source
		if err == nil {
			src, err = r.source(x)
		}
		done(src, err)
	})
}

// source returns the port of an ID whose address is resolved.
func (r resolver) source(x *kernelID) (src resolve.Source, err error) {
	a, err := x.addresses()
	if err != nil {
		return src, err
	}
	p, err := r.s.port(&a)
	if err != nil {
		return src, err
	}
	return resolve.Source{Port: a.port, Link: p.Link, GIDIndex: gidIndex(p, a.localGID), GID: a.localGID,
		Addr: a.local.Addr()}, nil
}

// gidIndex returns the last index of a GID, since Linux has RoCE v1 before v2.
func gidIndex(p *ci.PortAttr, gid ci.GID) (index uint16) {
	for i, g := range p.GIDs {
		if g.GID == gid {
			index = uint16(i)
		}
	}
	return index
}

// port returns the attributes of a port, which the access layer must have.
func (s *Service) port(a *addresses) (*ci.PortAttr, error) {
	ad, err := s.al.Adapter(a.port.CA)
	if err != nil {
		return nil, fmt.Errorf("%v is on the device with the GUID %016x, which is not registered: %w", a.local.Addr(),
			uint64(a.port.CA), err)
	}
	attr := ad.Attr()
	if n := int(a.port.Num); n < 1 || n > len(attr.Ports) {
		return nil, &ci.Error{Verb: "kernelcm", Status: ci.InvalidPort, Detail: fmt.Sprintf("port %d", n)}
	}
	return &attr.Ports[a.port.Num-1], nil
}

// ResolveRoute implements resolve.Resolver.
func (r resolver) ResolveRoute(ctx context.Context, q resolve.Query, from resolve.Source, done func(cm.Path, error)) {
	q.Local = netip.AddrPortFrom(from.Addr, 0)
	r.ask(ctx, &q, abi.EventRouteResolved, func(x *kernelID, err error) {
		var p cm.Path
		if err == nil {
			p, err = r.path(x, from, &q)
		}
		done(p, err)
	})
}

func (r resolver) path(x *kernelID, from resolve.Source, q *resolve.Query) (p cm.Path, err error) {
	rec, ok, err := x.record()
	if err == nil && !ok {
		err = &ci.Error{Verb: "kernelcm", Status: ci.NotFound, Detail: fmt.Sprintf("no path to %v", q.Remote.Addr())}
	}
	if err != nil {
		return p, err
	}
	attr, err := r.s.port(&addresses{port: from.Port})
	if err != nil {
		return p, err
	}
	p = resolve.PathOf(&rec, from, attr)
	if p.LifeTime == 0 {
		p.LifeTime = q.LifeTime
	}
	if attr.Link != ci.LinkInfiniBand { // there are no LIDs
		p.AV = ci.AVAttr{Port: from.Port.Num, Global: true, GRH: p.AV.GRH}
	}
	return p, nil
}
