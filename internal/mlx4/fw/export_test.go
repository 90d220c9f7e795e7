package fw

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/clock"
)

// doorbells is a BAR that has no registers.
type doorbells struct{ bus.Accessor }

func (doorbells) Load(uint64, int) (uint64, error) { return 0, nil }
func (doorbells) Store(uint64, int, uint64) error  { return nil }

// FeedEvents has an event queue with random entries be served, each of which its owner bit makes the driver's. It ends
// although all entries are always valid.
func FeedEvents(t *testing.T, entries []byte) {
	const log = 4
	d := &Device{f: gone{}, cfg: Config{Clock: clock.NewVirtual(0)}, failed: make(chan struct{}),
		uars: bus.NewSpace(1<<20, doorbells{}), regs: bus.NewSpace(1<<20, doorbells{})}
	d.events.wake = make(chan struct{}, 1)
	d.caps.NumPorts, d.caps.NumCQs = 2, 1<<10
	require.NoError(t, d.HandleCQ(1, func() {}, func(Event) {}))
	c := &d.commands
	c.slots, c.free = make([]slot, 4), make(chan int, 4)
	c.logSize = 2
	for i := range c.slots {
		c.slots[i].done = make(chan result, 1)
		c.slots[i].state = slotState(i % 3)
	}
	e := &eq{d: d, log: log, stride: 64, mem: &bus.DMA{Memory: bus.Memory{Bytes: make([]byte, 64<<log)}}}
	for len(entries) > 0 {
		n := copy(e.mem.Bytes, entries)
		entries = entries[n:]
		for i := range 1 << log {
			owner := &e.mem.Bytes[64*i+63]
			*owner = *owner&0x7f | byte(e.consumer.Load()>>log&1)<<7
		}
		before := e.consumer.Load()
		e.service()
		require.EqualValues(t, 1<<log, e.consumer.Load()-before)
	}
	for x, _, ok := d.events.next(); ok; x, _, ok = d.events.next() {
		if x.event.Port > d.caps.NumPorts {
			require.Fail(t, "an event of a port that does not exist", "%+v", x.event)
		}
	}
	require.LessOrEqual(t, len(c.free), 4)
	require.Less(t, d.cfg.Clock.Elapsed(), time.Second)
}

// gone is a function without registers.
type gone struct{ bus.Function }

func (gone) Gone() <-chan struct{} { return nil }
func (gone) Config() bus.Space     { return bus.NewSpace(bus.ConfigSize, doorbells{}) }
func (gone) Location() string      { return "none" }
