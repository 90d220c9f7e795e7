package lnd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelMsg is a message between two flows in the model.
type modelMsg struct {
	t       Type
	credits uint8
	noop    bool
	id      int
}

// modelEnd is one end: a flow, what it has on the wire to the other end, and what its application is busy with.
type modelEnd struct {
	flow    flow[modelMsg]
	unacked []modelMsg // sent, not complete
	wire    []modelMsg // to the other end
	busy    []modelMsg // received, being handled
	bufs    int        // receives posted
	begun   int
	done    int // transfers that are over, at their initiator
}

type model struct {
	depth int
	ends  [2]*modelEnd
	next  int
}

func newModel(depth int) *model {
	m := &model{depth: depth}
	for i := range m.ends {
		m.ends[i] = &modelEnd{flow: newFlow[modelMsg](depth), bufs: recvs(depth)}
	}
	return m
}

func (m *model) begin(e int, t Type) {
	m.next++
	m.ends[e].begun++
	m.ends[e].flow.push(classOf(t), modelMsg{t: t, id: m.next})
}

// send puts one message on the wire.
func (m *model) send(e int) bool {
	end := m.ends[e]
	item, noop, credits, ok := end.flow.next(false)
	if !ok {
		return false
	}
	if noop {
		item = modelMsg{t: Noop}
	}
	item.noop, item.credits = noop, credits
	end.wire = append(end.wire, item)
	end.unacked = append(end.unacked, item)
	return true
}

func (m *model) complete(e int) bool {
	end := m.ends[e]
	// An RC send is complete when the peer has it: what is still on the wire is not.
	if len(end.unacked) <= len(end.wire) {
		return false
	}
	end.flow.sent(shift(&end.unacked).noop)
	return true
}

// deliver takes a message off the wire: there must be a buffer for it.
func (m *model) deliver(t require.TestingT, to int) bool {
	from, end := m.ends[1-to], m.ends[to]
	if len(from.wire) == 0 {
		return false
	}
	msg := shift(&from.wire)
	end.bufs--
	require.GreaterOrEqual(t, end.bufs, 0, "a message finds no buffer")
	require.NoError(t, end.flow.received(msg.t, msg.credits))
	switch msg.t {
	case Immediate:
		end.busy = append(end.busy, msg) // with its buffer
		return true
	case PutReq, GetReq:
		end.busy = append(end.busy, msg)
	case PutAck:
		end.flow.answered()
		end.flow.push(free, modelMsg{t: PutDone, id: msg.id})
	case PutNak, GetDone:
		end.flow.answered()
		end.done++
	case PutDone:
		end.flow.owe()
		from.done++
	}
	end.bufs++
	return true
}

// handle is the application at work.
func (m *model) handle(e int, nak bool) bool {
	end := m.ends[e]
	if len(end.busy) == 0 {
		return false
	}
	msg := shift(&end.busy)
	switch {
	case msg.t == Immediate:
		end.bufs++
		end.flow.owe()
		m.ends[1-e].done++
	case msg.t == GetReq:
		end.flow.push(free, modelMsg{t: GetDone, id: msg.id})
		end.flow.owe()
	case nak:
		end.flow.push(free, modelMsg{t: PutNak, id: msg.id})
		end.flow.owe()
	default:
		end.flow.push(free, modelMsg{t: PutAck, id: msg.id})
	}
	return true
}

// check counts the credits of both directions.
func (m *model) check(t require.TestingT) {
	for e, end := range m.ends {
		peer := m.ends[1-e]
		out := 0 // credits that the peer or the wire has
		for _, w := range end.wire {
			if classOf(w.t) != free {
				out++
			}
		}
		for _, w := range peer.wire {
			out += int(w.credits)
		}
		for _, b := range peer.busy {
			out++
			_ = b
		}
		out += m.earmarked(e)
		require.Equal(t, m.depth, end.flow.credits+peer.flow.owed+out, "credits of end %d: %v; peer: %v", e, &end.flow, &peer.flow)
		require.LessOrEqual(t, end.flow.posted, m.depth)
		require.Equal(t, len(end.unacked), end.flow.posted)
	}
}

// earmarked are the credits of end e that wait for PUT_DONE: those of PUT_ACKs that the peer has not sent or that are on the way, and of
// PUT_DONEs likewise.
func (m *model) earmarked(e int) (n int) {
	end, peer := m.ends[e], m.ends[1-e]
	for _, q := range [][]modelMsg{peer.flow.free, peer.wire} {
		for _, w := range q {
			if w.t == PutAck {
				n++
			}
		}
	}
	for _, q := range [][]modelMsg{end.flow.free, end.wire} {
		for _, w := range q {
			if w.t == PutDone {
				n++
			}
		}
	}
	return n
}

