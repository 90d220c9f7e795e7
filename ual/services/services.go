package services

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/ual"
)

// Services are the services of a daemon. All methods may be called concurrently.
type Services struct {
	c       *ual.Client
	notices *ual.Notices
	handle  schema.Handle
	token   uint64

	mu       sync.Mutex
	closed   bool
	lost     bool
	objects  map[uint64]object // by token
	bindings map[*binding]struct{}
	nextOp   uint64
	changes  changes

	unanswered []schema.Handle // of lookup requests, oldest first
}

// object is an object of the services in the daemon.
type object interface {
	// disconnect ends the object because the connection to the daemon is lost.
	disconnect()
	// Close closes the object.
	Close() error
}

// Open opens the services of a daemon. Close them before the client. Status: Unsupported (the daemon has none).
func Open(c *ual.Client) (*Services, error) {
	s := &Services{c: c, objects: map[uint64]object{}, bindings: map[*binding]struct{}{}}
	s.changes.init(s)
	var err error
	if s.notices, err = c.NewNotices(s.disconnect); err != nil {
		return nil, err
	}
	s.token = s.notices.Add(s.changes.refresh)
	var r schema.Created
	q := &schema.OpenServices{Token: s.token, Async: s.notices.Handle()}
	if err := c.Do(schema.CmdOpenServices, q, &r); err != nil {
		s.notices.Remove(s.token)
		s.notices.Close()
		return nil, err
	}
	s.mu.Lock()
	s.handle = r.Handle
	s.mu.Unlock()
	s.changes.refresh()
	return s, nil
}

// CM returns the daemon's connection manager. Its Close has no effect; see Services.Close.
func (s *Services) CM() cm.Service { return &manager{s} }

// MAD returns the daemon's MAD services.
func (s *Services) MAD() mads.Service { return &madService{s} }

// Ports returns the ports of the port spaces, which all processes share.
func (s *Services) Ports() cmid.Ports { return &ports{s} }

// Close closes all listeners, connections and agents, without waiting for peers. It is idempotent. Do not call it from
// a callback of an agent.
func (s *Services) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var list []object
	for _, o := range s.objects {
		list = append(list, o)
	}
	bindings := slices.Collect(maps.Keys(s.bindings))
	requests := s.unanswered
	s.unanswered = nil
	s.mu.Unlock()
	s.changes.close()
	for _, b := range bindings {
		b.Release()
	}
	var errs []error
	for _, o := range list {
		errs = append(errs, o.Close())
	}
	for _, h := range requests {
		_ = s.destroy(h) // the daemon may have forgotten it
	}
	s.notices.Remove(s.token)
	errs = append(errs, s.destroy(s.handle))
	s.notices.Close()
	return errors.Join(errs...)
}

// disconnect is called when no more notices will come.
func (s *Services) disconnect() {
	s.mu.Lock()
	s.lost = true
	var list []object
	for _, o := range s.objects {
		list = append(list, o)
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return
	}
	for _, o := range list {
		o.disconnect()
	}
}

// add assigns a token to an object, with which the daemon reports that it has notices.
func (s *Services) add(verb string, o object, take func()) (token uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, closedError(verb)
	case s.lost:
		return 0, lostError(verb)
	}
	token = s.notices.Add(take)
	s.objects[token] = o
	return token, nil
}

// remove removes an object. It reports false if it was removed before.
func (s *Services) remove(token uint64) bool {
	s.mu.Lock()
	_, ok := s.objects[token]
	delete(s.objects, token)
	s.mu.Unlock()
	if ok {
		s.notices.Remove(token)
	}
	return ok
}

// op returns a number for a step.
func (s *Services) op() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextOp++
	return s.nextOp
}

// do executes a command without a result.
func (s *Services) do(cmd schema.Command, request any) error {
	return s.c.Do(cmd, request, &schema.None{})
}

// destroy destroys an object of the daemon. Without a connection, the daemon has destroyed it.
func (s *Services) destroy(h schema.Handle) error {
	err := s.c.Do(schema.CmdDestroy, &schema.Object{Handle: h}, &schema.DestroyReply{})
	if errors.Is(err, ual.ErrDisconnected) {
		return nil
	}
	return err
}

// lostError is the error of what needs the daemon after the connection was lost.
func lostError(verb string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Err: ual.ErrDisconnected}
}
