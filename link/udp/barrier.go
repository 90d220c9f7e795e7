package udp

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"
)

// A blocking read of package net does not report whether the socket holds more. The portable socket therefore sends a
// barrier: a datagram to its own address. When it arrives, everything that was received before it has been delivered.

// barrierLen differs from the length of any packet, which is a multiple of 4.
const barrierLen = 9

// barrierPatience is the time after which a barrier counts as lost. It is lost if the receive buffer is full.
const barrierPatience = 20 * time.Millisecond

// barrier numbers the barriers of a socket. At most one is under way.
type barrier struct {
	mu     sync.Mutex
	sent   uint64
	seen   uint64
	wanted uint64 // the latest that a caller waits for
	sentAt time.Duration
}

// want returns the number of the barrier to wait for, and whether it has arrived. This is mark or, if mark is 0, a
// barrier that is sent after the call. ask is the number of the barrier to send now, or 0.
func (b *barrier) want(mark uint64, now time.Duration) (next, ask uint64, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mark == 0 {
		mark = b.sent + 1
	}
	if b.seen >= mark {
		return mark, 0, true
	}
	b.wanted = max(b.wanted, mark)
	switch {
	case b.sent == b.seen:
		b.sent++
	case now-b.sentAt < barrierPatience:
		return mark, 0, false
	}
	b.sentAt = now
	return mark, b.sent, false
}

// came records that barrier n has arrived. It returns the number of the next one to send, or 0.
func (b *barrier) came(n uint64, now time.Duration) (ask uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n != b.sent || n == b.seen {
		return 0 // sent twice, or forged
	}
	b.seen = n
	if b.wanted <= b.seen {
		return 0
	}
	b.sent++
	b.sentAt = now
	return b.sent
}

// sendBarrier reports whether the system accepted it.
func (s *portableSocket) sendBarrier(n uint64) bool {
	var b [barrierLen]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, err := s.conn.WriteToUDPAddrPort(b[:], netip.AddrPortFrom(s.port.Addr, s.port.UDP))
	return err == nil
}

// isBarrier reports whether a datagram is a barrier of this socket, and records its arrival.
func (s *portableSocket) isBarrier(from netip.AddrPort, b []byte) bool {
	if len(b) != barrierLen || from.Port() != s.port.UDP ||
		from.Addr().Unmap().WithZone("") != s.port.Addr.WithZone("") {
		return false
	}
	if ask := s.mark.came(binary.BigEndian.Uint64(b), s.port.Clock.Elapsed()); ask != 0 {
		s.sendBarrier(ask)
	}
	return true
}
