package mlx4

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/clock"
)

// Delays before an adapter that has failed is started again. The first attempt comes at once. The delay doubles with
// each failure, from the least to the most, until the adapter has worked for some time.
const (
	minRecoveryDelay = time.Second
	maxRecoveryDelay = time.Minute
	stablePeriod     = 10 * time.Minute
)

// instance is an adapter of a bus.
type instance struct {
	f     bus.Function
	r     ci.Registrar
	cfg   Config
	clock clock.Clock

	removal  chan struct{} // closed by Remove
	watching sync.WaitGroup

	mu  sync.Mutex
	hca *HCA // nil while an adapter that has failed is not registered again
}

func newInstance(f bus.Function, r ci.Registrar, c Config) *instance {
	i := &instance{f: f, r: r, cfg: c, clock: c.Firmware.Clock, removal: make(chan struct{})}
	if i.clock == nil {
		i.clock = clock.Real()
	}
	return i
}

func (i *instance) current() *HCA {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hca
}

func (i *instance) set(h *HCA) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hca = h
}

// start initializes and registers the adapter.
func (i *instance) start(ctx context.Context) error {
	h, err := New(ctx, i.f, i.cfg)
	if err != nil {
		return err
	}
	if err := i.r.Register(h); err != nil {
		return errors.Join(fmt.Errorf("mlx4: registration of %v: %w", h.info.GUID, err), h.Close())
	}
	i.set(h)
	return nil
}

// end deregisters and closes an adapter that has failed, after its consumers have received EventLocalFatal. If the
// first fails, the adapter remains registered.
func (i *instance) end(h *HCA) error {
	h.flushEvents()
	if err := i.r.Deregister(h.info.GUID); err != nil && !errors.Is(err, ci.NotFound) {
		return fmt.Errorf("mlx4: deregistration of %v: %w", h.info.GUID, err)
	}
	i.set(nil)
	return h.Close()
}

// watch starts the adapter again whenever it has failed, until Remove.
func (i *instance) watch(ctx context.Context) {
	defer i.watching.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.watching.Go(func() { // ends an attempt
		select {
		case <-i.removal:
			cancel()
		case <-ctx.Done():
		}
	})
	for failures := 0; ; {
		h, since := i.current(), i.clock.Elapsed()
		select {
		case <-h.failed:
		case <-i.removal:
			return
		}
		cause := h.dev.Err()
		if errors.Is(cause, bus.ErrGone) {
			return // the bus removes the instance
		}
		if i.clock.Elapsed()-since > stablePeriod {
			failures = 0
		}
		for {
			if !i.pause(recoveryDelay(failures)) {
				return
			}
			failures++
			err := i.restart(ctx)
			if ctx.Err() != nil {
				return
			}
			if i.cfg.OnRecovery != nil {
				i.cfg.OnRecovery(i.f, cause, err)
			}
			if err == nil {
				break
			}
			if errors.Is(err, bus.ErrGone) {
				return
			}
		}
	}
}

// restart ends the adapter, unless that has been done, and starts it again.
func (i *instance) restart(ctx context.Context) error {
	if h := i.current(); h != nil {
		if err := i.end(h); err != nil && i.current() != nil {
			return err
		} // an error of Close is that of the failed adapter, which the next start resets
	}
	return i.start(ctx)
}

// recoveryDelay returns the delay after so many failures.
func recoveryDelay(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(minRecoveryDelay<<min(failures-1, 10), maxRecoveryDelay)
}

// pause waits. It reports false if the instance is to be removed.
func (i *instance) pause(d time.Duration) bool {
	done := make(chan struct{})
	timer := i.clock.AfterFunc(d, func() { close(done) })
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-i.removal:
		return false
	}
}

// Remove implements bus.Instance. The consumers receive EventResetForRemove, or EventLocalFatal if the function has
// gone. The removal waits until they have closed the CA. If the CA remains open, the function does, too, since its
// memory is in use.
func (i *instance) Remove(gone bool) error {
	close(i.removal)
	i.watching.Wait()
	h := i.current()
	if h == nil {
		return i.f.Close()
	}
	t := ci.EventResetForRemove
	if gone {
		h.dev.Fail(bus.ErrGone)
		t = ci.EventLocalFatal
	}
	h.notifyRemoval(ci.Event{Type: t})
	err, closed := i.r.Deregister(h.info.GUID), h.Close()
	if errors.Is(closed, ci.ResourceBusy) { // a consumer of its own: the function stays until it closes the CA
		h.Unplug()
		return errors.Join(err, closed)
	}
	return errors.Join(err, closed, i.f.Close())
}
