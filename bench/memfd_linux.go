package bench

import (
	"errors"

	"golang.org/x/sys/unix"

	"ciddk/internal/memfd"
)

// memfdCopy is the yardstick of large transfers: copy between two memfds by one process, over as many bytes as the
// transfers touch.
type memfdCopy struct {
	role
	from, to []byte
}

func newMemfdCopy(_ *host, r role) (half, error) {
	c := &memfdCopy{role: r}
	if !r.First {
		return c, nil
	}
	var err error
	if c.from, err = anonymous(bufBytes); err == nil {
		c.to, err = anonymous(bufBytes)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// anonymous maps a new memfd.
func anonymous(n int) ([]byte, error) {
	f, err := memfd.Create("copy", n)
	if err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return b, errors.Join(err, f.Close())
}

func (c *memfdCopy) address() address   { return address{} }
func (c *memfdCopy) join(address) error { return nil }
func (c *memfdCopy) end() error         { return nil }

func (c *memfdCopy) run(ops int, _ *watch) error {
	if !c.First {
		return nil
	}
	slots := min(c.Depth, bufBytes/c.Size)
	for i := range ops {
		off := i % slots * c.Size
		copy(c.to[off:off+c.Size], c.from[off:off+c.Size])
	}
	return nil
}

func (c *memfdCopy) close() error {
	var errs []error
	for _, b := range [][]byte{c.from, c.to} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	return errors.Join(errs...)
}
