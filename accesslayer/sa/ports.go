package sa

import (
	"maps"
	"slices"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
)

// A watcher receives the events of all ports. portEvent must not block. close is called when the client is closed.
type watcher interface {
	portEvent(port mads.Port, e accesslayer.PortEvent)
	close()
}

// watch adds a watcher of port events, until unwatch. The client registers for them when it has the first watcher.
func (c *Client) watch(w watcher) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if c.pnp == nil {
		pnp, err := c.al.Open(accesslayer.ClientConfig{Name: "SA client"})
		if err != nil {
			return err
		}
		_, err = pnp.RegisterPnP(accesslayer.PnPConfig{Port: c.portEvent})
		if err != nil {
			_ = pnp.CloseAsync(nil)
			return err
		}
		c.pnp = pnp
	}
	c.watchers[w] = struct{}{}
	if r, ok := w.(*registration); ok {
		r.share = c.share(r)
	}
	return nil
}

// unwatch removes a watcher. A call of portEvent may still be in progress.
func (c *Client) unwatch(w watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.watchers[w]; !ok {
		return
	}
	delete(c.watchers, w)
	if r, ok := w.(*registration); ok {
		c.unshare(r.share)
	}
}

// known is what has been reported about a port.
type known uint8

const (
	knownAdded known = 1 + iota // the next event is the state that it had
	knownState
)

// portEvent is called for each event of a port. The events with which a registration begins describe the state that
// requests were made in, and are not passed on.
func (c *Client) portEvent(a *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
	port := mads.Port{CA: a.GUID(), Num: e.Port}
	c.mu.Lock()
	state := c.known[port]
	if state < knownState {
		c.known[port] = state + 1
	}
	list := slices.Collect(maps.Keys(c.watchers))
	c.mu.Unlock()
	if e.Type == accesslayer.PortRemove {
		c.portRemoved(port)
	}
	if state == knownState {
		c.notify(list, port, e)
	}
}

// notify passes an event to watchers.
func (c *Client) notify(list []watcher, port mads.Port, e accesslayer.PortEvent) {
	if losesRegistrations(e.Type) {
		c.forgetResponses(port) // before any of them registers again
	}
	for _, w := range list {
		w.portEvent(port, e)
	}
}

// losesRegistrations reports whether the administrator may have lost what the port has registered, or holds it with
// attributes that the port has no more.
func losesRegistrations(t accesslayer.PortEventType) bool {
	switch t {
	case accesslayer.PortReregister, accesslayer.PortSM, accesslayer.PortLID, accesslayer.PortGID,
		accesslayer.PortActive:
		return true
	}
	return false
}
