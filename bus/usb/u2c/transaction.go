package u2c

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// maxAddress is the highest 7-bit I2C address.
const maxAddress = 0x7f

// maxTransaction limits the bytes of a transaction.
const maxTransaction = 4096

// Write writes bytes to the target at a 7-bit I2C address.
func (a *Adapter) Write(ctx context.Context, addr uint8, w []byte) error {
	return a.run(ctx, "Write", addr, w, nil)
}

// WriteRead writes w to the target at a 7-bit I2C address and, after a repeated start, reads len(r) bytes. Without w it
// only reads.
func (a *Adapter) WriteRead(ctx context.Context, addr uint8, w, r []byte) error {
	if len(r) == 0 {
		return errors.New("u2c.WriteRead: no bytes to read")
	}
	return a.run(ctx, "WriteRead", addr, w, r)
}

// run executes a transaction.
func (a *Adapter) run(ctx context.Context, verb string, addr uint8, w, r []byte) error {
	switch n := len(w) + len(r); {
	case addr > maxAddress:
		return fmt.Errorf("u2c.%s: I2C address %#x: at most %#x", verb, addr, maxAddress)
	case n == 0:
		return fmt.Errorf("u2c.%s: no bytes to write", verb)
	case n > maxTransaction:
		return fmt.Errorf("u2c.%s: %d bytes: at most %d", verb, n, maxTransaction)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.transact(ctx, a.commands(addr, w, r)); err != nil {
		return fmt.Errorf("u2c.%s: target 0x%02x: %w", verb, addr, err)
	}
	return nil
}

// commands returns the commands of a transaction, without its STOP.
func (a *Adapter) commands(addr uint8, w, r []byte) []command {
	l := make([]command, 0, len(w)+len(r)+4)
	if len(w) > 0 {
		l = append(l, command{op: OpStart}, put(addr<<1))
		for _, b := range w {
			l = append(l, put(b))
		}
	}
	if len(r) > 0 {
		start := OpStart
		if len(w) > 0 {
			start = OpRepeatedStart
		}
		l = append(l, command{op: start}, put(addr<<1|1))
		for i := range r {
			c := command{op: OpGetByteAck, reply: r[i : i+1], isLast: !a.cfg.BatchReads}
			if i < len(r)-1 {
				c.args[0] = 1 // the target goes on
			}
			l = append(l, c)
		}
	}
	return l
}

func put(b byte) command { return command{op: OpPutByteAck, args: [2]byte{b}} }

// transact executes commands and the STOP that follows them in any case. a.mu is held.
func (a *Adapter) transact(ctx context.Context, l []command) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	failed, err := a.exchange(ctx, l)
	if errors.Is(err, ErrNACK) && isAddress(l, failed) {
		err = ErrNoTarget
	}
	if e := a.stop(ctx); err == nil {
		return e
	}
	return err
}

// isAddress reports whether a command puts the address of a target on the bus.
func isAddress(l []command, i int) bool {
	return l[i].op == OpPutByteAck && i > 0 && (l[i-1].op == OpStart || l[i-1].op == OpRepeatedStart)
}

// ready drains the adapter if its messages do not match the commands.
func (a *Adapter) ready(ctx context.Context) error {
	if a.pipe == nil {
		return ErrClosed
	}
	if a.isOutOfOrder {
		return a.drain(ctx)
	}
	return nil
}

// stop ends the transaction on the I2C bus, also if the caller's context has ended.
func (a *Adapter) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := a.ready(ctx); err != nil {
		return err
	}
	_, err := a.exchange(ctx, []command{{op: OpStop}})
	return err
}

// Scan returns the I2C addresses that targets acknowledge, in order.
func (a *Adapter) Scan(ctx context.Context) ([]uint8, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ready(ctx); err != nil {
		return nil, fmt.Errorf("u2c.Scan: %w", err)
	}
	var l []uint8
	c := command{op: OpScan, take: func(b []byte) { l = slices.Clone(b) }}
	if _, err := a.exchange(ctx, []command{c}); err != nil {
		return nil, fmt.Errorf("u2c.Scan: %w", err)
	}
	slices.Sort(l)
	return l, nil
}

// maxPulses is the number of clock pulses after which every target has released the data line.
const maxPulses = 9

// Recover releases an I2C bus whose data line a target holds low, as after an interrupted read: it pulses the clock and
// sends STOP. It returns ErrBus if the line stays low.
func (a *Adapter) Recover(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.recoverBus(ctx); err != nil {
		return fmt.Errorf("u2c.Recover: %w", err)
	}
	return nil
}

func (a *Adapter) recoverBus(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	var level [1]byte
	sample := command{op: OpReadSDA, reply: level[:], isLast: true}
	if _, err := a.exchange(ctx, []command{{op: OpReleaseSDA}, {op: OpReleaseSCL}, sample}); err != nil {
		return err
	}
	for range maxPulses {
		if level[0] != 0 {
			break
		}
		if _, err := a.exchange(ctx, []command{{op: OpDropSCL}, {op: OpReleaseSCL}, sample}); err != nil {
			return err
		}
	}
	if level[0] == 0 {
		return ErrBus
	}
	return a.stop(ctx)
}
