package soft

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/templates/rchca"
)

// A Fabric connects devices.
type Fabric struct {
	mu     sync.Mutex // guards everything on the fabric
	devs   map[ci.GID]*Device
	bounce []byte // of copyAll
}

// A Device is one adapter. It implements rchca.Device.
type Device struct {
	fab  *Fabric
	info rchca.Info
	h    rchca.Handler
	mrs  map[ci.Key]*rchca.Region
	cqs  map[rchca.CQN]*cq
	qps  map[ci.QPN]*qp
	last uint32 // last number of a CQ or QP

	srqs     map[rchca.SRQN]*srq // srq.go
	lastSRQ  rchca.SRQN          // srq.go
	windows  map[ci.Key]*window  // mw.go
	counters counters            // sma.go

	irqs   []func() // raised and not served
	wake   chan struct{}
	quit   chan struct{}
	done   chan struct{}
	closed bool
}

type cq struct {
	size  int
	e     []rchca.CQE
	armed bool
	all   bool // armed for any entry, not only for solicited ones
	lost  bool // an entry did not fit

	add func(*rchca.CQE) bool // takes the entries, if it is not nil
}

// New adds a device to the fabric.
func (f *Fabric) New(guid ci.GUID) *Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devs == nil {
		f.devs = make(map[ci.GID]*Device)
	}
	gid := ci.GID{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint64(gid[8:], uint64(guid))
	d := &Device{fab: f, mrs: make(map[ci.Key]*rchca.Region), cqs: make(map[rchca.CQN]*cq),
		qps: make(map[ci.QPN]*qp), last: 16,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	d.info = rchca.Info{GUID: guid, VendorID: 0xffffff, DeviceID: 1, MaxPDs: 1000, MaxCQs: 1000, MaxCQEs: 1 << 16,
		MaxQPs: 1000, MaxWRs: 4096,
		MaxAVs:  1000, // ud.go
		MaxSRQs: 1000, // srq.go
		MaxMWs:  1000, // mw.go
		MaxSGEs: 8, MaxInline: 128, MaxMRs: 1000, MaxReads: 16, PageSize: 4096,
		Port: ci.PortAttr{GUID: guid, Link: ci.LinkEthernet, State: ci.PortActive, PhysState: 5, MTU: ci.MTU4096,
			MaxMTU: ci.MTU4096, MaxMsgSize: 1 << 31, HardwareAgents: true,
			MaxVLs: 1, WidthActive: 2, SpeedActive: 4, GIDs: []ci.GIDEntry{{GID: gid, Type: ci.GIDRoCEv2}},
			PKeys: []ci.PKey{0xffff}}}
	d.infiniband() // sma.go
	f.devs[gid] = d
	return d
}

// find returns the device at an address, or nil.
func (d *Device) find(av *ci.AVAttr) *Device {
	if d.info.Port.Link == ci.LinkInfiniBand { // sma.go
		return d.findLID(av.DLID)
	}
	return d.fab.devs[av.GRH.DGID]
}

// Info implements rchca.Device.
func (d *Device) Info() rchca.Info { return d.info }

// Start implements rchca.Device.
func (d *Device) Start(h rchca.Handler) error {
	d.h = h
	go d.run()
	return nil
}

// Close implements rchca.Device.
func (d *Device) Close() error {
	d.fab.mu.Lock()
	first := !d.closed
	d.closed = true
	maps.DeleteFunc(d.fab.devs, func(_ ci.GID, x *Device) bool { return x == d })
	d.fab.mu.Unlock()
	if first {
		close(d.quit)
	}
	if d.h != nil {
		<-d.done
	}
	return nil
}

// kick wakes the goroutine of the device.
func (d *Device) kick() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run executes work and serves interrupts until Close.
func (d *Device) run() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.fab.mu.Lock()
		next := d.step(time.Now())
		irqs := d.irqs
		d.irqs = nil
		d.fab.mu.Unlock()
		for _, f := range irqs {
			f()
		}
		timer.Reset(next)
		select {
		case <-d.quit:
			return
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// step executes the requests that can be executed. It returns the time until the next retry.
func (d *Device) step(now time.Time) time.Duration {
	next := time.Hour
	for _, q := range d.qps {
		for q.execute(now) {
		}
		if q.sends() > 0 && q.retryAt.After(now) {
			next = min(next, q.retryAt.Sub(now))
		}
	}
	return next
}

// raise queues an interrupt.
func (d *Device) raise(f func()) {
	d.irqs = append(d.irqs, f)
	d.kick()
}

// Map implements rchca.Device.
func (d *Device) Map(r rchca.Region) (ci.Key, error) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	k, err := d.newKey()
	if err == nil {
		d.mrs[k] = &r
	}
	return k, err
}

// newKey returns a key that is not in use. It is random, so that a peer cannot guess it.
func (d *Device) newKey() (ci.Key, error) {
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, err
		}
		k := ci.Key(binary.LittleEndian.Uint32(b[:]))
		taken := d.mrs[k] != nil || k == 0
		taken = taken || d.windows[k>>8] != nil // mw.go
		if !taken {
			return k, nil
		}
	}
}

