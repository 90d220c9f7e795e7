package fw

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// A Device is an adapter that Open has initialized.
type Device struct {
	f          bus.Function
	cfg        Config
	regs, uars bus.Space
	mem        *memory
	records    records
	commands   commands
	events     events
	icm        icm

	firmware Firmware
	caps     Caps
	ports    []PortCaps
	reserved reserved
	logEQs   uint8
	eqs      []*eq // asynchronous, commands, completions
	errors   errorBuffer

	eqeStride                     int
	qps, cqs, srqs, mpts, pds     *indexes
	pages, mcgs                   *indexes
	mtts                          *buddy
	isPolling, isClosed           atomic.Bool
	interruptsTested              atomic.Bool
	interrupts, lostInterrupts    atomic.Uint64
	owns, hasArea, hasAux, isInit bool
	hasSpecial, hasVectors        bool
	arePolled                     atomic.Bool // commands, as chosen by Config or SetPolledCommands

	failed   chan struct{}
	failOnce sync.Once
	cause    atomic.Pointer[error]

	stop    chan struct{} // ends the goroutines
	running sync.WaitGroup
	closing sync.Once
	closed  error
}

// errorBuffer is where the adapter describes a catastrophic error.
type errorBuffer struct {
	off  uint64
	size uint32
}

var errCatastrophic = errors.New("the adapter reports a catastrophic error")

// Failed is closed when the device has failed: a catastrophic error, a command without a completion, or a function that
// has gone. Err returns the cause.
func (d *Device) Failed() <-chan struct{} { return d.failed }

// Err returns why the device has failed, or nil. It wraps ErrFailed.
func (d *Device) Err() error {
	if p := d.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// Fail declares that the device has failed, for a driver that has found an inconsistency. All commands end. The first
// cause counts.
func (d *Device) Fail(cause error) {
	d.failOnce.Do(func() {
		err := fmt.Errorf("%w: %s: %w", ErrFailed, d.f.Location(), cause)
		d.cause.Store(&err)
		close(d.failed)
		d.events.put(queued{event: Event{Type: prm.EventLocalCatas}})
	})
}

// checkHealth looks for a catastrophic error, for a function that has gone, and for an adapter that has reset itself.
// A reset ends the ownership, and the read takes it again, so that another driver cannot have it before Close.
func (d *Device) checkHealth() {
	if d.read(prm.RegOwnership) == prm.OwnershipFree {
		d.Fail(errReset)
		return
	}
	if d.errors.size == 0 {
		if d.hasGone() {
			d.Fail(bus.ErrGone)
		}
		return
	}
	v := d.read(d.errors.off)
	if v == 0 || d.isGoneValue(v) {
		return
	}
	words := make([]uint32, min(d.errors.size/4, 16))
	for i := range words {
		words[i] = d.read(d.errors.off + 4*uint64(i))
	}
	d.Fail(fmt.Errorf("%w: %#x", errCatastrophic, words))
}

// Function returns the function of the device.
func (d *Device) Function() bus.Function { return d.f }

// Caps returns the capabilities of the adapter, which must not be changed.
func (d *Device) Caps() *Caps { return &d.caps }

// Firmware returns the identity of firmware and board.
func (d *Device) Firmware() Firmware { return d.firmware }

// IsPolling reports whether event queues are polled, by configuration or because interrupts do not arrive.
func (d *Device) IsPolling() bool { return d.isPolling.Load() }

// Stats counts what a device has seen.
type Stats struct {
	Commands        uint64
	LateCompletions uint64 // of commands that had been given up
	Events          uint64
	BadEvents       uint64 // invalid ones, or of unknown objects
	Overruns        uint64 // times that events were lost
	Interrupts      uint64
	LostInterrupts  uint64 // entries of event queues that were found without an interrupt
}

// Stats returns the counters.
func (d *Device) Stats() Stats {
	v, c := &d.events, &d.commands
	return Stats{Commands: c.executed.Load(), LateCompletions: c.late.Load(), Events: v.count.Load(),
		BadEvents: v.bad.Load(), Overruns: v.overruns.Load(), Interrupts: d.interrupts.Load(),
		LostInterrupts: d.lostInterrupts.Load()}
}

// Positions in Device.eqs.
const (
	asyncEQ = iota
	commandEQ
	firstCompletionEQ
	minEQs
)

func (d *Device) commandEQ() *eq { return d.eqs[commandEQ] }

// NumCompletionEQs returns the number of event queues for completions.
func (d *Device) NumCompletionEQs() int { return len(d.eqs) - firstCompletionEQ }

// CompletionEQ returns the number of an event queue for CQ contexts. i counts from 0, and wraps around at
// NumCompletionEQs.
func (d *Device) CompletionEQ(i int) uint8 {
	n := uint(i) % uint(d.NumCompletionEQs())
	return uint8(d.eqs[firstCompletionEQ+int(n)].num)
}
