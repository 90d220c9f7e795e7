// Package local connects a driver with a model of a device in the same process.
//
//	f := local.New(model, "model 0")
//	instance, err := theBus.Add(ctx, f)
//	…
//	f.Unplug() // the driver sees a function that has gone
package local

import (
	"os"
	"sync"
	"sync/atomic"

	"ciddk/bus"
)

// Function is the function of a model. It implements bus.Function, and is the model's bus.Host.
type Function struct {
	dev      bus.Device
	location string
	memory   *bus.Map
	config   bus.Space
	bars     bus.Spaces
	gone     chan struct{}

	// attached guards the device: accesses hold it for reading, and Unplug and Close wait for them.
	attached sync.RWMutex
	hasGone  bool

	vectors atomic.Pointer[vectors] // nil: disabled

	mu       sync.Mutex // of changes
	closed   bool
	nextIOVA uint64
	mapped   map[uint64]*bus.DMA
}

var (
	_ bus.Function = (*Function)(nil)
	_ bus.Host     = (*Function)(nil)
)

// firstIOVA is the device's address of the first memory. It is not 0, and exceeds 32 bits, so that a model that
// truncates addresses fails.
const firstIOVA = 1 << 33

// New attaches a device and returns its function.
func New(d bus.Device, location string) *Function {
	f := &Function{dev: d, location: location, memory: bus.NewMap(), gone: make(chan struct{}), nextIOVA: firstIOVA,
		mapped: map[uint64]*bus.DMA{}}
	f.config = bus.NewSpace(bus.ConfigSize, configAccess{f})
	for i, b := range d.BARs() {
		if b.Size != 0 {
			f.bars[i] = bus.NewSpace(b.Size, barAccess{f, i})
		}
	}
	d.Attach(f)
	return f
}

// ID returns vendor and device ID.
func (f *Function) ID() bus.ID { return f.dev.Config().ID() }

// Location returns the text that New was given.
func (f *Function) Location() string { return f.location }

// Config returns the configuration space.
func (f *Function) Config() bus.Space { return f.config }

// BAR returns a base address register.
func (f *Function) BAR(n int) (bus.Space, error) { return f.bars.BAR(n) }

// Gone is closed by Unplug.
func (f *Function) Gone() <-chan struct{} { return f.gone }

// NumVectors returns the number of interrupt vectors.
func (f *Function) NumVectors() int { return f.dev.NumVectors() }

// Memory returns the memory that the device can reach.
func (f *Function) Memory() *bus.Map { return f.memory }

// access calls fn unless the function has gone.
func (f *Function) access(fn func()) error {
	f.attached.RLock()
	defer f.attached.RUnlock()
	if f.hasGone {
		return bus.ErrGone
	}
	fn()
	return nil
}

// configAccess and barAccess are the spaces' accesses.
type configAccess struct{ f *Function }

func (a configAccess) Load(off uint64, size int) (v uint64, err error) {
	a.f.attached.RLock()
	defer a.f.attached.RUnlock()
	if a.f.hasGone {
		return 0, bus.ErrGone
	}
	var b [8]byte
	a.f.dev.Config().Read(off, b[:size])
	return bus.Number(b[:size]), nil
}

func (a configAccess) Store(off uint64, size int, v uint64) error {
	a.f.attached.RLock()
	defer a.f.attached.RUnlock()
	if a.f.hasGone {
		return bus.ErrGone
	}
	var b [8]byte
	bus.PutNumber(b[:size], v)
	bus.WriteConfig(a.f.dev, off, b[:size])
	return nil
}

type barAccess struct {
	f *Function
	n int
}

func (a barAccess) Load(off uint64, size int) (uint64, error) {
	a.f.attached.RLock()
	defer a.f.attached.RUnlock()
	if a.f.hasGone {
		return 0, bus.ErrGone
	}
	return a.f.dev.ReadBAR(a.n, off, size), nil
}

