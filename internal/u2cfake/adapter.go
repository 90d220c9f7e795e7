package u2cfake

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"ciddk/bus/usb/u2c"
)

// A Target is a device on the I2C bus. Calls come one at a time.
type Target interface {
	// Start addresses the target, for a read or a write.
	Start(isRead bool)
	// Put takes a byte, and reports whether the target acknowledges it.
	Put(b byte) bool
	// Get returns the next byte.
	Get() byte
}

// Config configures an Adapter.
type Config struct {
	Serial  uint32
	Targets map[uint8]Target // by I2C address
	Faults  Faults
}

// Faults are deviations of the adapter and its targets. The zero value has none.
type Faults struct {
	// Stale are messages that wait before the first command.
	Stale [][]byte
	// NACKByte is the number of the byte on the bus, from 1, that no target acknowledges; 0: none.
	NACKByte int
	// Reply, if not nil, replaces the answer to command n, counted from 1, by any number of messages.
	Reply func(n int, reply []byte) [][]byte
	// StuckPulses is the number of clock pulses for which a target holds the data line low.
	StuckPulses int
	// UnplugAfter is the number of OUT transfers after which the adapter is unplugged; 0: never.
	UnplugAfter int
}

// An Adapter is a U2C-12 in software. It implements u2c.Pipe.
type Adapter struct {
	cfg Config

	mu          sync.Mutex
	in          [][]byte      // messages to be read
	arrived     chan struct{} // has an element if there may be messages
	unplugged   chan struct{}
	isUnplugged bool
	isClosed    bool
	numOut      int
	numCommands int
	numBytes    int
	pulses      int
	out         []byte

	isStarted bool // the next byte is an address
	isReading bool
	target    Target // nil: none is addressed
	isSCLLow  bool
}

// New returns an adapter.
func New(c Config) *Adapter {
	a := &Adapter{cfg: c, arrived: make(chan struct{}, 1), unplugged: make(chan struct{})}
	a.queue(c.Faults.Stale)
	return a
}

// Unplug removes the adapter from the USB. It is idempotent.
func (a *Adapter) Unplug() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unplug()
}

func (a *Adapter) unplug() {
	if !a.isUnplugged {
		a.isUnplugged = true
		close(a.unplugged)
	}
}

// Sent returns the bytes of all OUT transfers so far.
func (a *Adapter) Sent() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.out)
}

// NumTransfers returns the number of OUT transfers.
func (a *Adapter) NumTransfers() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.numOut
}

// IsIdle reports whether the last transaction on the I2C bus has ended with STOP.
func (a *Adapter) IsIdle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.target == nil && !a.isStarted
}

// Close implements u2c.Pipe.
func (a *Adapter) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isClosed = true
	a.unplug()
	return nil
}

// IsClosed reports whether Close has been called.
func (a *Adapter) IsClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isClosed
}

// Write implements u2c.Pipe.
func (a *Adapter) Write(ctx context.Context, b []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.cfg.Faults.UnplugAfter; n > 0 && a.numOut >= n {
		a.unplug()
	}
	if a.isUnplugged {
		return 0, u2c.ErrUnplugged
	}
	a.numOut++
	a.out = append(a.out, b...)
	for rest := b; len(rest) > 0; {
		op := u2c.Opcode(rest[0])
		n, _ := op.NumArgs()
		rest = rest[1:]
		reply := []byte{byte(u2c.StatusFailed)} // arguments are missing
		if n <= len(rest) {
			reply = a.execute(op, rest[:n])
		}
		rest = rest[min(n, len(rest)):]
		a.numCommands++
		replies := [][]byte{reply}
		if f := a.cfg.Faults.Reply; f != nil {
			replies = f(a.numCommands, reply)
		}
		a.queue(replies)
	}
	return len(b), nil
}

// queue appends messages.
func (a *Adapter) queue(l [][]byte) {
	a.in = append(a.in, l...)
	select {
	case a.arrived <- struct{}{}:
	default:
	}
}

// Read implements u2c.Pipe.
func (a *Adapter) Read(ctx context.Context, b []byte) (int, error) {
	for {
		if n, ok, err := a.next(b); ok {
			return n, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-a.arrived:
		case <-a.unplugged:
		}
	}
}

// next takes a message. It returns false if there is none.
func (a *Adapter) next(b []byte) (int, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.isUnplugged:
		return 0, true, u2c.ErrUnplugged
	case len(a.in) == 0:
		return 0, false, nil
	}
	n := copy(b, a.in[0])
	a.in = a.in[1:]
	return n, true, nil
}

// execute returns the answer to a command.
func (a *Adapter) execute(op u2c.Opcode, args []byte) []byte {
	switch op {
	case u2c.OpFirmware:
		return []byte{1, 3, byte(u2c.StatusOK)}
	case u2c.OpSerial:
		return append(binary.LittleEndian.AppendUint32(nil, a.cfg.Serial), byte(u2c.StatusOK))
	case u2c.OpScan:
		return append(slices.Sorted(maps.Keys(a.cfg.Targets)), byte(u2c.StatusOK))
	case u2c.OpSetSpeed, u2c.OpSetClockSync, u2c.OpSetClockSyncTO, u2c.OpReleaseSDA:
		return []byte{byte(u2c.StatusOK)}
	case u2c.OpDropSCL:
		a.isSCLLow = true
		return []byte{byte(u2c.StatusOK)}
	case u2c.OpReleaseSCL:
		if a.isSCLLow {
			a.pulses++
		}
		a.isSCLLow = false
		return []byte{byte(u2c.StatusOK)}
	case u2c.OpReadSDA:
		level := byte(1)
		if a.isStuck() {
			level = 0
		}
		return []byte{level, byte(u2c.StatusOK)}
	case u2c.OpStart, u2c.OpRepeatedStart, u2c.OpStop, u2c.OpPutByteAck, u2c.OpGetByteAck:
		if a.isStuck() {
			return []byte{byte(u2c.StatusFailed)}
		}
		return a.signal(op, args)
	}
	return []byte{byte(u2c.StatusUnknownCommand)}
}

func (a *Adapter) isStuck() bool { return a.pulses < a.cfg.Faults.StuckPulses }

// signal executes a command on the I2C bus.
func (a *Adapter) signal(op u2c.Opcode, args []byte) []byte {
	status := u2c.StatusOK
	switch op {
	case u2c.OpStart, u2c.OpRepeatedStart:
		a.isStarted, a.target = true, nil
	case u2c.OpStop:
		a.isStarted, a.target = false, nil
	case u2c.OpPutByteAck:
		a.numBytes++
		if a.numBytes == a.cfg.Faults.NACKByte || !a.put(args[0]) {
			status = u2c.StatusNACK
		}
	case u2c.OpGetByteAck:
		if a.target == nil || !a.isReading {
			return []byte{0xff, byte(u2c.StatusOK)} // the data line is high
		}
		return []byte{a.target.Get(), byte(u2c.StatusOK)}
	}
	return []byte{byte(status)}
}

// put puts a byte on the bus, and reports whether it is acknowledged.
func (a *Adapter) put(b byte) bool {
	if !a.isStarted {
		return a.target != nil && !a.isReading && a.target.Put(b)
	}
	a.isStarted = false
	a.target, a.isReading = a.cfg.Targets[b>>1], b&1 != 0
	if a.target == nil {
		return false
	}
	a.target.Start(a.isReading)
	return true
}
