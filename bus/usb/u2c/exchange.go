package u2c

import (
	"context"
	"errors"
	"fmt"
)

// A command is a command for the adapter, and the place for its answer.
type command struct {
	op     Opcode
	args   [2]byte
	reply  []byte       // of the length of the payload
	take   func([]byte) // takes a payload of any length
	isLast bool         // of an OUT transfer
}

// exchange sends commands and reads their answers. It returns the index of the first command that failed. After a
// failure that the adapter reports, the commands of the same OUT transfer are executed, and no more. a.mu is held, or
// the adapter is being opened.
func (a *Adapter) exchange(ctx context.Context, l []command) (failed int, err error) {
	var out []byte
	first := 0
	for i, c := range l {
		n := formats[c.op].args
		out = append(append(out, byte(c.op)), c.args[:n]...)
		isFull := i+1 < len(l) && len(out)+1+formats[l[i+1].op].args > maxOut
		if !c.isLast && !isFull && i+1 < len(l) {
			continue
		}
		if failed, err := a.transfer(ctx, out, l[first:i+1]); err != nil {
			return first + failed, err
		}
		out, first = out[:0], i+1
	}
	return 0, nil
}

// transfer sends one OUT transfer and reads one IN message for each of its commands.
func (a *Adapter) transfer(ctx context.Context, out []byte, l []command) (failed int, err error) {
	n, err := a.write(ctx, out)
	switch {
	case err != nil:
		a.isOutOfOrder = true
		return 0, fmt.Errorf("%v: %w", l[0].op, err)
	case n != len(out):
		a.isOutOfOrder = true
		return 0, fmt.Errorf("%v: %w: %d of %d bytes sent", l[0].op, ErrReply, n, len(out))
	}
	for i, c := range l {
		msg, e := a.read(ctx)
		if e != nil {
			a.isOutOfOrder = true
			return i, errors.Join(err, fmt.Errorf("%v: %w", c.op, e))
		}
		payload, e := parseReply(c.op, msg)
		switch {
		case e == nil:
			copy(c.reply, payload)
			if c.take != nil {
				c.take(payload)
			}
		case isFailure(e):
			if err == nil {
				failed, err = i, e
			}
		default:
			a.isOutOfOrder = true
			return i, errors.Join(err, e)
		}
	}
	return failed, err
}

// drain reads the answers that nobody has read.
func (a *Adapter) drain(ctx context.Context) error {
	for range maxStale + 1 {
		switch _, err := a.read(ctx); {
		case errors.Is(err, ErrTimeout):
			a.isOutOfOrder = false
			return nil
		case err != nil:
			return err
		}
	}
	return fmt.Errorf("%w: more than %d messages without a command", ErrReply, maxStale)
}

// write sends one OUT transfer in time.
func (a *Adapter) write(ctx context.Context, b []byte) (int, error) {
	limited, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	n, err := a.pipe.Write(limited, b)
	return n, timeout(ctx, err)
}

// read receives one IN message in time. It is valid until the next read.
func (a *Adapter) read(ctx context.Context) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	n, err := a.pipe.Read(limited, a.in[:])
	if err != nil {
		return nil, timeout(ctx, err)
	}
	if n < 0 || n > len(a.in) {
		return nil, fmt.Errorf("%w: %d bytes", ErrReply, n)
	}
	return a.in[:n], nil
}

// timeout replaces the error of a message's time limit by ErrTimeout, unless the caller's context has ended, too.
func timeout(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer in %v", ErrTimeout, messageTimeout)
	}
	return err
}
