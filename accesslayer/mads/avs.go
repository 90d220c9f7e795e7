package mads

import (
	"ciddk/accesslayer"
	"ciddk/ci"
)

// avCache keeps the address vectors of a QP, since creating one costs more than the rest of a send. Unused vectors are
// in a list, the last used first, and the oldest are destroyed when there are too many. The endpoint's lock guards the
// cache.
type avCache struct {
	pd    *accesslayer.PD
	limit int
	by    map[ci.AVAttr]*avEntry
	idle  avEntry // ring of unused vectors; idle.next was used last
}

type avEntry struct {
	av         *accesslayer.AV
	attr       ci.AVAttr
	users      int
	stale      bool // removed from the cache, and destroyed by its last user
	prev, next *avEntry
}

func (c *avCache) init(pd *accesslayer.PD, limit int) {
	c.pd, c.limit, c.by = pd, limit, make(map[ci.AVAttr]*avEntry)
	c.idle.prev, c.idle.next = &c.idle, &c.idle
}

// get returns the vector for an address, and creates it if necessary. release returns it to the cache.
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
		_ = e.av.DestroyAsync(nil) // fails only if its HCA was removed
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

// evict removes a vector without users.
func (c *avCache) evict(e *avEntry) {
	e.unlink()
	delete(c.by, e.attr)
	_ = e.av.DestroyAsync(nil)
}

// forget removes all vectors. Those in use exist until they are released.
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
