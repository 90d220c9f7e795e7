package lnd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A modelEnd is one end: a flow, and a model of the rest of Conn.
type modelEnd struct {
	flow    flow
	slots   int            // free
	waits   map[cookie]int // transfers, and the number of events that each waits for
	unacked []*send        // sent and not complete
	wire    []*send        // on the way to the other end
	busy    []*send        // received requests that the application handles
	bufs    int            // posted receives
	held    int            // credits that are returned at the end of transfers
	regions int            // in use
}

type model struct {
	depth int
	ends  [2]*modelEnd
	last  byte
}

func newModel(depth int, v1 bool) *model {
	m := &model{depth: depth}
	for i := range m.ends {
		f := newFlow(depth)
		if f.v1 = v1; v1 {
			f.high = min(7, depth-1)
		}
		m.ends[i] = &modelEnd{flow: f, bufs: recvs(depth), slots: depth, waits: map[cookie]int{}}
	}
	return m
}

// costly reports whether a message needs a credit in version 2.
func (s *send) costly() bool { return (&flow{}).costs(s.msg.Type) }

func msg(t msgType, k cookie) *send { return &send{msg: message{header: header{Type: t}, cookie: k}} }

func ack(k cookie) *send {
	s := msg(immediate, k)
	s.msg.lnet.Op = lnetAck
	return s
}

func put(k cookie) *send {
	s := msg(immediate, k)
	s.msg.lnet.Op = lnetPut
	return s
}

func (m *model) begin(e int, t msgType) bool {
	end := m.ends[e]
	if t != immediate && end.slots == 0 || len(end.waits) > 2*m.depth {
		return false
	}
	if t != immediate {
		end.slots--
	}
	m.last++
	k := cookie(m.last)<<8 | cookie(m.depth)
	for end.waits[k] > 0 {
		k += 1 << 16
	}
	end.waits[k] = 1
	s := msg(t, k)
	switch t {
	case immediate:
		s = put(k)
	case putReq:
		end.waits[k] = 2 // the completion of PUT_DONE and the ACK
	case getReq:
		end.regions++
	}
	end.flow.push(s)
	return true
}

func (end *modelEnd) over(t require.TestingT, k cookie, n int) {
	require.GreaterOrEqual(t, end.waits[k], n)
	if end.waits[k] -= n; end.waits[k] == 0 {
		delete(end.waits, k)
	}
}

func (m *model) send(e int) bool {
	end := m.ends[e]
	s := end.flow.next()
	if s == nil {
		return false
	}
	end.wire = append(end.wire, s)
	end.unacked = append(end.unacked, s)
	return true
}

func (m *model) complete(t require.TestingT, e int) bool {
	end := m.ends[e]
	// An RC send completes when the peer has received it.
	if len(end.unacked) <= len(end.wire) {
		return false
	}
	s := end.unacked[0]
	end.unacked = end.unacked[1:]
	end.flow.sent(s)
	switch {
	case s.msg.Type == putDone:
		end.regions--
		end.slots++
		end.over(t, s.msg.cookie, 1)
	case s.msg.Type == getDone && s.msg.status >= 0:
		end.regions--
		end.held--
		end.flow.owed++
	}
	return true
}

// deliver delivers a message, for which there must be a buffer.
func (m *model) deliver(t require.TestingT, to int) bool {
	from, end := m.ends[1-to], m.ends[to]
	if len(from.wire) == 0 {
		return false
	}
	s := from.wire[0]
	from.wire = from.wire[1:]
	require.Positive(t, end.bufs, "there is no buffer for a message")
	require.NoError(t, end.flow.received(s.msg.Type, s.msg.Credits))
	end.bufs--
	switch k := s.msg.cookie; {
	case s.msg.Type == immediate && s.msg.lnet.Op == lnetAck:
		end.flow.owed++
		end.over(t, k, 1)
	case s.costly():
		end.busy = append(end.busy, s) // it keeps its buffer
		return true
	case s.msg.Type == putAck:
		end.regions++
		end.flow.push(msg(putDone, k))
	case s.msg.Type == putNak:
		end.slots++
		end.over(t, k, 2)
	case s.msg.Type == getDone:
		end.regions--
		end.slots++
		end.over(t, k, 1)
	case s.msg.Type == putDone:
		end.regions--
		end.held--
		end.flow.owed++
		end.flow.push(ack(k))
	}
	end.bufs++
	return true
}

// handle handles a request in the application.
func (m *model) handle(e int, refuse bool) bool {
	end := m.ends[e]
	if len(end.busy) == 0 {
		return false
	}
	s := end.busy[0]
	end.busy = end.busy[1:]
	end.bufs++
	k, answer := s.msg.cookie, map[msgType]msgType{putReq: putAck, getReq: getDone}[s.msg.Type]
	switch {
	case s.msg.Type == immediate:
		end.flow.owed++
		end.flow.push(ack(k))
		return true
	case refuse && s.msg.Type == putReq:
		answer = putNak
		fallthrough
	case refuse:
		end.flow.owed++
		a := msg(answer, k)
		a.msg.status = -enodata
		end.flow.push(a)
	default:
		end.held++
		end.regions++
		end.flow.push(msg(answer, k))
	}
	return true
}

