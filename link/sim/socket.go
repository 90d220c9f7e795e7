package sim

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync"

	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// socket is the rocev2.Socket of a port on a Network, or the place of an End.
type socket struct {
	net    *Network
	port   *rocev2.Port
	window int
	sink   func([]byte) // of an End, which takes packets as they are; there is no decoder then

	idMu sync.Mutex
	id   uint16 // IPv4 identification of the packet sent last

	recvMu  sync.Mutex // held while something is delivered
	started bool
	closed  bool
	decoder *rocev2.Decoder

	groupMu sync.Mutex
	groups  map[netip.Addr]int // joins
}

func (s *socket) addr() netip.Addr { return s.port.Addr }

func (s *socket) Start() error {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	s.started, s.decoder = true, rocev2.NewDecoder(s.port, false)
	return nil
}

// CatchUp makes the network deliver.
func (s *socket) CatchUp(uint64) (next uint64, done bool) { return 0, s.net.catchUp() }

func (s *socket) Hints() rvt.Hints {
	return rvt.Hints{MaxTrain: 16 * s.port.MTU.Bytes(), Window: s.window}
}

// sendBatch is the most packets that socket.Send passes to the network together.
const sendBatch = 64

// Send encodes whole IP packets. Those to one destination leave together.
func (s *socket) Send(pkts []rvt.Packet) {
	c := rocev2.Cutter{Trains: pkts}
	var batch [sendBatch]packet
	var to netip.Addr
	n := 0
	for c.Next() {
		s.idMu.Lock()
		s.id++
		id := s.id
		s.idMu.Unlock()
		dst := c.Route.Dst.Addr().WithZone("") // a network is one zone
		if n == len(batch) || n > 0 && dst != to {
			s.net.send(s, to, batch[:n]...)
			n = 0
		}
		p := newPacket(wire.IPv6Len + wire.UDPLen + c.Size)
		p.data = c.AppendPacket(c.Route.AppendHeaders(p.data, s.port.Addr, c.Size, id), id)
		batch[n], to = p, dst
		n++
	}
	if n > 0 {
		s.net.send(s, to, batch[:n]...)
	}
	if c.Bad > 0 {
		s.port.Receiver.Count(rvt.DropSendFailed, c.Bad)
	}
}

// receive takes what has arrived at one moment. Packets for one QP are delivered together. Watch is called with a
// packet before its effects, and with a packet for the next QP after them.
func (s *socket) receive(batch []parcel) {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	for i := range batch {
		if s.sink != nil {
			s.watch(&batch[i])
			s.sink(batch[i].data)
			continue
		}
		if i > 0 && s.started && !s.closed && !isSameQP(batch[i-1].data, batch[i].data) {
			s.decoder.Deliver()
		}
		s.watch(&batch[i])
		if !s.closed && s.started {
			s.decoder.IP(batch[i].data)
		}
	}
	if !s.closed && s.started {
		s.decoder.Deliver()
	}
	if s.sink == nil { // which keeps them
		for i := range batch {
			batch[i].free()
		}
	}
}

// watch calls NetworkConfig.Watch with a parcel that arrives.
func (s *socket) watch(p *parcel) {
	if w := s.net.c.Watch; w != nil {
		w(s.net.datagram(p, true))
	}
}

// isSameQP reports whether two IP packets have the same destination QP, if they are RoCEv2's.
func isSameQP(a, b []byte) bool {
	qp := func(p []byte) []byte {
		n := wire.IPv6Len
		if len(p) > 0 && p[0]>>4 == 4 {
			n = wire.IPv4Len
		}
		n += wire.UDPLen + 5
		return p[min(n, len(p)):min(n+3, len(p))]
	}
	return bytes.Equal(qp(a), qp(b))
}

func (s *socket) Join(g netip.Addr) error {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if s.groups[g]++; s.groups[g] > 1 {
		return nil
	}
	return s.net.join(s, g)
}

func (s *socket) Leave(g netip.Addr) error {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if s.groups[g] == 0 {
		return fmt.Errorf("multicast group %v is not joined", g)
	}
	if s.groups[g]--; s.groups[g] == 0 {
		delete(s.groups, g)
		s.net.leave(s, g)
	}
	return nil
}

// Close removes the port from the network.
func (s *socket) Close() error {
	s.groupMu.Lock()
	for g := range s.groups {
		s.net.leave(s, g)
	}
	clear(s.groups)
	s.groupMu.Unlock()
	s.net.leave(s, s.port.Addr)
	s.recvMu.Lock()
	s.closed = true
	s.recvMu.Unlock()
	return nil
}
