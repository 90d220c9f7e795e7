package ual

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// copies is the goroutine that copies registered and exposed memory for a daemon that the system does not let reach it.
// It starts when the daemon rejects the registration of such memory, or a verb of a vendor's library that names it.
type copies struct {
	mu      sync.Mutex // held during the request
	started bool
	file    *os.File // nil: it does not run. Client.mu guards it
}

// serveCopies starts the goroutine, unless it was started before. It reports whether it runs.
func (c *Client) serveCopies() bool {
	x := &c.copies
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.started {
		return true
	}
	files, err := c.doFiles(schema.CmdServeCopies, &schema.ServeCopies{}, nil, &schema.None{})
	if err != nil || len(files) != 1 {
		native.CloseFiles(files)
		return false
	}
	c.mu.Lock()
	lost := c.err != nil
	if !lost {
		x.file = files[0]
	}
	c.mu.Unlock()
	if lost {
		native.CloseFiles(files)
		return false
	}
	x.started = true
	c.wait.Go(func() {
		debug.SetPanicOnFault(true) // of this goroutine; see pinned.transfer
		native.ServeCopies(files[0], c.copyFor)
		files[0].Close()
	})
	return true
}

// copyFor copies between data and memory that is registered, or, without a token, exposed.
func (c *Client) copyFor(r *schema.Copy, data []byte) error {
	c.mu.Lock()
	p := c.pins[r.Token]
	c.mu.Unlock()
	if r.Token == 0 {
		p = exposedAt(r.Addr)
	}
	if p == nil {
		return errNotRegistered
	}
	return p.transfer(data, r.Addr, r.Kind == schema.CopyWrite)
}

var (
	errNotRegistered = errors.New("ual: the daemon requested a copy of memory that is not registered or exposed")
	errUnmapped      = errors.New("ual: registered memory is not mapped any more, or does not permit the access")
)

// transfer copies between b and the memory at addr. It returns an error if the program has unmapped it.
func (p *pinned) transfer(b []byte, addr uint64, isWrite bool) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	off := addr - p.addr
	if p.isReleased || addr < p.addr || off > p.length || uint64(len(b)) > p.length-off {
		return errNotRegistered
	}
	defer func() {
		if r := recover(); r != nil {
			if _, isFault := r.(interface{ Addr() uintptr }); !isFault {
				panic(r)
			}
			err = errUnmapped
		}
	}()
	for off += p.offset; len(b) > 0; {
		part := p.mem.Slice(off, uint64(len(b)))
		if len(part) == 0 {
			return errNotRegistered
		}
		n := min(len(part), len(b))
		if isWrite {
			copyBytes(part, b[:n])
		} else {
			copyBytes(b, part[:n])
		}
		b, off = b[n:], off+uint64(n)
	}
	return nil
}

// withCopies executes a registration. If the daemon cannot reach the memory, the registration is repeated when the
// client copies for it.
func (c *Client) withCopies(d *described, register func() error) error {
	serves := c.servesCopies()
	err := register()
	if serves || d.pin == nil || d.m.Shared || ci.StatusOf(err) != ci.InvalidPermission || !c.serveCopies() {
		return err
	}
	return register()
}

// servesCopies reports whether the client copies for the daemon.
func (c *Client) servesCopies() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copies.file != nil
}
