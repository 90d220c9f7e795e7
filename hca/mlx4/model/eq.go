package model

import (
	"sync"

	"ciddk/internal/mlx4/prm"
)

const (
	numEQs    = 1 << logMaxEQs
	maxLogEQ  = 20 // entries
	eqeSize   = 32
	noEQ      = -1
	indexMask = 1<<24 - 1
	numEvents = 64
)

// eq is an event queue that the hardware owns.
type eq struct {
	m       *Model
	num     uint32
	context [0x40]byte // as SW2HW_EQ passed it
	log     uint8
	size    uint32 // of an entry
	vector  int
	buf     queueBuffer
	ignore  bool // overruns

	mu       sync.Mutex
	state    uint8
	producer uint32 // all 32 bits count
	consumer uint32 // 24 bits
	status   uint64
	isDead   bool // given back: nothing is written any more
}

// eqTable has the EQs and the EQ of each type of event.
type eqTable struct {
	mu    sync.Mutex
	eqs   [numEQs]*eq
	event [numEvents]int // EQ number, or noEQ
}

func (t *eqTable) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.eqs {
		e.end()
	}
	t.eqs = [numEQs]*eq{}
	for i := range t.event {
		t.event[i] = noEQ
	}
}

// get returns an EQ, or nil.
func (t *eqTable) get(n uint32) *eq {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n >= numEQs {
		return nil
	}
	return t.eqs[n]
}

// of returns the EQ for a type of event, or nil.
func (t *eqTable) of(event uint8) *eq {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(event) >= numEvents || t.event[event] == noEQ {
		return nil
	}
	return t.eqs[t.event[event]]
}

func (c *command) sw2hwEQ() prm.Status {
	b, ok := c.inbox(prm.EQCState.Layout.Size)
	if !ok {
		return prm.BadParam
	}
	if c.mod >= 1<<c.layout.logEQs {
		return prm.BadIndex
	}
	e := &eq{m: c.Model, num: c.mod, log: uint8(prm.EQCLogSize.Get(b)), size: c.layout.eqeSize,
		vector: int(prm.EQCVector.Get(b)), ignore: prm.EQCIgnoreFull.Has(b), state: uint8(prm.EQCState.Get(b)),
		consumer: uint32(prm.EQCConsumer.Get(b))}
	e.context = [0x40]byte(b)
	if e.log > maxLogEQ {
		return prm.ExceedLim
	}
	if e.vector >= numVectors {
		return prm.BadParam
	}
	mtt := prm.EQCMTTHigh.Get(b)<<32 | prm.EQCMTTLow.Get(b)
	if e.buf.buffer, ok = c.newBuffer(mtt, uint8(prm.EQCLogPage.Get(b))+12, uint64(e.size)<<e.log); !ok {
		return prm.BadParam
	}
	c.eqs.mu.Lock()
	defer c.eqs.mu.Unlock()
	if c.eqs.eqs[c.mod] != nil {
		return prm.BadResState
	}
	entry := make([]byte, e.size)
	prm.EQEOwner.Put(entry[e.size-eqeSize:], 1)
	if !e.buf.fill(0, e.buf.size, entry) {
		return prm.BadParam
	}
	c.eqs.eqs[c.mod] = e
	return prm.OK
}

func (c *command) hw2swEQ() prm.Status {
	c.eqs.mu.Lock()
	defer c.eqs.mu.Unlock()
	if c.mod >= numEQs || c.eqs.eqs[c.mod] == nil {
		return prm.BadIndex
	}
	c.eqs.eqs[c.mod].end()
	c.eqs.eqs[c.mod] = nil
	return prm.OK
}

// end returns the queue to the driver: the model writes no entry and raises no interrupt afterwards.
func (e *eq) end() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isDead = true
}

func (c *command) queryEQ() prm.Status {
	e := c.eqs.get(c.mod)
	if e == nil {
		return prm.BadIndex
	}
	e.mu.Lock()
	b := e.context
	prm.EQCStatus.Put(b[:], e.status)
	prm.EQCState.Put(b[:], uint64(e.state))
	prm.EQCProducer.Put(b[:], uint64(e.producer))
	prm.EQCConsumer.Put(b[:], uint64(e.consumer))
	e.mu.Unlock()
	return c.outbox(b[:])
}

func (c *command) mapEQ() prm.Status {
	num := int(c.mod &^ prm.EQUnmap)
	unmap := c.mod&prm.EQUnmap != 0
	c.eqs.mu.Lock()
	defer c.eqs.mu.Unlock()
	if num >= numEQs || !unmap && c.eqs.eqs[num] == nil {
		return prm.BadIndex
	}
	for i := range c.eqs.event {
		if c.in>>i&1 == 0 {
			continue
		}
		if !unmap {
			c.eqs.event[i] = num
		} else if c.eqs.event[i] == num {
			c.eqs.event[i] = noEQ
		}
	}
	return prm.OK
}

// put appends an entry whose content is b, of eqeSize bytes. It reports false if the queue is full.
func (e *eq) put(b *[eqeSize]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isDead {
		return true // the event is lost with the queue
	}
	slots := uint32(1) << e.log
	if e.m.faults.losesEvent(e.num) {
		e.status = prm.EQStatusFailed
		return false
	}
	if !e.ignore && (e.producer-e.consumer)&indexMask >= slots {
		e.status = prm.EQStatusFailed
		return false
	}
	n := e.producer
	prm.EQEOwner.Put(b[:], uint64(n>>e.log&1))
	at := uint64(n&(slots-1))*uint64(e.size) + uint64(e.size-eqeSize)
	if !e.buf.publish(at, b[:]) {
		e.status = prm.EQStatusFailed
		return false
	}
	e.producer++
	if e.state == prm.EQArmed || e.state == prm.EQAlwaysArmed {
		e.fire()
	}
	return true
}

// fire raises the interrupt. mu is held.
func (e *eq) fire() {
	if e.state == prm.EQArmed {
		e.state = prm.EQFired
	}
	e.m.interrupt(e.vector)
}

// doorbell sets the consumer index, and arms the queue.
func (e *eq) doorbell(consumer uint32, arm bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.consumer = consumer
	if !arm || e.isDead {
		return
	}
	if e.state != prm.EQAlwaysArmed {
		e.state = prm.EQArmed
	}
	if (e.producer-consumer)&indexMask != 0 {
		e.fire()
	}
}

// interrupt raises a vector of the host.
func (m *Model) interrupt(vector int) {
	if h := m.host.Load(); h != nil && !m.faults.losesInterrupt(vector) {
		h.Interrupt(vector)
	}
}