// Any order of events: no message without a buffer, never more than the depth under way, no credit lost or made, and when the application
// has handled everything, every transfer of both ends is over.
func TestFlowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(minDepth, 12).Draw(t, "depth"))
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			e := rapid.IntRange(0, 1).Draw(t, "end")
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1:
				m.begin(e, rapid.SampledFrom([]Type{Immediate, PutReq, GetReq}).Draw(t, "transfer"))
			case 2, 3:
				m.send(e)
			case 4:
				m.deliver(t, e)
			case 5:
				m.handle(e, rapid.Bool().Draw(t, "nak"))
			case 6:
				m.complete(e)
			}
			m.check(t)
		}
		for moved := true; moved; {
			moved = false
			for e := range m.ends {
				moved = m.send(e) || moved
				moved = m.deliver(t, e) || moved
				moved = m.handle(e, false) || moved
				moved = m.complete(e) || moved
				m.check(t)
			}
		}
		for e, end := range m.ends {
			require.Equal(t, end.begun, end.done, "end %d stands still: %v; its peer: %v", e, &end.flow, &m.ends[1-e].flow)
		}
	})
}

// Both ends send as much as they can and handle nothing until all is stuck; then they go on.
func TestFlowBothDirectionsLoaded(t *testing.T) {
	for _, depth := range []int{2, 3, 8, 255} {
		m := newModel(depth)
		for e := range m.ends {
			for range 5 * depth {
				for _, typ := range []Type{PutReq, Immediate, GetReq} {
					m.begin(e, typ)
				}
			}
			for m.send(e) {
			}
			require.Zero(t, m.ends[e].flow.credits)
		}
		for moved := true; moved; {
			moved = false
			for e := range m.ends {
				for m.deliver(t, e) {
					moved = true
				}
				for m.handle(e, false) {
					moved = true
				}
				for m.complete(e) {
					moved = true
				}
				for m.send(e) {
					moved = true
				}
				m.check(t)
			}
		}
		for _, end := range m.ends {
			require.Equal(t, 15*depth, end.done, "depth %d", depth)
		}
	}
}

func TestFlowRefusesPeers(t *testing.T) {
	f := newFlow[int](4)
	require.ErrorIs(t, f.received(Noop, 1), ErrMessage, "a credit out of nothing")
	f = newFlow[int](2)
	require.NoError(t, f.received(Immediate, 0))
	require.NoError(t, f.received(PutReq, 0))
	require.ErrorIs(t, f.received(GetReq, 0), ErrMessage, "a third message for two credits")
	require.NoError(t, newFlowWith(1).received(PutDone, 0), "an answer costs nothing")
}

func newFlowWith(theirs int) *flow[int] {
	f := newFlow[int](2)
	f.theirs = theirs
	return &f
}

// A message taken back leaves credits and slots as if it had never been.
func TestFlowRemove(t *testing.T) {
	f := newFlow[int](2)
	f.push(reserving, 1)
	f.push(reserving, 2)
	f.push(reserving, 3)
	f.push(crediting, 4)
	for _, want := range []int{1, 2} {
		got, noop, _, ok := f.next(false)
		require.True(t, ok)
		require.False(t, noop)
		require.Equal(t, want, got)
	}
	require.True(t, f.remove(3), "it waits for a slot")
	require.True(t, f.remove(4), "it waits for a credit")
	require.False(t, f.remove(1), "it is under way")
	f.sent(false)
	f.sent(false)
	require.Zero(t, f.reserved)
	f.answered()
	f.push(reserving, 5)
	_, _, _, ok := f.next(false)
	require.False(t, ok, "no credit")
	require.Zero(t, f.reserved, "5 has the slot")
	require.True(t, f.remove(5))
	require.Equal(t, 1, f.reserved)
}

// An end gives credits back by itself when half of them are owed, and earlier when it is asked for a sign of life.
func TestFlowNoop(t *testing.T) {
	f := newFlow[int](8)
	for i := range 4 {
		_, _, _, ok := f.next(false)
		require.False(t, ok, "%d owed", i)
		require.NoError(t, f.received(Immediate, 0))
		f.owe()
	}
	_, noop, credits, ok := f.next(false)
	require.True(t, ok && noop)
	require.EqualValues(t, 4, credits)
	_, noop, credits, ok = f.next(true)
	require.True(t, ok && noop)
	require.Zero(t, credits)
	_, _, _, ok = f.next(true)
	require.False(t, ok, "two NOOPs at a time, there are no buffers for more")
	f.sent(true)
	_, noop, _, ok = f.next(true)
	require.True(t, ok && noop)
}