// Unmap implements rchca.Device.
func (d *Device) Unmap(k ci.Key) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if d.isBound(k) { // mw.go
		return rchca.ErrBound
	}
	delete(d.mrs, k)
	return nil
}

// number returns the next free number of 24 bits.
func (d *Device) number() (uint32, error) {
	for range 1 << 24 {
		d.last = max((d.last+1)&0xffffff, 16)
		if d.qps[ci.QPN(d.last)] == nil && d.cqs[rchca.CQN(d.last)] == nil {
			return d.last, nil
		}
	}
	return 0, errors.New("all numbers are in use")
}

// CreateCQ implements rchca.Device.
func (d *Device) CreateCQ(size int) (rchca.CQN, error) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	n, err := d.number()
	if err != nil {
		return 0, err
	}
	d.cqs[rchca.CQN(n)] = &cq{size: size}
	return rchca.CQN(n), nil
}

// DestroyCQ implements rchca.Device.
func (d *Device) DestroyCQ(n rchca.CQN) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	delete(d.cqs, n)
	return nil
}

// ReadCQ implements rchca.Device.
func (d *Device) ReadCQ(n rchca.CQN, e []rchca.CQE) int {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	c := d.cqs[n]
	if c == nil {
		return 0
	}
	k := copy(e, c.e)
	c.e = append(c.e[:0], c.e[k:]...)
	return k
}

// Deliver implements rchca.Device.
func (d *Device) Deliver(n rchca.CQN, add func(*rchca.CQE) bool) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if c := d.cqs[n]; c != nil {
		c.add = add
	}
}

// ArmCQ implements rchca.Device.
func (d *Device) ArmCQ(n rchca.CQN, when ci.Notify) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if c := d.cqs[n]; c != nil {
		c.armed, c.all = true, c.all || when == ci.NotifyNext
	}
}

// push adds an entry to a CQ. An overflow moves the QPs that use the CQ to Error.
func (d *Device) push(n rchca.CQN, e rchca.CQE, solicited bool) {
	c := d.cqs[n]
	if c == nil || c.lost {
		return
	}
	e.Solicited = solicited
	if c.add != nil && c.add(&e) {
		return
	}
	if c.add != nil || len(c.e) == c.size {
		c.lost = true
		d.raise(func() { d.h.CQError(n) })
		for _, q := range d.qps {
			if q.c.SendCQ == n || q.c.RecvCQ == n {
				q.fatal(ci.EventQPFatal)
			}
		}
		return
	}
	c.e = append(c.e, e)
	if c.armed && (c.all || solicited || e.Status != ci.WCSuccess) {
		c.armed, c.all = false, false
		d.raise(func() { d.h.Completion(n) })
	}
}
