package rvt

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A fakeTaker stands for a QP in a run queue.
type fakeTaker struct {
	waiter
	turns int
	then  func()
}

func newFakeTaker() *fakeTaker {
	f := new(fakeTaker)
	f.owner = f
	return f
}

func (f *fakeTaker) takeTurn() {
	f.turns++
	if f.then != nil {
		f.then()
	}
}

// TestRunQueue checks the order of turns, that a QP may enter the queue again from its turn, and that pollers leave
// deadlines to the timer.
func TestRunQueue(t *testing.T) {
	u := &runQueue{clock: newClock()}
	a, b := newFakeTaker(), newFakeTaker()
	var order []string
	enter := func(f *fakeTaker) {
		require.False(t, f.queued.Swap(true))
		u.add(&f.waiter)
	}
	a.then = func() {
		order = append(order, "a")
		if a.turns == 1 {
			enter(a)
		}
	}
	b.then = func() { order = append(order, "b") }
	enter(a)
	enter(b)
	u.round()
	assert.Equal(t, []string{"a", "b"}, order, "one turn each per round")
	assert.EqualValues(t, 1, u.waiting.Load())
	a.due.Store(true)
	assert.False(t, u.one(true))
	assert.True(t, u.one(false))
	assert.Equal(t, []string{"a", "b", "a"}, order)

	enter(b)
	u.stop()
	assert.False(t, b.queued.Load())
	enter(a)
	assert.False(t, a.queued.Load(), "nothing enters a stopped queue")
	assert.False(t, u.one(false))
}

type fakeAckHolder struct{ flushes int }

func (f *fakeAckHolder) flushAck(left quantum) quantum {
	f.flushes++
	return left
}

func TestAckQueue(t *testing.T) {
	var a ackQueue
	x, y := new(fakeAckHolder), new(fakeAckHolder)
	a.flush()
	a.add(x)
	a.add(y)
	a.flush()
	a.add(x)
	a.flush()
	a.flush()
	assert.Equal(t, [2]int{2, 1}, [2]int{x.flushes, y.flushes})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		a.add(x)
		a.flush()
	}))
}

func TestInboxOfPackets(t *testing.T) {
	memory := &budget{limit: inboxShare * 2 * (packetBytes + 8)}
	var x inbox
	data := []byte("12345678")
	p := Packet{Op: wire.OpSend, Len: 8, N: 1, Payload: [][]byte{data[:3], data[3:]}}
	assert.Zero(t, x.put([]Packet{p, p}, memory))
	assert.Equal(t, 1, x.put([]Packet{p}, memory), "one QP may hold a quarter")
	copy(data, "........")
	list, more := x.take(memory)
	require.Len(t, list, 2)
	assert.False(t, more)
	assert.Equal(t, "12345678", string(list[0].Payload[0]), "a copy in one piece")
	assert.Zero(t, memory.used.Load())
	x.keep(list)
	assert.True(t, x.isEmpty())

	older := Packet{Op: wire.OpAcknowledge, N: 1, PSN: 4, Syndrome: wire.ACK(0)}
	newer := older
	newer.PSN = ci.PSN(5)
	assert.Zero(t, x.put([]Packet{older, newer}, memory))
	list, _ = x.take(memory)
	require.Len(t, list, 1, "an acknowledgement replaces one that it implies")
	assert.Equal(t, newer, list[0])

	assert.Zero(t, x.put([]Packet{p}, memory))
	x.reset(memory)
	assert.True(t, x.isEmpty())
	assert.Zero(t, memory.used.Load())
}

// fakeKeyOwner is a region in the key table.
type fakeKeyOwner struct {
	first       ci.Key
	invalidated []ci.Key
}

func (f *fakeKeyOwner) setSlot(_ *slot, first ci.Key) { f.first = first }
func (f *fakeKeyOwner) invalidate(_ *endpoint, key ci.Key) bool {
	f.invalidated = append(f.invalidated, key)
	return true
}

// TestKeyTable checks the life of a key, from its slot to its withdrawal.
func TestKeyTable(t *testing.T) {
	next := uint32(0)
	// each index twice: 0 and used indexes are skipped
	k := &keyTable{choose: func() uint32 { next++; return next / 2 }}
	o := new(fakeKeyOwner)
	s, key, ok := k.reserve(o)
	require.True(t, ok)
	assert.Equal(t, key, o.first)
	_, other, ok := k.reserve(nil)
	require.True(t, ok)
	assert.NotEqual(t, key>>8, other>>8)

	g := &grant{key: key, base: 100, length: 10, bytes: newStorage([]segment{{n: 10, b: make([]byte, 10)}})}
	assert.Nil(t, k.find(key))
	s.now.Store(g)
	assert.Same(t, g, k.find(key))
	assert.Nil(t, k.find(s.fresh()), "another variant")
	assert.True(t, k.invalidate(nil, key))
	assert.Equal(t, []ci.Key{key}, o.invalidated)
	assert.False(t, k.invalidate(nil, other), "an FMR has no owner to invalidate it")

	require.True(t, g.enter())
	s.swap(nil)
	woken := 0
	assert.False(t, k.settled(key, func() { woken++ }))
	assert.False(t, g.enter(), "withdrawn")
	g.leave()
	assert.Equal(t, 1, woken)
	assert.True(t, k.settled(key, nil))
	k.release(s)
	assert.False(t, k.invalidate(nil, key))
}
