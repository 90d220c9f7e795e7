package sa

import (
	"slices"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// A share is what the registrations of a port with equal keys have in common, since they are one for the administrator.
// They take turns: at most one request is in progress. So the end of one, which may be sent again, never follows the
// registration of the next one.
type share struct {
	key   shareKey
	users int // guarded by Client.mu

	mu      sync.Mutex
	owner   *registration   // that has the turn, or nil
	waiting []*registration // for the turn
	isHeld  bool            // the administrator may have the registration
	request *mad.SA         // that the administrator has accepted, and
	result  *mad.SA         // its response; nil: unknown, or lost since
	isLost  bool            // forget was called during this turn
}

type shareKey struct {
	port mads.Port
	key  any
}

// share returns the share of a registration, until unshare. c.mu is held.
func (c *Client) share(r *registration) *share {
	k := shareKey{r.port, r.key}
	s := c.shares[k]
	if s == nil {
		s = &share{key: k}
		c.shares[k] = s
	}
	s.users++
	return s
}

// unshare ends share. c.mu is held.
func (c *Client) unshare(s *share) {
	if s.users--; s.users == 0 && c.shares[s.key] == s {
		delete(c.shares, s.key)
	}
}

// forgetResponses makes the registrations of a port register by requests of their own again.
func (c *Client) forgetResponses(port mads.Port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, s := range c.shares {
		if k.port == port {
			s.forget()
		}
	}
}

// acquire takes the turn. If another registration has it, r continues with advance after that one.
func (s *share) acquire(r *registration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == nil {
		s.owner, s.isLost = r, false
		return true
	}
	if !slices.Contains(s.waiting, r) {
		s.waiting = append(s.waiting, r)
	}
	return false
}

// release ends the turn of r. The caller holds no lock.
func (s *share) release(r *registration) {
	s.mu.Lock()
	if s.owner != r {
		s.mu.Unlock()
		return
	}
	list := s.waiting
	s.owner, s.waiting = nil, nil
	s.mu.Unlock()
	for _, w := range list {
		w.advance()
	}
}

// response returns the response to a request that the administrator has accepted from another registration, or nil.
func (s *share) response(req *mad.SA) *mad.SA {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result == nil || s.request.ComponentMask != req.ComponentMask || s.request.Data != req.Data {
		return nil
	}
	return s.result
}

// registered notes the response to a request of this turn. A nil response leaves open whether the administrator has
// executed it.
func (s *share) registered(req, resp *mad.SA) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isHeld = true
	if s.isLost {
		resp = nil
	}
	s.request, s.result = req, resp
}

// forget drops the response, which the administrator may not stand by any more.
func (s *share) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isLost, s.result = true, nil
}

// unregistered notes that the administrator does not have the registration.
func (s *share) unregistered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isHeld, s.result = false, nil
}

// held reports whether the administrator may have the registration.
func (s *share) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isHeld
}
