package join

import (
	"net"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// maxWaiting bounds the bytes that wait for a peer to read them. As many can be in the writer's hands.
const maxWaiting = 4 << 20

// fairWaiting is maxWaiting for each connection of a server whose connections exceed its limit together.
const fairWaiting = 64 << 10

// A budget bounds the bytes that wait in all connections of a server. Nil has no bound.
type budget struct {
	max  int64
	used atomic.Int64
}

// limit returns the limit of the packets that wait in a connection.
func (b *budget) limit() int {
	if b != nil && b.used.Load() > b.max {
		return fairWaiting
	}
	return maxWaiting
}

// isSpent reports whether there is no room for messages without repetition, either.
func (b *budget) isSpent() bool { return b != nil && b.used.Load() > 2*b.max }

func (b *budget) add(n int) {
	if b != nil {
		b.used.Add(int64(n))
	}
}

// maxSpare bounds the buffer that a connection keeps for later.
const maxSpare = 256 << 10

// A stream is the sending side of a connection. Methods may be called concurrently; none waits for the peer.
type stream struct {
	conn    net.Conn
	budget  *budget       // of waiting, and of what the writer has
	wake    chan struct{} // has a token when something waits
	done    chan struct{} // closed when the writer has ended
	dropped atomic.Uint64 // packets for which there was no room

	mu      sync.Mutex
	closed  bool
	waiting []byte
	spare   []byte
	payload []byte // of the packet that is encoded
}

func newStream(c net.Conn, b *budget) *stream {
	s := &stream{conn: c, budget: b, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.write()
	return s
}

// close ends the connection, without what waits.
func (s *stream) close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	_ = s.conn.Close()
	close(s.wake)
}

// write sends what waits, until close or until the connection fails.
func (s *stream) write() {
	defer s.end()
	for range s.wake {
		s.mu.Lock()
		b := s.waiting
		s.waiting, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		_, err := s.conn.Write(b)
		s.budget.add(-len(b))
		if err != nil {
			_ = s.conn.Close() // the reader ends, too
			return
		}
		if cap(b) > maxSpare {
			continue // after a burst, an idle connection has no large buffer
		}
		s.mu.Lock()
		s.spare = b[:0]
		s.mu.Unlock()
	}
}

// end drops what waits when the writer has ended.
func (s *stream) end() {
	s.mu.Lock()
	s.closed = true
	s.budget.add(-len(s.waiting))
	s.waiting = nil
	s.mu.Unlock()
	close(s.done)
}

// put adds a message. It closes the connection of a peer that does not read: the message has no repetition.
func (s *stream) put(typ byte, contents []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	before := len(s.waiting)
	if before > s.budget.limit()+maxControl || before > 0 && s.budget.isSpent() {
		_ = s.conn.Close()
		return
	}
	s.waiting = appendMessage(s.waiting, typ, contents)
	s.budget.add(len(s.waiting) - before)
	s.signal()
}

// signal wakes the writer. The caller holds s.mu.
func (s *stream) signal() {
	if s.closed {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// An addresser sets LRH and GRH of packets.
type addresser interface {
	address(w *wire.LinkPacket, p *rvt.Packet) bool
}

// putPackets adds packets, each one of a train in a message of its own. It returns the number of those for which there
// was no room or that have no form in bytes.
func (s *stream) putPackets(pkts []rvt.Packet, a addresser) (lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pkts {
		p := &pkts[i]
		before := len(s.waiting)
		if s.closed || before > s.budget.limit() || !train.IsWhole(p) {
			lost += int(p.N)
			continue
		}
		lost += s.putTrain(p, a)
		s.budget.add(len(s.waiting) - before)
	}
	s.dropped.Add(uint64(lost))
	if len(s.waiting) > 0 {
		s.signal()
	}
	return lost
}

// putTrain adds the packets of a train. The caller holds s.mu.
func (s *stream) putTrain(p *rvt.Packet, a addresser) (lost int) {
	var w wire.LinkPacket
	if !a.address(&w, p) {
		return int(p.N)
	}
	train.PutHeaders(&w.Packet, p)
	s.payload = s.payload[:0]
	for _, b := range p.Payload {
		s.payload = append(s.payload, b...)
	}
	payload := s.payload[:p.Len]
	for k := range p.N {
		if !train.PutBTH(&w.Packet.BTH, p, k) {
			return int(p.N - k)
		}
		w.Packet.Payload = payload
		if k+1 < p.N {
			w.Packet.Payload = payload[:p.MTU]
		}
		payload = payload[len(w.Packet.Payload):]
		at := len(s.waiting)
		s.waiting = wire.AppendLinkPacket(appendHeader(s.waiting, typePacket, 0), &w)
		appendHeader(s.waiting[:at], typePacket, len(s.waiting)-at-headerLen)
	}
	return 0
}

// managementLane carries subnet management datagrams and nothing else (IBTA volume 1, 7.6.4).
const managementLane = 15

// lane sets the lane of a packet.
func lane(w *wire.LinkPacket, p *rvt.Packet) {
	if p.DestQP == 0 {
		w.LRH.VL = managementLane
	}
}

// A parsed packet and the room of its payload list.
type arrived struct {
	w    wire.LinkPacket
	pkt  [1]rvt.Packet
	list [1][]byte
}

// parse parses a packet, LRH to VCRC. The result refers to b. The counter is that of the reason if it is not valid.
func (a *arrived) parse(b []byte) (drop rvt.Counter, ok bool) {
	if len(b) > maxPacket || wire.ParseLinkPacket(b, &a.w) != nil ||
		wire.VCRC(0).Update(b[:len(b)-wire.VCRCLen]) != a.w.VCRC {
		return rvt.DropMalformed, false
	}
	if wire.CheckLinkCRC(b, &a.w) != nil {
		return rvt.DropICRC, false
	}
	if a.w.Packet.BTH.Opcode.Service() == wire.Congestion { // of RoCE alone
		return rvt.DropService, false
	}
	a.pkt[0] = rvt.Packet{Src: rvt.Addr{LID: ci.LID(a.w.LRH.SLID)}, Dst: rvt.Addr{LID: ci.LID(a.w.LRH.DLID)},
		SL: ci.SL(a.w.LRH.SL)}
	train.TakeHeaders(&a.pkt[0], &a.w.Packet)
	if len(a.w.Packet.Payload) > 0 {
		a.list[0] = a.w.Packet.Payload
		a.pkt[0].Payload = a.list[:]
	}
	return 0, true
}
