package fw

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// allOnes is what a register of a function that has gone reads as.
const allOnes = 1<<32 - 1

// read reads a big-endian register.
func (d *Device) read(off uint64) uint32 { return bits.ReverseBytes32(d.regs.Read32(off)) }

// write writes a big-endian register.
func (d *Device) write(off uint64, v uint32) { d.regs.Write32(off, bits.ReverseBytes32(v)) }

// hasGone reports whether the function has gone: its configuration space reads as ones, or its back end says so.
func (d *Device) hasGone() bool {
	select {
	case <-d.f.Gone():
		return true
	default:
		return d.f.Config().Read16(bus.ConfigVendorID) == 0xffff
	}
}

// sleep waits. Errors: that of the context, ErrFailed.
func (d *Device) sleep(ctx context.Context, t time.Duration) error {
	done := make(chan struct{})
	timer := d.cfg.Clock.AfterFunc(t, func() { close(done) })
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.failed:
		return d.Err()
	}
}

// poll calls ready in growing intervals until it returns true or the time is over, which it reports.
func (d *Device) poll(ctx context.Context, limit time.Duration, ready func() bool) (bool, error) {
	const quick = 16
	end := d.cfg.Clock.Elapsed() + limit
	wait := 10 * time.Microsecond
	for i := 0; ; i++ {
		if ready() {
			return true, nil
		}
		if d.cfg.Clock.Elapsed() >= end {
			return false, nil
		}
		if i < quick {
			continue
		}
		if err := d.sleep(ctx, wait); err != nil {
			return false, err
		}
		wait = min(2*wait, time.Millisecond)
	}
}

// Time limits of a reset (Linux reset.c).
const (
	semaphoreTime = 10 * time.Second
	returnTime    = 2 * time.Second
	savedConfig   = 256
)

// acquire takes the ownership of the adapter.
func (d *Device) acquire() error {
	switch v := d.read(prm.RegOwnership); {
	case v == prm.OwnershipFree:
		d.owns = true
		return nil
	case v == allOnes && d.hasGone():
		return bus.ErrGone
	default:
		return fmt.Errorf("%w: %s: register %#x", ErrOwned, d.f.Location(), v)
	}
}

// release releases the ownership.
func (d *Device) release() {
	if d.owns {
		d.write(prm.RegOwnership, prm.OwnershipFree)
		d.owns = false
	}
}

// reset resets the adapter by its registers, and restores the configuration space.
func (d *Device) reset(ctx context.Context) error {
	ok, err := d.poll(ctx, semaphoreTime, func() bool {
		v := d.read(prm.RegSemaphore)
		return v == prm.SemaphoreFree || d.isGoneValue(v)
	})
	if err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("fw: %s: the hardware semaphore is not free after %v", d.f.Location(), semaphoreTime)
	}
	saved := d.saveConfig()
	d.write(prm.RegReset, prm.ResetValue)
	if err := d.sleep(ctx, d.cfg.ResetDelay); err != nil {
		return err
	}
	config := d.f.Config()
	ok, err = d.poll(ctx, returnTime, func() bool { return config.Read16(bus.ConfigVendorID) != 0xffff })
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("fw: %s: the function has not come back %v after a reset: %w", d.f.Location(), returnTime,
			bus.ErrGone)
	}
	d.restoreConfig(saved)
	d.read(prm.RegOwnership) // takes it again if the reset has ended it
	d.commands.toggle = 1
	return nil
}

// saveConfig returns the first dwords of the configuration space.
func (d *Device) saveConfig() (b [savedConfig / 4]uint32) {
	for i := range b {
		b[i] = d.f.Config().Read32(uint64(4 * i))
	}
	return b
}

// restoreConfig writes device and link control of PCI Express, then the header, the command register last. It enables
// memory and bus mastering.
func (d *Device) restoreConfig(saved [savedConfig / 4]uint32) {
	const (
		header        = 16
		linkControl   = 0x10
		memoryEnabled = 1 << 1
		busMaster     = 1 << 2
	)
	config := d.f.Config()
	for _, c := range bus.Capabilities(config) {
		if c.ID != bus.CapExpress {
			continue
		}
		for _, off := range []uint64{bus.ExpressDeviceControl, linkControl} {
			if at := c.At + off; at+4 <= savedConfig {
				config.Write16(at, uint16(saved[at/4]))
			}
		}
	}
	command := uint64(bus.ConfigCommand) / 4
	for i := range uint64(header) {
		if i != command {
			config.Write32(4*i, saved[i])
		}
	}
	config.Write16(bus.ConfigCommand, uint16(saved[command])|memoryEnabled|busMaster)
}
