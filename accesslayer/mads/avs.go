package mads

import (
	"ciddk/accesslayer"
	"ciddk/ci"
)

// avCache keeps the address vectors of a QP: making one costs more than all else of a send. Those not in use are in a list, the one used last
// first, and go when there are too many. The endpoint's lock guards it.
type avCache struct {
	pd    *accesslayer.PD
	limit int
	by    map[ci.AVAttr]*avEntry
	idle  avEntry // ring of those with no user; idle.next was used last
}

type avEntry struct {
	av         *accesslayer.AV
	attr       ci.AVAttr
	users      int
	stale      bool // not in by any more: destroyed with the last user
	prev, next *avEntry
}

func (c *avCache) init(pd *accesslayer.PD, limit int) {
	c.pd, c.limit, c.by = pd, limit, make(map[ci.AVAttr]*avEntry)
	c.idle.prev, c.idle.next = &c.idle, &c.idle
}

// get gives the vector for an address, made if need be; release gives it back.
func (c *avCache) get(attr ci.AVAttr) (*avEntry, error) {
	e := c.by[attr]
	if e == nil {
		for len(c.by) >= c.limit && c.idle.prev != &c.idle {
			c.evict(c.idle.prev)
		}
		av, err := c.pd.NewAV(attr)
		if err != nil {
			return nil, err
		}
		e = &avEntry{av: av, attr: attr}
		c.by[attr] = e
	} else if e.users == 0 {
		e.unlink()
	}
	e.users++
	return e, nil
}

func (c *avCache) release(e *avEntry) {
	if e.users--; e.users > 0 {
		return
	}
	if e.stale {
		_ = e.av.DestroyAsync(nil) // it fails only when it is gone with its HCA
		return
	}
	e.prev, e.next = &c.idle, c.idle.next
	e.prev.next, e.next.prev = e, e
	if len(c.by) > c.limit {
		c.evict(c.idle.prev)
	}
}

func (e *avEntry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// evict takes out a vector that has no user.
func (c *avCache) evict(e *avEntry) {
	e.unlink()
	delete(c.by, e.attr)
	_ = e.av.DestroyAsync(nil)
}

// forget takes out all of them; those in use live until they are released.
func (c *avCache) forget() {
	for _, e := range c.by {
		if e.users == 0 {
			c.evict(e)
		} else {
			delete(c.by, e.attr)
			e.stale = true
		}
	}
}
