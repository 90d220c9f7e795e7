package udp

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"
)

// A blocking read of package net does not show whether the socket holds more, so the portable socket finds out by a
// barrier: a datagram to its own address. When the barrier comes back, everything that had arrived before it has been
// delivered.

// barrierLen is no length of a packet, which is a multiple of 4.
const barrierLen = 9

// barrierPatience is how long a barrier may take before it counts as lost, as it is when the receive buffer is full.
const barrierPatience = 20 * time.Millisecond

// barrier numbers the barriers of a socket. At most one is under way.
type barrier struct {
	mu     sync.Mutex
	sent   uint64
	seen   uint64
	asked  uint64 // the latest that somebody waits for
	sentAt time.Duration
}

// want returns the number of a barrier that is sent after the call, for mark 0, or else mark, and whether it has come
// back. ask is the number of one to be sent now, or 0.
func (b *barrier) want(mark uint64, now time.Duration) (next, ask uint64, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mark == 0 {
		mark = b.sent + 1
	}
	if b.seen >= mark {
		return mark, 0, true
	}
	b.asked = max(b.asked, mark)
	switch {
	case b.sent == b.seen:
		b.sent++
	case now-b.sentAt < barrierPatience:
		return mark, 0, false
	}
	b.sentAt = now
	return mark, b.sent, false
}

// came notes that barrier n has come back. It returns the number of the next one to be sent, or 0.
func (b *barrier) came(n uint64, now time.Duration) (ask uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n != b.sent || n == b.seen {
		return 0 // sent twice, or forged
	}
	b.seen = n
	if b.asked <= b.seen {
		return 0
	}
	b.sent++
	b.sentAt = now
	return b.sent
}

// sendBarrier reports whether the system took it.
func (s *portableSocket) sendBarrier(n uint64) bool {
	var b [barrierLen]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, err := s.conn.WriteToUDPAddrPort(b[:], netip.AddrPortFrom(s.port.Addr, s.port.UDP))
	return err == nil
}

// isBarrier reports whether a datagram is a barrier of this socket, and notes that it has come.
func (s *portableSocket) isBarrier(from netip.AddrPort, b []byte) bool {
	if len(b) != barrierLen || from.Port() != s.port.UDP ||
		from.Addr().Unmap().WithZone("") != s.port.Addr.WithZone("") {
		return false
	}
	if ask := s.mark.came(binary.BigEndian.Uint64(b), s.port.Clock.Now()); ask != 0 {
		s.sendBarrier(ask)
	}
	return true
}
