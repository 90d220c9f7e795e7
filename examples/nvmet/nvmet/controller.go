package nvmet

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"ciddk/clock"
)

// controller is what a host has created by Connect on an admin queue. It ends with that queue.
type controller struct {
	t           *Target
	id          uint16
	hostNQN     string
	hostID      [16]byte
	isDiscovery bool
	keepAlive   time.Duration
	timer       clock.Timer

	mu      sync.Mutex
	config  uint32 // CC
	granted int    // number of I/O queues
	events  uint32 // configuration of asynchronous events
	queues  map[uint16]*queue
}

// idleTime replaces a keep alive time of 0, so that a host that has vanished holds no memory.
const idleTime = 2 * time.Minute

var errKeepAlive = errors.New("the keep alive timer has expired")

// alive restarts the keep alive timer.
func (c *controller) alive() {
	if c.timer != nil {
		c.timer.Reset(c.keepAlive)
	}
}

// end ends all queues of the controller. With ioOnly it stays.
func (c *controller) end(cause error, ioOnly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, q := range c.queues {
		if id != 0 || !ioOnly {
			q.cancel(cause)
		}
	}
}

var errController = errors.New("the admin queue has ended")

// remove removes a queue that has ended. Without the admin queue, the controller ends.
func (c *controller) remove(q *queue) {
	c.mu.Lock()
	if c.queues[q.id] == q {
		delete(c.queues, q.id)
	}
	c.mu.Unlock()
	if q.id != 0 {
		return
	}
	c.timer.Stop()
	c.t.mu.Lock()
	delete(c.t.controllers, c.id)
	c.t.mu.Unlock()
	c.end(errController, false)
}

// Offsets of fields of Connect, in the command and in its data.
const (
	inQueue, inSize, inCntlID, inSubsystem, inHost = 42, 44, 16, 256, 512
	isData                                         = 1 << 16 // the offset is one in the data
)

// invalid is the end of Connect because of the field at an offset.
func (r *request) invalid(offset uint64) error {
	r.result = offset
	return connectInvalid
}

// connect creates a controller, or adds an I/O queue to one.
func (r *request) connect(ctx context.Context) error {
	const recordFormat, queueID, attributes, timeout = 40, inQueue, 46, 48
	const noFlowControl = 1 << 2
	entries := int(r.u16(inSize)) + 1
	switch {
	case r.u16(recordFormat) != 0:
		return incompatibleFormat
	case r.u16(queueID) != r.q.id:
		return r.invalid(inQueue)
	case entries < 2 || entries > r.q.entries:
		return r.invalid(inSize)
	}
	var data []byte
	if err := r.pull(ctx, connectLen, func(b []byte) error { data = slices.Clone(b); return nil }); err != nil {
		return err
	}
	c := &controller{t: r.q.t, id: binary.LittleEndian.Uint16(data[inCntlID:]), queues: map[uint16]*queue{},
		keepAlive: time.Duration(r.dword(timeout/4)) * time.Millisecond, hostID: [16]byte(data)}
	subsystem, ok := text(data[inSubsystem:][:nqnLen])
	c.isDiscovery = subsystem == DiscoveryNQN
	if !ok || !c.isDiscovery && subsystem != c.t.cfg.NQN || c.isDiscovery && r.q.id != 0 {
		return r.invalid(isData | inSubsystem)
	}
	if c.hostNQN, ok = text(data[inHost:][:nqnLen]); !ok || c.hostNQN == "" {
		return r.invalid(isData | inHost)
	}
	if c.keepAlive == 0 {
		c.keepAlive = idleTime
	}
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	if r.q.ctrl != nil {
		return sequenceError
	}
	var err error
	if r.q.id == 0 {
		c, err = r.create(c)
	} else {
		c, err = r.join(c)
	}
	if err != nil {
		return err
	}
	r.q.ctrl = c
	if r.command[attributes]&noFlowControl == 0 {
		r.q.sending.Lock()
		r.q.size = uint16(entries)
		r.q.sending.Unlock()
	}
	r.result = uint64(c.id)
	r.q.connected()
	r.q.log.Info("nvmet: a queue is connected", "controller", c.id, "name", c.hostNQN, "discovery", c.isDiscovery)
	return nil
}

// create registers a controller.
func (r *request) create(c *controller) (*controller, error) {
	const dynamic, lastID = 0xffff, 0xffef
	if c.id != dynamic {
		return nil, r.invalid(isData | inCntlID)
	}
	c.queues[0], c.granted = r.q, c.t.cfg.Queues
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.controllers) == lastID {
		return nil, internalError
	}
	for used := true; used; _, used = t.controllers[t.lastID] {
		t.lastID = t.lastID%lastID + 1
	}
	c.id = t.lastID
	t.controllers[c.id] = c
	c.timer = t.clock.AfterFunc(c.keepAlive, func() { c.end(errKeepAlive, false) })
	return c, nil
}

// join adds the queue to the controller that like describes.
func (r *request) join(like *controller) (*controller, error) {
	t := like.t
	t.mu.Lock()
	c := t.controllers[like.id]
	t.mu.Unlock()
	if c == nil || c.isDiscovery || c.hostNQN != like.hostNQN || c.hostID != like.hostID {
		return nil, r.invalid(isData | inCntlID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.queues[0] == nil || c.config&ccEnable == 0 || c.queues[r.q.id] != nil:
		return nil, sequenceError
	case int(r.q.id) > c.granted:
		return nil, r.invalid(inQueue)
	}
	c.queues[r.q.id] = r.q
	return c, nil
}

// Properties, by offset.
const (
	propCAP, propVS, propCC, propCSTS = 0x00, 0x08, 0x14, 0x1c

	ccEnable                        = 1 << 0
	ccShutdown                      = 3 << 14
	cstsReady, cstsShutdownComplete = 1 << 0, 2 << 2
	version                         = 0x10400
)

func (c *controller) enabled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config&ccEnable != 0
}

// property reads or writes a property. CAP has 8 bytes, the others have 4.
func (r *request) property(c *controller) error {
	offset, is8 := r.dword(11), r.command[40]&7 == 1
	switch r.fabricsType() {
	case typePropertyGet:
		v, ok := c.get(offset)
		if !ok || is8 != (offset == propCAP) {
			return invalidField
		}
		r.result = v
		return nil
	case typePropertySet:
		if offset != propCC || is8 {
			return invalidField
		}
		c.configure(r.dword(12))
		return nil
	}
	return invalidOpcode
}

func (c *controller) get(offset uint32) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch offset {
	case propCAP: // entries of a queue, from 0; contiguous queues; time to get ready in 500 ms; NVM command set
		return uint64(c.t.cfg.Depth-1) | 1<<16 | 20<<24 | 1<<37, true
	case propVS:
		return version, true
	case propCC:
		return uint64(c.config), true
	case propCSTS:
		var v uint64
		if c.config&ccEnable != 0 {
			v |= cstsReady
		}
		if c.config&ccShutdown != 0 {
			v |= cstsShutdownComplete
		}
		return v, true
	}
	return 0, false
}

var errReset = errors.New("the host has reset the controller")

// configure sets CC. Disabling the controller ends its I/O queues.
func (c *controller) configure(cc uint32) {
	c.mu.Lock()
	wasReset := c.config&^cc&ccEnable != 0
	c.config = cc
	c.mu.Unlock()
	if wasReset {
		c.end(errReset, true)
	}
}
