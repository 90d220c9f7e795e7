package fw

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// eq is an event queue.
type eq struct {
	d        *Device
	num      uint32
	vector   int
	log      uint8
	stride   int // bytes of an entry; the event is in the last eqeSize
	mem      *bus.DMA
	mtt      *MTT
	events   uint64 // the types that MAP_EQ has mapped to it
	doorbell uint64 // offset in the doorbell BAR

	state    atomic.Int32  // of service
	consumer atomic.Uint32 // changed by the goroutine that serves

	mu     sync.Mutex // of the search for lost interrupts
	seen   uint32     // the consumer index with which an entry was found waiting
	seenAt time.Duration
	isSeen bool
}

const (
	eqeSize    = 32
	eqeOwner   = eqeSize - 4 // the dword with the owner bit
	minLogEQ   = 4
	maxLogEQ   = 16
	eqBatch    = 128 // the most entries after which the adapter learns the consumer index
	eqIndex    = 1<<24 - 1
	eqsPerPage = prm.EQDoorbellsPerUAR
)

// States of service.
const (
	eqIdle  = iota
	eqBusy  // a goroutine serves
	eqAgain // another one has asked it to look again
)

// newEQ makes an event queue of 2^log entries and passes it to the adapter.
func (d *Device) newEQ(ctx context.Context, num uint32, vector int, log uint8) (*eq, error) {
	e := &eq{d: d, num: num, vector: vector, log: log, stride: d.eqeStride,
		doorbell: uint64(num/eqsPerPage)*prm.UARPageSize + prm.UAREQDoorbell + 8*uint64(num%eqsPerPage)}
	if err := d.icm.ensureEQ(ctx, num); err != nil {
		return nil, err
	}
	q, err := d.AllocQueue(ctx, e.stride<<e.log)
	if err != nil {
		return nil, err
	}
	e.mem, e.mtt = q.DMA, q.MTT
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// start passes the queue to the adapter, empty.
func (e *eq) start(ctx context.Context) error {
	clear(e.mem.Bytes)
	e.consumer.Store(0)
	b := make([]byte, prm.EQCState.Layout.Size)
	prm.EQCState.Put(b, prm.EQArmed)
	if e.d.isPolling.Load() {
		prm.EQCState.Put(b, prm.EQFired)
	}
	prm.EQCLogSize.Put(b, uint64(e.log))
	prm.EQCVector.Put(b, uint64(e.vector))
	prm.EQCMTTHigh.Put(b, e.mtt.Offset()>>32)
	prm.EQCMTTLow.Put(b, e.mtt.Offset())
	_, err := e.d.exec(ctx, prm.CmdSW2HWEQ, Args{In: b, Modifier: e.num})
	return err
}

// mapEvents directs types of events to the queue.
func (e *eq) mapEvents(ctx context.Context, events uint64) error {
	_, err := e.d.exec(ctx, prm.CmdMapEQ, Args{Imm: events, Modifier: e.num})
	if err == nil {
		e.events = events
	}
	return err
}

// stop takes the queue back from the adapter.
func (e *eq) stop(ctx context.Context) error {
	if e.events != 0 {
		if _, err := e.d.exec(ctx, prm.CmdMapEQ, Args{Imm: e.events, Modifier: e.num | prm.EQUnmap}); err != nil {
			return err
		}
		e.events = 0
	}
	_, err := e.d.exec(ctx, prm.CmdHW2SWEQ, Args{Modifier: e.num, OpModifier: 1})
	return err
}

// ring writes the doorbell.
func (e *eq) ring(arm bool) {
	var b [4]byte
	prm.EQDoorbellConsumer.Put(b[:], uint64(e.consumer.Load())&eqIndex)
	if arm {
		prm.EQDoorbellArm.Put(b[:], 1)
	}
	e.d.uars.Write32(e.doorbell, uint32(bus.Number(b[:])))
}

// entry returns the entry at the consumer index, if it is the driver's.
func (e *eq) entry() ([]byte, bool) {
	n := e.consumer.Load()
	at := int(n&(1<<e.log-1))*e.stride + e.stride - eqeSize
	b := e.mem.Bytes[at : at+eqeSize]
	isOwned := Load32(b[eqeOwner:])>>7&1 == n>>e.log&1
	return b, isOwned
}

// service handles the entries of the queue. If another goroutine does so already, that one looks again.
func (e *eq) service() {
	for {
		switch {
		case e.state.CompareAndSwap(eqIdle, eqBusy):
			for {
				e.drain()
				if e.state.CompareAndSwap(eqBusy, eqIdle) {
					return
				}
				e.state.Store(eqBusy)
			}
		case e.state.CompareAndSwap(eqBusy, eqAgain) || e.state.Load() == eqAgain:
			return
		}
	}
}

// drain handles entries, at most as many as the queue has, and arms the queue. An entry that comes after the last look
// makes the armed queue raise its interrupt at once.
func (e *eq) drain() {
	n, batch := 0, min(eqBatch, 1<<e.log/4)
	for ; n < 1<<e.log; n++ {
		b, ok := e.entry()
		if !ok {
			break
		}
		var copied [eqeSize]byte
		copy(copied[:], b)
		e.consumer.Add(1)
		if n%batch == batch-1 {
			e.ring(false)
		}
		e.d.dispatch(copied[:])
	}
	if !e.d.isPolling.Load() {
		e.ring(true)
	} else if n > 0 {
		e.ring(false)
	}
}

// recover looks for entries without an interrupt: those that have been waiting since an earlier call.
func (e *eq) recover() {
	if e.d.isPolling.Load() {
		e.service()
		return
	}
	now := e.d.cfg.Clock.Elapsed()
	e.mu.Lock()
	consumer := e.consumer.Load()
	_, waits := e.entry()
	lost := waits && e.isSeen && e.seen == consumer && now-e.seenAt >= commandTick/2
	if !e.isSeen || e.seen != consumer || !waits {
		e.isSeen, e.seen, e.seenAt = waits, consumer, now
	}
	e.mu.Unlock()
	if lost && e.state.Load() == eqIdle {
		e.d.lostInterrupts.Add(1)
		e.service()
	}
}

// hasOverrun reports whether the queue has lost events.
func (e *eq) hasOverrun(ctx context.Context) (bool, error) {
	b := make([]byte, prm.EQCState.Layout.Size)
	if err := e.d.Cmd(ctx, prm.CmdQueryEQ, Args{Out: b, Modifier: e.num}); err != nil {
		return false, err
	}
	switch s := prm.EQCStatus.Get(b); s {
	case 0:
		return false, nil
	case prm.EQStatusFailed:
		return true, nil
	default:
		return false, fmt.Errorf("fw: EQ %d has the status %d", e.num, s)
	}
}
