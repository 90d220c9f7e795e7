package crspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Bus is an I2C bus with 7-bit addresses, as u2c.Adapter implements it.
type Bus interface {
	// Write writes bytes to a target.
	Write(ctx context.Context, addr uint8, w []byte) error
	// WriteRead writes bytes to a target and, after a repeated start, reads bytes.
	WriteRead(ctx context.Context, addr uint8, w, r []byte) error
}

// I2C addresses of adapters.
const (
	// Address is that of adapters up to ConnectX-6, and of later ones without firmware.
	Address = 0x48
	// SecuredAddress is that of ConnectX-7 and later.
	SecuredAddress = 0x47
)

// Size is the number of bytes of the CR-space of a ConnectX-3.
const Size = 1 << 20

// Limits of one I2C transaction, in bytes.
const (
	maxRead  = 64
	maxWrite = 32
)

// Errors that those of a Space wrap.
var (
	// ErrReadOnly is returned by writes without Config.AllowWrites.
	ErrReadOnly = errors.New("writes are not allowed")
	// ErrRange is returned for an address outside the space or not divisible by 4.
	ErrRange = errors.New("invalid register address")
)

// Config configures a Space. The zero value reads a ConnectX-3.
type Config struct {
	// Address is the I2C address; 0 is Address.
	Address uint8
	// Size is the number of bytes of the space; 0 is Size.
	Size uint32
	// AllowWrites permits Write32 and WriteBlock.
	AllowWrites bool
}

// A Space is the CR-space of an adapter.
type Space struct {
	bus Bus
	cfg Config
}

// New returns the CR-space of the adapter at Config.Address. It does not access the bus.
func New(b Bus, c Config) *Space {
	if c.Address == 0 {
		c.Address = Address
	}
	if c.Size == 0 {
		c.Size = Size
	}
	return &Space{b, c}
}

// Address returns the adapter's I2C address.
func (s *Space) Address() uint8 { return s.cfg.Address }

// Size returns the number of bytes of the space.
func (s *Space) Size() uint32 { return s.cfg.Size }

// check returns an error if n registers at an address are not within the space.
func (s *Space) check(addr uint32, n int) error {
	switch {
	case addr%4 != 0:
		return fmt.Errorf("%w: %#x is not divisible by 4", ErrRange, addr)
	case n == 0:
		return fmt.Errorf("%w: no registers at %#x", ErrRange, addr)
	case uint64(addr)+4*uint64(n) > uint64(s.cfg.Size):
		return fmt.Errorf("%w: %d registers at %#x: the space has %#x bytes", ErrRange, n, addr, s.cfg.Size)
	}
	return nil
}

// Read32 reads a register.
func (s *Space) Read32(ctx context.Context, addr uint32) (uint32, error) {
	var v [1]uint32
	err := s.ReadBlock(ctx, addr, v[:])
	return v[0], err
}

// ReadBlock reads consecutive registers.
func (s *Space) ReadBlock(ctx context.Context, addr uint32, v []uint32) error {
	if err := s.check(addr, len(v)); err != nil {
		return fmt.Errorf("crspace.ReadBlock: %w", err)
	}
	var b [maxRead]byte
	for len(v) > 0 {
		n := min(len(v), maxRead/4)
		if err := s.bus.WriteRead(ctx, s.cfg.Address, address(addr), b[:4*n]); err != nil {
			return fmt.Errorf("crspace.ReadBlock: register %#x: %w", addr, err)
		}
		for i := range v[:n] {
			v[i] = binary.BigEndian.Uint32(b[4*i:])
		}
		addr, v = addr+4*uint32(n), v[n:]
	}
	return nil
}

// Write32 writes a register.
func (s *Space) Write32(ctx context.Context, addr, v uint32) error {
	return s.WriteBlock(ctx, addr, []uint32{v})
}

// WriteBlock writes consecutive registers.
func (s *Space) WriteBlock(ctx context.Context, addr uint32, v []uint32) error {
	if err := s.check(addr, len(v)); err != nil {
		return fmt.Errorf("crspace.WriteBlock: %w", err)
	}
	if !s.cfg.AllowWrites {
		return fmt.Errorf("crspace.WriteBlock: register %#x: %w", addr, ErrReadOnly)
	}
	for len(v) > 0 {
		n := min(len(v), maxWrite/4)
		b := address(addr)
		for _, x := range v[:n] {
			b = binary.BigEndian.AppendUint32(b, x)
		}
		if err := s.bus.Write(ctx, s.cfg.Address, b); err != nil {
			return fmt.Errorf("crspace.WriteBlock: register %#x: %w", addr, err)
		}
		addr, v = addr+4*uint32(n), v[n:]
	}
	return nil
}

func address(a uint32) []byte { return binary.BigEndian.AppendUint32(nil, a) }
