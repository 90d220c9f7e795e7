package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ciddk/bus/usb/crspace"
	"ciddk/bus/usb/u2c"
	"ciddk/internal/mlx4/prm"
)

// A number is decimal, or hexadecimal with 0x.
type number uint32

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *number) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 0, 32)
	if err != nil {
		return fmt.Errorf("%q: want a number of 32 bits", b)
	}
	*n = number(v)
	return nil
}

type listCmd struct{}

// Run implements the command.
func (c *listCmd) Run(p *program) (err error) {
	s, err := p.source()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	l, err := s.list()
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range l {
		a, err := s.open(p, at)
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", at, err))
			continue
		}
		i := a.Info()
		fmt.Fprintf(p.out, "%v  serial %08x  firmware %d.%d\n", at, i.Serial, i.Major, i.Minor)
		errs = append(errs, a.Close())
	}
	if len(l) == 0 {
		fmt.Fprintln(p.err, "ddk-oob: no USB adapter (0abf:3370)")
	}
	return errors.Join(errs...)
}

type idCmd struct{}

// Run implements the command.
func (c *idCmd) Run(p *program) error {
	return p.withSpace(crspace.Config{}, func(s *crspace.Space, id crspace.ID) error {
		fmt.Fprintf(p.out, "%v  device 0x%04x  revision %d  at I2C address 0x%02x\n", id, id.Device, id.Revision,
			s.Address())
		return nil
	})
}

type readCmd struct {
	Register number `arg:"" help:"Address of the first register."`
	Count    number `arg:"" default:"1" help:"Number of registers."`
}

// maxRegisters is the number of registers of the whole CR-space.
const maxRegisters = crspace.Size / 4

// Run implements the command.
func (c *readCmd) Run(p *program) error {
	if c.Count == 0 || c.Count > maxRegisters {
		return fmt.Errorf("count %d: want 1 to %d", c.Count, maxRegisters)
	}
	for _, r := range hasSideEffect {
		if first := uint32(c.Register); c.Count > 1 && r >= first && (r-first)/4 < uint32(c.Count) {
			return fmt.Errorf("the range contains the register %#x, which a read changes: read it alone, or use dump",
				r)
		}
	}
	return p.withSpace(crspace.Config{}, func(s *crspace.Space, _ crspace.ID) error {
		v := make([]uint32, c.Count)
		if err := s.ReadBlock(p.ctx, uint32(c.Register), v); err != nil {
			return err
		}
		for i, x := range v {
			fmt.Fprintf(p.out, "%05x: %08x\n", uint32(c.Register)+4*uint32(i), x)
		}
		return nil
	})
}

// hasSideEffect are the registers of a ConnectX-3 that a read changes.
var hasSideEffect = []uint32{prm.RegOwnership, prm.RegSemaphore}

type dumpCmd struct {
	Start number `arg:"" default:"0" help:"Address of the first register."`
	Bytes number `arg:"" default:"0x100000" help:"Number of bytes."`
	All   bool   `help:"Read registers that a read changes, too."`
}

// registersPerLine is the number of registers on a line of a dump.
const registersPerLine = 4

// Run implements the command.
func (c *dumpCmd) Run(p *program) error {
	start, n := uint32(c.Start), uint32(c.Bytes)
	switch {
	case start%4 != 0 || n%4 != 0:
		return fmt.Errorf("dump of %#x bytes at %#x: want multiples of 4", n, start)
	case n == 0 || start >= crspace.Size:
		return fmt.Errorf("dump of %#x bytes at %#x: the space has %#x bytes", n, start, crspace.Size)
	}
	end := start + min(n, crspace.Size-start)
	return p.withSpace(crspace.Config{}, func(s *crspace.Space, _ crspace.ID) error {
		for at := start; at < end; at += 4 * registersPerLine {
			if err := c.line(p, s, at, min(registersPerLine, (end-at)/4)); err != nil {
				return err
			}
		}
		return nil
	})
}

// line prints n registers.
func (c *dumpCmd) line(p *program, s *crspace.Space, at, n uint32) error {
	v := make([]uint32, n)
	isLeftOut := func(i uint32) bool { return !c.All && slices.Contains(hasSideEffect, at+4*i) }
	for i := uint32(0); i < n; {
		to := i
		for to < n && !isLeftOut(to) {
			to++
		}
		if to > i {
			if err := s.ReadBlock(p.ctx, at+4*i, v[i:to]); err != nil {
				return err
			}
		}
		i = to + 1
	}
	fmt.Fprintf(p.out, "%05x:", at)
	for i, x := range v {
		if isLeftOut(uint32(i)) {
			fmt.Fprint(p.out, " --------")
			continue
		}
		fmt.Fprintf(p.out, " %08x", x)
	}
	fmt.Fprintln(p.out)
	return nil
}

type writeCmd struct {
	YesIKnow bool   `name:"yes-i-know" help:"Allow the write. A wrong one can damage the card for good."`
	Register number `arg:"" help:"Address of the register."`
	Value    number `arg:"" help:"Value to write."`
}

// Run implements the command. It prints the old value, so that the write can be undone, unless reading it changes it.
func (c *writeCmd) Run(p *program) error {
	if !c.YesIKnow {
		return fmt.Errorf("write of %#x: %w (a wrong write can damage the card for good; add --yes-i-know)",
			uint32(c.Register), crspace.ErrReadOnly)
	}
	return p.withSpace(crspace.Config{AllowWrites: true}, func(s *crspace.Space, _ crspace.ID) error {
		before := "not read"
		if !slices.Contains(hasSideEffect, uint32(c.Register)) {
			old, err := s.Read32(p.ctx, uint32(c.Register))
			if err != nil {
				return err
			}
			before = fmt.Sprintf("%08x", old)
		}
		fmt.Fprintf(p.err, "ddk-oob: register %05x: old value %s, writing %08x\n", uint32(c.Register), before,
			uint32(c.Value))
		return s.Write32(p.ctx, uint32(c.Register), uint32(c.Value))
	})
}

type scanCmd struct{}

// Run implements the command.
func (c *scanCmd) Run(p *program) error {
	return p.withAdapter(func(a *u2c.Adapter) error {
		l, err := a.Scan(p.ctx)
		if err != nil {
			return err
		}
		for _, addr := range l {
			fmt.Fprintf(p.out, "0x%02x\n", addr)
		}
		return nil
	})
}

type recoverCmd struct{}

// Run implements the command.
func (c *recoverCmd) Run(p *program) error {
	return p.withAdapter(func(a *u2c.Adapter) error { return a.Recover(p.ctx) })
}
