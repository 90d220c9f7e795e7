package udp

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
)

// lookEvery is the interval at which the addresses of an interface are read if the system does not report changes, or
// after an address could not be used.
const lookEvery = time.Second

// follower keeps the GID table of a port equal to the addresses of an interface. Its goroutine sleeps until the source
// reports a change.
type follower struct {
	name     string
	source   AddressSource
	set      func([]netip.Addr) error
	open     func(f func() error) error // Port.open
	failures atomic.Uint64              // reads that failed, or returned an address that cannot be used

	mu      sync.Mutex
	started bool
	stopped bool
	unwatch func() // nil: the source does not report changes
	timer   clock.Timer
	wake    chan struct{} // has capacity 1
	quit    chan struct{}
	done    chan struct{}
}

// setUpInterface opens the sockets of the addresses that the interface has now.
func (p *Port) setUpInterface(c *Config) error {
	source := c.Addresses
	if source == nil {
		source = SystemAddresses()
	}
	list, err := source.Addresses(c.Interface)
	if err != nil {
		return fmt.Errorf("udp: Config.Interface: %w", err)
	}
	on := c.namedInterface()
	if p.table.MTU, err = c.mtuOn(on); err != nil {
		return err
	}
	// An IPv6 address that is new cannot be bound yet. The follower adds it when the system has found it unique.
	if err := p.table.Set(list); err != nil && !errors.Is(err, errAddrNotAvail) {
		return err
	}
	p.guid = interfaceGUID(c.Interface, on.hardware, p.table.UDP)
	p.follow = &follower{name: c.Interface, source: source, set: p.table.Set, open: p.open,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	return nil
}

// namedInterface returns Config.Interface, or only its name if this machine has no such interface.
func (c *Config) namedInterface() iface {
	i, err := interfaceNamed(c.Interface)
	if err != nil {
		return iface{name: c.Interface}
	}
	return ifaceOf(i)
}

// interfaceGUID returns a locally administered EUI-64 for an interface and a UDP port: the same as long as the
// interface's hardware address, or its name if it has none, is the same.
func interfaceGUID(name, hardware string, port uint16) ci.GUID {
	h := fnv.New64a()
	if hardware == "" {
		hardware = name
	}
	h.Write([]byte(hardware))
	h.Write([]byte{byte(port >> 8), byte(port)})
	return ci.GUID(h.Sum64()&^(3<<56) | 2<<56)
}

// start begins to follow the addresses.
func (f *follower) start(c clock.Clock) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.stopped {
		return fmt.Errorf("udp: %w", rvt.ErrPortStarted)
	}
	err := f.open(func() (err error) {
		f.unwatch, err = f.source.Watch(f.changed)
		return err
	})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("udp: watching the addresses of interface %s: %w", f.name, err)
	}
	f.started = true
	f.timer = c.AfterFunc(lookEvery, f.changed)
	f.timer.Stop()
	f.changed() // changes since New
	go f.run()
	return nil
}

// changed makes the goroutine read the addresses.
func (f *follower) changed() {
	select {
	case f.wake <- struct{}{}:
	default: // it has been woken already
	}
}

func (f *follower) run() {
	defer close(f.done)
	for {
		select {
		case <-f.quit:
			return
		case <-f.wake:
		}
		err := f.open(f.look)
		if err != nil {
			f.failures.Add(1)
		}
		if err != nil || f.unwatch == nil {
			f.timer.Reset(lookEvery)
		}
	}
}

// look updates the GID table to the present addresses. An interface that does not exist any more has none.
func (f *follower) look() error {
	list, err := f.source.Addresses(f.name)
	if err != nil && !errors.Is(err, ErrNoInterface) {
		return err
	}
	return f.set(list)
}

// stop ends the goroutine. It is idempotent.
func (f *follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.stopped = true
	if !f.started {
		return
	}
	if f.unwatch != nil {
		f.unwatch()
	}
	close(f.quit)
	<-f.done
	f.timer.Stop()
}
