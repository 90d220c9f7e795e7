package chaos

import (
	"bytes"
	"math/rand/v2"
	"sync"

	"ciddk/link/sim"
)

// sniffer stores recent packets for forgers.
type sniffer struct {
	mu   sync.Mutex
	kept [128][]byte
	next int
	seen int
}

// see stores every fourth packet.
func (s *sniffer) see(d *sim.Datagram) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen++; s.seen%4 != 0 {
		return
	}
	s.kept[s.next] = append(s.kept[s.next][:0], d.Data...)
	s.next = (s.next + 1) % len(s.kept)
}

// latest returns a copy of the last stored packet, or nil. any returns a random one.
func (s *sniffer) latest() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.kept[(s.next+len(s.kept)-1)%len(s.kept)])
}

func (s *sniffer) any(r *rand.Rand) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.kept[r.IntN(len(s.kept))])
}
