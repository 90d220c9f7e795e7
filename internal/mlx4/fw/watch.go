package fw

import (
	"context"
	"fmt"
	"time"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// every calls f in intervals until the device stops.
func (d *Device) every(interval time.Duration, f func()) {
	tick := make(chan struct{}, 1)
	timer := d.cfg.Clock.AfterFunc(interval, func() { tick <- struct{}{} })
	defer timer.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-tick:
		}
		f()
		timer.Reset(interval)
	}
}

// pollEvents is the goroutine that polls the event queues.
func (d *Device) pollEvents() {
	d.every(d.cfg.PollInterval, func() {
		for _, e := range d.eqs {
			e.service()
		}
	})
}

// watchGone is the goroutine that waits for the function to go.
func (d *Device) watchGone() {
	select {
	case <-d.stop:
	case <-d.f.Gone():
		d.Fail(bus.ErrGone)
	}
}

// watch is the goroutine that looks for errors, for lost interrupts, and for one EQ after the other that has lost
// events.
func (d *Device) watch() {
	next := 0
	d.every(d.cfg.WatchInterval, func() {
		d.checkHealth()
		if d.Err() != nil {
			return
		}
		for _, e := range d.eqs {
			e.recover()
		}
		d.checkOverrun(context.Background(), d.eqs[next%len(d.eqs)])
		next++
	})
}

// checkOverrun restarts an EQ that has lost events, and reports the loss to the handlers. The adapter cannot report it
// for the asynchronous EQ.
func (d *Device) checkOverrun(ctx context.Context, e *eq) {
	lost, err := e.hasOverrun(ctx)
	if err != nil || !lost {
		return // a device that does not execute commands fails elsewhere
	}
	if err := d.restart(ctx, e); err != nil {
		d.Fail(fmt.Errorf("EQ %d has lost events, and does not start again: %w", e.num, err))
		return
	}
	d.events.overruns.Add(1)
	d.events.put(queued{event: Event{Type: prm.EventEQOverflow}})
	d.wakeCompletions()
}

// restart takes an EQ back and passes it to the adapter again. Commands are polled meanwhile.
func (d *Device) restart(ctx context.Context, e *eq) error {
	if err := d.setEventMode(ctx, false); err != nil {
		return err
	}
	for !e.state.CompareAndSwap(eqIdle, eqBusy) {
		if err := d.sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	e.drain()
	events := e.events
	err := e.stop(ctx)
	if err == nil {
		err = e.start(ctx)
	}
	if err == nil && events != 0 {
		err = e.mapEvents(ctx, events)
	}
	e.state.Store(eqIdle)
	if err != nil {
		return err
	}
	e.service()
	return d.setEventMode(ctx, !d.arePolled.Load())
}
