package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// subnetPaths finds paths on InfiniBand. Its cache is created with the first one, so that it costs nothing on Ethernet.
type subnetPaths struct {
	client *sa.Client

	mu     sync.Mutex
	cache  *sa.Paths
	closed bool
}

// paths returns the cache.
func (s *subnetPaths) paths() (*sa.Paths, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sa.ErrClosed
	}
	if s.cache == nil {
		p, err := s.client.NewPaths(sa.PathsConfig{})
		if err != nil {
			return nil, err
		}
		s.cache = p
	}
	return s.cache, nil
}

// start requests a path.
func (s *subnetPaths) start(ctx context.Context, port mads.Port, q sa.PathQuery,
	done func(*mad.PathRecord, error)) error {
	p, err := s.paths()
	if err != nil {
		return err
	}
	return p.StartPath(ctx, port, q, done)
}

// forget drops the paths to a GID.
func (s *subnetPaths) forget(port mads.Port, dgid ci.GID) {
	s.mu.Lock()
	p := s.cache
	s.mu.Unlock()
	if p != nil {
		p.Forget(port, dgid)
	}
}

// close ends requests and closes the cache.
func (s *subnetPaths) close() error {
	s.mu.Lock()
	p := s.cache
	s.cache, s.closed = nil, true
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Close()
}

// Forgetter is implemented by a Resolver that keeps paths.
type Forgetter interface {
	// Forget drops the paths from a port to an address. The Manager calls it when a peer does not answer a request.
	Forget(from mads.Port, remote netip.Addr)
}

var _ Forgetter = (*System)(nil)

// Forget implements Forgetter.
func (r *System) Forget(from mads.Port, remote netip.Addr) {
	if r.subnet != nil {
		r.subnet.forget(from, address.GIDOf(remote.Unmap()))
	}
}

// startPath requests a path record from the subnet administrator.
func (r *System) startPath(ctx context.Context, q Query, from Source, p *ci.PortAttr,
	done func(cm.Path, error)) error {
	query := sa.PathQuery{SGID: from.GID, DGID: address.GIDOf(q.Remote.Addr().Unmap()), PKey: q.PKey,
		Service: q.Service, TrafficClass: q.TrafficClass}
	return r.subnet.start(ctx, from.Port, query, func(rec *mad.PathRecord, err error) {
		if _, ok := errors.AsType[*sa.StatusError](err); ok {
			err = fmt.Errorf("%w: %w", syscall.EHOSTUNREACH, err)
		}
		if err != nil {
			done(cm.Path{}, err)
			return
		}
		done(PathOf(rec, from, p), nil)
	})
}