// check checks the sum of the credits of both directions, and the number of regions.
func (m *model) check(t require.TestingT) {
	for e, end := range m.ends {
		peer := m.ends[1-e]
		out := peer.held + len(peer.busy)
		for _, s := range end.wire {
			if end.flow.costs(s.msg.Type) {
				out++
			}
		}
		for _, s := range peer.wire {
			out += int(s.msg.Credits)
		}
		require.Equal(t, m.depth, end.flow.credits+peer.flow.owed+out, "credits of end %d: %+v; peer: %+v", e,
			end.flow, peer.flow)
		require.LessOrEqual(t, end.flow.posted, m.depth)
		require.Equal(t, len(end.unacked), end.flow.posted)
		require.LessOrEqual(t, end.regions, 2*m.depth, "the pool has no free region")
	}
}

// settle carries out all events until there are none.
func (m *model) settle(t require.TestingT) {
	for moved := true; moved; {
		moved = false
		for e := range m.ends {
			moved = m.send(e) || moved
			moved = m.deliver(t, e) || moved
			moved = m.handle(e, false) || moved
			moved = m.complete(t, e) || moved
			m.check(t)
		}
	}
	for e, end := range m.ends {
		require.Empty(t, end.waits, "end %d is stuck: %+v; its peer: %+v", e, end.flow, m.ends[1-e].flow)
		require.Equal(t, m.depth, end.slots)
		require.Zero(t, end.regions)
	}
}

var beginnings = []msgType{immediate, putReq, getReq}

// For any order of events, each message has a buffer, no more messages than the depth are in flight, the number of
// credits is constant, and there is always a free region. When the application has handled everything, all transfers
// have ended.
func TestFlowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v1, lowest := rapid.Bool().Draw(t, "version 1"), minDepth
		if v1 {
			lowest = version1Least
		}
		m := newModel(rapid.IntRange(lowest, 12).Draw(t, "depth"), v1)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			e := rapid.IntRange(0, 1).Draw(t, "end")
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0, 1:
				m.begin(e, rapid.SampledFrom(beginnings).Draw(t, "transfer"))
			case 2, 3:
				m.send(e)
			case 4:
				m.deliver(t, e)
			case 5:
				m.handle(e, rapid.Bool().Draw(t, "refuse"))
			case 6:
				m.complete(t, e)
			case 7:
				m.ends[e].flow.probe()
			}
			m.check(t)
		}
		m.settle(t)
	})
}

// Both ends send as much as they can without handling anything, and then handle everything.
func TestFlowBothDirectionsLoaded(t *testing.T) {
	for i := range 8 {
		depth := []int{2, 3, 8, 8, 40, 40, 255, 255}[i]
		m := newModel(depth, i%2 == 1)
		for range 5 {
			for e := range m.ends {
				for k := 0; m.begin(e, beginnings[k%3]); k++ {
				}
				for m.send(e) {
				}
				require.Equal(t, i%2, m.ends[e].flow.credits, "the last one is for a NOOP in version 1")
			}
			m.settle(t)
		}
	}
}

func TestFlowRefusesPeers(t *testing.T) {
	f := newFlow(4)
	require.ErrorIs(t, f.received(noop, 1), ErrMessage, "a credit that the peer did not have")
	f = newFlow(2)
	require.NoError(t, f.received(immediate, 0))
	require.NoError(t, f.received(putReq, 0))
	require.ErrorIs(t, f.received(getReq, 0), ErrMessage, "a third message for two credits")
	require.NoError(t, f.received(putDone, 0), "a reply needs no credit")
}

// Every message returns credits. When half of them are owed, a NOOP returns them; at most two NOOPs are in flight.
func TestFlowGivesCreditsBack(t *testing.T) {
	f := newFlow(8)
	owe := func(n int) {
		for range n {
			require.NoError(t, f.received(immediate, 0))
			f.owed++
		}
	}
	owe(3)
	require.Nil(t, f.next(), "too few for a NOOP")
	f.push(put(0))
	s := f.next()
	require.Equal(t, immediate, s.msg.Type)
	require.EqualValues(t, 3, s.msg.Credits)
	for range maxNoops {
		owe(3)
		require.Nil(t, f.next())
		owe(1)
		s = f.next()
		require.Equal(t, noop, s.msg.Type)
		require.EqualValues(t, 4, s.msg.Credits)
	}
	owe(4)
	require.Nil(t, f.next(), "there is no buffer for another NOOP")
	f.sent(msg(noop, 0))
	require.Equal(t, noop, f.next().msg.Type)
}

// A NOOP is sent after an interval in which nothing was sent, unless the peer has yet to acknowledge a message.
func TestFlowProbes(t *testing.T) {
	f := newFlow(8)
	f.push(put(0))
	require.Equal(t, immediate, f.next().msg.Type)
	f.probe()
	require.Nil(t, f.next(), "a message was sent in this interval")
	f.probe()
	require.Nil(t, f.next(), "it was not acknowledged, and the transport repeats it")
	f.sent(put(0))
	for range 2 {
		f.probe()
		require.Equal(t, noop, f.next().msg.Type)
		f.sent(msg(noop, 0))
		f.probe()
		require.Nil(t, f.next())
	}
}
