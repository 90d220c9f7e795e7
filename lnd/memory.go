package lnd

import (
	"errors"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// A mapping is memory of a transfer that the adapter can access: by fast registration, or on adapters without it as a
// memory region of its own.
type mapping struct {
	ci.Region
	fast *accesslayer.FastRegMapping // or nil
	// unmap ends the access of the adapter. Memory by fast registration was invalidated before.
	unmap func() error
}

// mapMemory makes memory accessible.
func (c *conn) mapMemory(b []byte, access ci.Access) (*mapping, error) {
	pd, err := c.id.PD()
	if err != nil {
		return nil, err
	}
	if c.pool == nil && !c.noPool {
		// The pool always has a free region, so no transfer waits for one, and there can be no deadlock. Slots bound
		// the local transfers. Credits bound those of the peer, and return together with their regions. MaxPages
		// includes one page because memory may begin in the middle of a page.
		c.pool, err = pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 2 * int(c.params.Depth),
			MaxPages: MaxTransfer>>12 + 1})
		c.noPool = errors.Is(err, ci.Unsupported) || errors.Is(err, ci.InvalidParameter)
		if err != nil && !c.noPool {
			return nil, err
		}
	}
	if c.noPool {
		mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(b), Access: access})
		if err != nil {
			return nil, err
		}
		return &mapping{Region: mr.Region(), unmap: mr.Destroy}, nil
	}
	f, err := c.pool.Map(ci.Bytes(b), access)
	if err != nil {
		return nil, err
	}
	return &mapping{Region: f.Region, fast: f, unmap: f.Unmap}, nil
}

// register returns the work requests that register the memory, in front of those that use it.
func (m *mapping) register() []ci.SendWR {
	if m.fast == nil {
		return nil
	}
	return []ci.SendWR{m.fast.Register()}
}

// drop ends the access after the queue pair was destroyed.
func (m *mapping) drop() error {
	if m.fast != nil {
		return nil // with the pool
	}
	return unlessDestroyed(m.unmap())
}
