package arena

import (
	"fmt"
	"os"
	"sync/atomic"
)

// A Client is what the process of an application has of a daemon: shared memory, and the doorbell that wakes the
// daemon. Its methods may be called concurrently.
type Client struct {
	mem    *Memory
	ringer *Ringer
	users  atomic.Int32  // the context, and each queue
	bells  atomic.Uint64 // calls of Ring
	yields atomic.Uint64 // and of Yield
}

// OpenClient returns a client of the descriptors of a Memory of size bytes and of a Doorbell. It keeps duplicates.
func OpenClient(files []*os.File, size uint64) (*Client, error) {
	if len(files) != 2 {
		return nil, fmt.Errorf("arena: %d descriptors, want 2", len(files))
	}
	m, err := Open(files[0])
	if err != nil {
		return nil, err
	}
	if uint64(len(m.Bytes())) != size {
		_ = m.Close() // the error to report is the next one
		return nil, fmt.Errorf("arena: memory of %d bytes, want %d", len(m.Bytes()), size)
	}
	r, err := OpenRinger(files[1])
	if err != nil {
		_ = m.Close() // the error to report is the first one
		return nil, err
	}
	c := &Client{mem: m, ringer: r}
	c.users.Store(1)
	return c, nil
}

// Bytes returns the mapping of the memory. It is valid until the last Drop.
func (c *Client) Bytes() []byte { return c.mem.Bytes() }

// Hold keeps the memory mapped until another Drop. Each queue holds it, because the context may be closed before its
// queues are destroyed: if the daemon has exited, all verbs that destroy succeed.
func (c *Client) Hold() { c.users.Add(1) }

// Drop releases the memory. The last one unmaps it.
func (c *Client) Drop() {
	if c.users.Add(-1) == 0 {
		_, _ = c.ringer.Close(), c.mem.Close() // nothing to do about an error
	}
}

// Ring wakes the daemon. It makes one system call.
func (c *Client) Ring() {
	c.bells.Add(1)
	_ = c.ringer.Ring() // an error means that the daemon has exited, which the proxy reports
}

// Yield yields the processor, as the function Yield.
func (c *Client) Yield() {
	c.yields.Add(1)
	Yield()
}

// Calls returns how often Ring and Yield were called.
func (c *Client) Calls() (rings, yields uint64) { return c.bells.Load(), c.yields.Load() }
