package rvt

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/clock"
)

// device is the part of an HCA that its ports and objects share: configuration, attributes, time, randomness, counters,
// limits and tables. Every object has a pointer to it. It calls nothing above itself but overrun.
type device struct {
	cfg     Config
	clock   clock.Clock
	rand    *source
	attr    ci.CAAttr // without ports
	ports   []*port   // ports[i] is port i+1
	count   counters
	wheel   clock.Wheel
	keys    keyTable
	qps     qpIndex
	groups  mcastTable
	limit   [numKinds]atomic.Int64
	queues  budget          // Config.QueueMemory
	inboxes budget          // Config.InboxMemory
	vectors []driver.Vector // completion vectors; vectors[i] is vector i+1

	sysGUID   atomic.Uint64
	sysGUIDMu sync.Mutex // held while sysGUID changes

	suspects suspects
	overrun  func(*CQ) // takes the QPs that use a CQ to Error, after completions were lost
}

// init sets what cfg determines, with its defaults, except for ports and QPs.
func (d *device) init(cfg Config) {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real()
	}
	if cfg.Rand == nil {
		cfg.Rand = bufio.NewReaderSize(rand.Reader, 512)
	}
	cfg.CNPInterval = cmp.Or(cfg.CNPInterval, DefaultCNPInterval)
	cfg.Info.Version = ci.InterfaceVersion
	d.cfg, d.clock = cfg, cfg.Clock
	d.rand, d.attr = &source{r: cfg.Rand}, limits(cfg)
	d.keys.rand, d.keys.choose, d.keys.miss = d.rand, cfg.Ops.Key, cfg.Ops.KeyMiss
	d.sysGUID.Store(uint64(d.attr.SystemGUID))
	d.vectors = make([]driver.Vector, d.attr.Vectors)
	d.wheel.Init(cfg.Clock)
	d.queues.limit, d.inboxes.limit = cfg.QueueMemory, cfg.InboxMemory
	if d.queues.limit == 0 {
		d.queues.limit = DefaultQueueMemory
	}
	if d.inboxes.limit == 0 {
		d.inboxes.limit = DefaultInboxMemory
	}
	d.suspects.report = cfg.Ops.Suspect
}

// port returns port n, counted from 1, or nil.
func (d *device) port(n uint8) *port {
	if n == 0 || int(n) > len(d.ports) {
		return nil
	}
	return d.ports[n-1]
}

// noPort returns the error of a verb for a port number that does not exist.
func (d *device) noPort(verb string, n uint8) error {
	return outside(verb, ci.InvalidPort, "port", int(n), 1, len(d.ports))
}

// drive receives on the ports once, without blocking, and gives a turn to a QP of each port's run queue. It reports
// whether there was anything to do. A Poll of an empty CQ calls it.
func (d *device) drive() bool {
	n := 0
	for _, p := range d.ports {
		if p.driver != nil {
			n += p.driver.Drive()
		}
		if p.turns.waiting.Load() > 0 && p.turns.one(true) {
			n++
		}
	}
	return n > 0
}

// tend passes on that a goroutine calls drive again and again (by 1), or no longer (by -1).
func (d *device) tend(by int) {
	for _, p := range d.ports {
		p.turns.tend(by)
	}
}

// attend makes the ports receive by themselves, for a consumer that waits for an event.
func (d *device) attend() {
	for _, p := range d.ports {
		if p.driver != nil {
			p.driver.Attend()
		}
	}
}

func (d *device) systemGUID() ci.GUID { return ci.GUID(d.sysGUID.Load()) }
