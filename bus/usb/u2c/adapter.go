package u2c

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Pipe is the two bulk endpoints of an adapter.
type Pipe interface {
	// Write sends one OUT transfer.
	Write(ctx context.Context, b []byte) (int, error)
	// Read receives one IN message of at most len(b) bytes. It returns the context's error when that ends first, and
	// an error that wraps ErrUnplugged when the adapter is no longer there.
	Read(ctx context.Context, b []byte) (int, error)
	// Close releases the adapter.
	Close() error
}

// Limits of messages.
const (
	maxOut   = 124 // bytes of commands in an OUT transfer
	maxIn    = 256 // bytes of an IN message
	maxStale = 128 // IN messages without a command: of an earlier user, or of a whole OUT transfer
)

// messageTimeout limits one USB transfer.
const messageTimeout = 100 * time.Millisecond

// Speeds of the I2C bus, in Hz.
const (
	SpeedFast     = 400_000
	SpeedStandard = 100_000
	SpeedSlowest  = 2_100
)

// stretchLimit is the time for which a target may stretch the clock, in units of 0.1 ms.
const stretchLimit = 200

// Config configures an Adapter. The zero value is the standard speed, and reads byte by byte.
type Config struct {
	// Speed of the I2C bus: SpeedFast, or SpeedSlowest to SpeedStandard. 0 is SpeedStandard.
	Speed int
	// BatchReads sends the commands for all bytes of a read in one OUT transfer. By default each byte has its own
	// transfer, as Linux does it.
	BatchReads bool
}

// speedCode returns the argument of OpSetSpeed.
func (c Config) speedCode() (uint8, error) {
	switch {
	case c.Speed == 0:
		return 1, nil
	case c.Speed == SpeedFast:
		return 0, nil
	case c.Speed < SpeedSlowest || c.Speed > SpeedStandard:
		return 0, fmt.Errorf("speed %d Hz: want %d, or %d to %d", c.Speed, SpeedFast, SpeedSlowest, SpeedStandard)
	}
	period := (1_000_000 + c.Speed - 1) / c.Speed // in µs
	return uint8(1 + (period-10)/2), nil
}

// Info describes an adapter.
type Info struct {
	Serial       uint32
	Major, Minor uint8 // firmware version
}

// An Adapter is a U2C-12.
type Adapter struct {
	cfg  Config
	info Info

	mu           sync.Mutex
	pipe         Pipe // nil after Close
	isOutOfOrder bool // an answer was lost or had the wrong length
	in           [maxIn]byte
}

// Open initializes the adapter at the end of a pipe. It takes the pipe over, and closes it when it fails.
func Open(ctx context.Context, p Pipe, c Config) (*Adapter, error) {
	a := &Adapter{cfg: c, pipe: p}
	if err := a.initialize(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("u2c.Open: %w", err), p.Close())
	}
	return a, nil
}

// initialize drains old answers, reads the identity and sets speed and clock stretching.
func (a *Adapter) initialize(ctx context.Context) error {
	code, err := a.cfg.speedCode()
	if err != nil {
		return err
	}
	if err := a.drain(ctx); err != nil {
		return err
	}
	var firmware [2]byte
	var serial [4]byte
	stretch := []command{{op: OpSetClockSync, args: [2]byte{0}}}
	if code != 0 { // in fast mode, a target may not stretch the clock
		stretch = []command{{op: OpSetClockSync, args: [2]byte{1}},
			{op: OpSetClockSyncTO, args: [2]byte{stretchLimit & 0xff, stretchLimit >> 8}}}
	}
	l := append([]command{
		{op: OpFirmware, reply: firmware[:], isLast: true},
		{op: OpSerial, reply: serial[:], isLast: true},
		{op: OpSetSpeed, args: [2]byte{code}}}, stretch...)
	if _, err := a.exchange(ctx, l); err != nil {
		return err
	}
	a.info = Info{Serial: binary.LittleEndian.Uint32(serial[:]), Major: firmware[0], Minor: firmware[1]}
	return nil
}

// Info returns the adapter's identity, which Open has read.
func (a *Adapter) Info() Info { return a.info }

// Close releases the adapter. It is idempotent, and waits for a running transaction.
func (a *Adapter) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pipe == nil {
		return nil
	}
	p := a.pipe
	a.pipe = nil
	return p.Close()
}