func (a barAccess) Store(off uint64, size int, v uint64) error {
	a.f.attached.RLock()
	defer a.f.attached.RUnlock()
	if a.f.hasGone {
		return bus.ErrGone
	}
	a.f.dev.WriteBAR(a.n, off, size, v)
	return nil
}

// AllocDMA allocates memory that the device can reach.
func (f *Function) AllocDMA(size int) (*bus.DMA, error) {
	size, err := bus.DMASize(size)
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	// One page more, since the beginning is rounded up to a page.
	b := make([]byte, size+page)
	return f.MapDMA(bus.Memory{Bytes: aligned(b, page)[:size:size]})
}

// MapDMA makes memory of the process reachable for the device, also remote memory.
func (f *Function) MapDMA(m bus.Memory) (*bus.DMA, error) {
	offset, size, err := m.Pages()
	if err != nil {
		return nil, err
	}
	n := m.Len()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, bus.ErrClosed
	}
	iova := f.nextIOVA + offset
	if err := f.memory.AddMemory(iova, m); err != nil {
		return nil, err
	}
	f.nextIOVA += size + uint64(os.Getpagesize()) // an access beyond the end fails
	d := bus.NewDMA(m, iova, func() error { return f.unmap(iova, n) })
	f.mapped[iova] = d
	return d, nil
}

func (f *Function) unmap(iova, n uint64) error {
	f.mu.Lock()
	_, ok := f.mapped[iova]
	delete(f.mapped, iova)
	f.mu.Unlock()
	if !ok {
		return nil // Close did it
	}
	_, err := f.memory.Remove(iova, n)
	return err
}

// Reset resets the device.
func (f *Function) Reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return bus.ErrClosed
	}
	f.disable()
	return f.access(func() {
		f.dev.Reset()
		f.dev.Config().Reset()
	})
}

// Unplug removes the device from its slot, as the hand of an operator does: the driver sees ones, and Gone is closed.
// It waits for accesses in progress. It is idempotent.
func (f *Function) Unplug() {
	f.attached.Lock()
	first := !f.hasGone
	f.hasGone = true
	f.attached.Unlock()
	if first {
		f.dev.Detach()
		close(f.gone)
	}
}

// Close releases the function. The device is reset and detached.
func (f *Function) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	f.disable()
	f.attached.Lock()
	first := !f.hasGone
	f.hasGone = true
	f.attached.Unlock()
	if first {
		f.dev.Reset()
		f.dev.Detach()
	}
	f.memory.Clear()
	clear(f.mapped)
	return nil
}

// vectors are interrupt vectors that are enabled, with one goroutine each.
type vectors struct {
	fn   func(int)
	ring []chan struct{}
	stop chan struct{}
	wait sync.WaitGroup
}

// EnableVectors enables interrupt vectors.
func (f *Function) EnableVectors(n int, fn func(vector int)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return bus.ErrClosed
	}
	if err := bus.CheckVectors(n, f.dev.NumVectors(), fn); err != nil {
		return err
	}
	f.disable()
	if n == 0 {
		return nil
	}
	v := &vectors{fn: fn, stop: make(chan struct{}), ring: make([]chan struct{}, n)}
	for i := range v.ring {
		v.ring[i] = make(chan struct{}, 1)
		v.wait.Go(func() { v.serve(i) })
	}
	f.vectors.Store(v)
	return nil
}

// disable disables the vectors, and waits until no function of theirs runs. mu is held.
func (f *Function) disable() {
	if v := f.vectors.Swap(nil); v != nil {
		close(v.stop)
		v.wait.Wait()
	}
}

func (v *vectors) serve(i int) {
	for {
		select {
		case <-v.stop:
			return
		case <-v.ring[i]:
			v.fn(i)
		}
	}
}

// Interrupt raises an interrupt vector. Without an enabled vector it is lost.
func (f *Function) Interrupt(vector int) {
	v := f.vectors.Load()
	if v == nil || vector < 0 || vector >= len(v.ring) {
		return
	}
	select {
	case v.ring[vector] <- struct{}{}:
	default: // it is pending
	}
}
