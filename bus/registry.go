package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Driver drives functions.
type Driver struct {
	Name string
	IDs  []ID
	// Probe starts a function and returns what drives it. The context ends the attempt. The driver owns the function
	// when Probe succeeds, and closes it in Remove.
	Probe func(ctx context.Context, f Function) (Instance, error)
}

// An Instance is a driver on one function.
type Instance interface {
	// Remove ends it: its consumers receive the events of a removal, everything is released, and the function is
	// closed. gone reports that the function has gone already, so that its registers cannot be reached. Remove may be
	// called under traffic.
	Remove(gone bool) error
}

// Bus brings functions and drivers together. The zero value is an empty bus. All methods may be called concurrently.
type Bus struct {
	// OnError, if not nil, is called for errors of a Remove that nobody waits for: that of a function that has gone.
	OnError func(Function, error)

	mu      sync.Mutex
	closed  bool
	drivers []Driver
	bound   []*bound
	wait    sync.WaitGroup
}

// bound is a function on the bus.
type bound struct {
	f        Function
	driver   string
	instance Instance // nil while it is probed, and without a driver
	stop     chan struct{}
	removed  chan struct{} // closed when its Remove has ended
	err      error         // of Remove, after removed
	removing bool
}

// Errors of Bus.
var (
	ErrNoDriver = errors.New("bus: no driver for the function")
	ErrClosed   = errors.New("bus: closed")
	ErrUnknown  = errors.New("bus: no such function on the bus")
)

// Register adds a driver, for functions that are added later. Errors: another driver has one of the IDs; no ID; no
// Probe.
func (b *Bus) Register(d Driver) error {
	if d.Probe == nil || len(d.IDs) == 0 {
		return fmt.Errorf("bus: driver %q needs Probe and at least one ID", d.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range d.IDs {
		if x := b.find(id); x != nil {
			return fmt.Errorf("bus: drivers %q and %q are both for %v", x.Name, d.Name, id)
		}
	}
	b.drivers = append(b.drivers, d)
	return nil
}

// find returns the driver for an ID, or nil. mu is held.
func (b *Bus) find(id ID) *Driver {
	for i := range b.drivers {
		if slices.Contains(b.drivers[i].IDs, id) {
			return &b.drivers[i]
		}
	}
	return nil
}

// Add puts a function on the bus, probes its driver, and returns the instance. When the function goes, the instance is
// removed. If Add fails, the function is closed. Errors: ErrNoDriver, ErrClosed, that of Probe.
func (b *Bus) Add(ctx context.Context, f Function) (Instance, error) {
	fail := func(err error) (Instance, error) {
		return nil, errors.Join(fmt.Errorf("%v %s: %w", f.ID(), f.Location(), err), f.Close())
	}
	x := &bound{f: f, stop: make(chan struct{}), removed: make(chan struct{})}
	b.mu.Lock()
	d := b.find(f.ID())
	switch {
	case b.closed:
		b.mu.Unlock()
		return fail(ErrClosed)
	case d == nil:
		b.mu.Unlock()
		return fail(ErrNoDriver)
	}
	x.driver = d.Name
	probe := d.Probe
	b.bound = append(b.bound, x)
	b.wait.Add(1) // until the probe has ended, and until the removal has ended
	b.mu.Unlock()

	instance, err := probe(ctx, f)
	b.mu.Lock()
	if err != nil || b.closed {
		b.drop(x)
		b.mu.Unlock()
		defer b.wait.Done()
		if err != nil {
			return fail(fmt.Errorf("driver %q: %w", x.driver, err))
		}
		return fail(errors.Join(ErrClosed, instance.Remove(false)))
	}
	x.instance = instance
	b.mu.Unlock()
	go b.watch(x)
	return instance, nil
}

// watch removes an instance when its function has gone.
func (b *Bus) watch(x *bound) {
	defer b.wait.Done()
	select {
	case <-x.f.Gone():
		if err := b.remove(x, true); err != nil && b.OnError != nil {
			b.OnError(x.f, err)
		}
	case <-x.stop:
	}
}

// remove removes an instance once; later calls wait for the first and return its error.
func (b *Bus) remove(x *bound, gone bool) error {
	b.mu.Lock()
	first := !x.removing
	x.removing = true
	b.mu.Unlock()
	if !first {
		<-x.removed
		return x.err
	}
	if !gone {
		close(x.stop)
	}
	x.err = x.instance.Remove(gone)
	b.mu.Lock()
	b.drop(x)
	b.mu.Unlock()
	close(x.removed)
	return x.err
}

// drop takes a function off the bus. mu is held.
func (b *Bus) drop(x *bound) {
	b.bound = slices.DeleteFunc(b.bound, func(y *bound) bool { return y == x })
}

// Remove removes the driver's instance from a function, which the driver closes. Errors: ErrUnknown, that of the
// instance.
func (b *Bus) Remove(f Function) error {
	b.mu.Lock()
	i := slices.IndexFunc(b.bound, func(x *bound) bool { return x.f == f && x.instance != nil })
	if i < 0 {
		b.mu.Unlock()
		return fmt.Errorf("%v %s: %w", f.ID(), f.Location(), ErrUnknown)
	}
	x := b.bound[i]
	b.mu.Unlock()
	return b.remove(x, false)
}

// Functions returns the functions that have a driver, in the order in which they were added.
func (b *Bus) Functions() []Function {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Function
	for _, x := range b.bound {
		if x.instance != nil {
			list = append(list, x.f)
		}
	}
	return list
}

// Close removes all instances, the newest first, and waits until their removal and that of functions that have gone is
// complete. It is idempotent.
func (b *Bus) Close() error {
	b.mu.Lock()
	b.closed = true
	list := slices.Clone(b.bound)
	b.mu.Unlock()
	var errs []error
	for _, x := range slices.Backward(list) {
		b.mu.Lock()
		probing := x.instance == nil
		b.mu.Unlock()
		if !probing {
			errs = append(errs, b.remove(x, false))
		}
	}
	b.wait.Wait()
	return errors.Join(errs...)
}
