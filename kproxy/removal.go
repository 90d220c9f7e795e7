package kproxy

import (
	"errors"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// watch makes the access layer report the adapters that it removes. [SAS-2.2-05]
func (s *Server) watch() error {
	client, err := s.cfg.AL.Open(accesslayer.ClientConfig{Name: "kproxy"})
	if err != nil {
		return err
	}
	_, err = client.RegisterPnP(accesslayer.PnPConfig{Remove: func(a *accesslayer.Adapter, _ any) { s.removed(a) }})
	if err != nil {
		return errors.Join(err, client.Close())
	}
	s.pnp = client
	return nil
}

// removed informs every client that has the adapter open. The access layer destroys their objects afterwards.
func (s *Server) removed(a *accesslayer.Adapter) {
	for _, c := range s.Sessions() {
		c.adapterRemoved(a)
	}
}

// isPresent reports whether an adapter is registered and is not being removed.
func (s *Server) isPresent(a *accesslayer.Adapter) bool {
	now, err := s.cfg.AL.Adapter(a.GUID())
	return err == nil && now == a
}

// adapterRemoved ends the use of an adapter: verbs of its objects fail with InvalidState from now on, each open of it
// receives EventLocalFatal, and their destruction begins.
func (c *Session) adapterRemoved(a *accesslayer.Adapter) {
	var opens []*object
	c.mu.Lock()
	for _, o := range c.objects() {
		if o.kind == schema.KindCA && o.state != creating && !o.removed && o.al.(*accesslayer.CA).Adapter() == a {
			o.removed = true
			o.localFatal()
			opens = append(opens, o)
		}
	}
	c.mu.Unlock()
	for _, o := range opens {
		// An error means that the client or the access layer destroys the open already.
		_ = o.al.(*accesslayer.CA).DestroyAsync(func(err error) {
			if err == nil {
				c.releaseMemory(o)
			}
		})
	}
}

// localFatal sends EventLocalFatal to an open of an adapter, once. The session's mu is held, so that no event follows
// the reply to the client's destroy.
func (o *object) localFatal() {
	if o.state == live && !o.fatal {
		o.fatal = true
		o.async.event(o, ci.Event{Type: ci.EventLocalFatal})
	}
}

// releaseMemory unmaps the regions of an open whose objects are all destroyed, and takes their bytes and those of its
// queues back from the client's usage. The handles stay in the table until the client destroys them.
func (c *Session) releaseMemory(open *object) {
	var list []*object
	c.mu.Lock()
	for _, o := range c.objects() {
		if o.ca == open && o.state == live { // others are released by the verb in progress
			list = append(list, o)
		}
	}
	c.mu.Unlock()
	for _, o := range list {
		o.change.Lock()
		memories := o.memories
		o.memories = nil
		c.mu.Lock()
		if o.state == live {
			c.dropCharge(o.charge)
			o.charge = charge{}
		}
		c.mu.Unlock()
		c.release(memories...)
		o.change.Unlock()
	}
}

// isRemoved reports whether the adapter of an object was removed. mu is held.
func (o *object) isRemoved() bool { return o.ca != nil && o.ca.removed }

// removedError returns the error of a verb whose adapter was removed.
func removedError(verb string) error {
	return failf(verb, ci.InvalidState, "the adapter was removed (destroy its objects, and open an adapter that is "+
		"present)")
}

// orRemoved returns err, or the error of a removed adapter if that is the reason.
func (c *Session) orRemoved(verb string, o *object, err error) error {
	if err != nil && c.wasRemoved(o) {
		return removedError(verb)
	}
	return err
}

// opened checks an open that became live: the adapter may be removed, or the daemon may stop, at the same time.
func (c *Session) opened(o *object) {
	a := o.al.(*accesslayer.CA).Adapter()
	if !c.s.isPresent(a) {
		c.adapterRemoved(a)
	}
	if c.s.isStopping() {
		c.stopping()
	}
}

// stopping sends EventLocalFatal to every open, because the daemon stops. Verbs continue to work, so that the client
// can end its work before the daemon does.
func (c *Session) stopping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects() {
		if o.kind == schema.KindCA {
			o.localFatal()
		}
	}
}
