package fw

import (
	"context"
	"errors"
	"fmt"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// Close ends the operation of the adapter and releases all memory. Objects of the device must not be used afterwards.
// If the device has failed, or does not end its operation in order, Close resets it. Close waits until no function of a
// handler runs, so that a handler must not call it. It is idempotent.
func (d *Device) Close() error {
	d.closing.Do(func() { d.closed = d.close() })
	return d.closed
}

func (d *Device) close() error {
	d.isClosed.Store(true)
	ctx := context.Background()
	var errs []error
	inOrder := d.Err() == nil
	if inOrder && d.hasArea {
		if err := d.shutDown(ctx); err != nil {
			errs = append(errs, err)
			inOrder = false
		}
	}
	close(d.stop)
	if d.hasVectors {
		errs = append(errs, ignoreGone(d.f.EnableVectors(0, nil)))
	}
	d.running.Wait()
	d.events.close()
	if d.regs != nil && d.owns && !d.hasGone() {
		if !inOrder {
			d.stopHard()
		}
		d.release()
	}
	d.icm.close()
	errs = append(errs, d.mem.freeAll())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("fw: Close: %w", err)
	}
	return nil
}

// ignoreGone returns nil for the error of a function that has gone.
func ignoreGone(err error) error {
	if errors.Is(err, bus.ErrGone) {
		return nil
	}
	return err
}

// shutDown executes the commands that end the operation of the adapter.
func (d *Device) shutDown(ctx context.Context) error {
	if err := d.setEventMode(ctx, false); err != nil {
		return err
	}
	run := func(op prm.Opcode, a Args) error {
		_, err := d.exec(ctx, op, a)
		return err
	}
	if d.hasSpecial {
		if err := run(prm.CmdConfSpecialQP, Args{}); err != nil {
			return err
		}
	}
	if d.isInit {
		for n := range d.caps.NumPorts {
			if err := run(prm.CmdClosePort, Args{Modifier: uint32(n) + 1}); err != nil {
				return err
			}
		}
		for _, e := range d.eqs {
			if err := e.stop(ctx); err != nil {
				return err
			}
		}
		if err := run(prm.CmdCloseHCA, Args{}); err != nil {
			return err
		}
	}
	if err := d.icm.unmap(ctx); err != nil {
		return err
	}
	if d.hasAux {
		if err := run(prm.CmdUnmapICMAux, Args{}); err != nil {
			return err
		}
	}
	return run(prm.CmdUnmapFA, Args{})
}

// stopHard resets an adapter whose firmware does not end its operation, so that it uses no memory any more.
func (d *Device) stopHard() {
	d.write(prm.RegReset, prm.ResetValue)
	done := make(chan struct{})
	d.cfg.Clock.AfterFunc(d.cfg.ResetDelay, func() { close(done) })
	<-done
}
