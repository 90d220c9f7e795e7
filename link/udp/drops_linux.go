package udp

import (
	"slices"
	"sync"
)

// kernelDrops counts what the system received for sockets and did not hand over: for want of room in the buffer, or
// because UDP's checksum was wrong. It asks for the number that SO_RXQ_OVFL reports, when somebody wants to know;
// SO_RXQ_OVFL itself tells with the next datagram, and so nothing when none comes. Safe for concurrent use.
type kernelDrops struct {
	mu   sync.Mutex
	fds  []int
	gone uint64 // of sockets that are closed
}

// watch begins with a socket.
func (k *kernelDrops) watch(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fds = append(k.fds, fd)
}

// leave is called before a socket is closed.
func (k *kernelDrops) leave(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.fds, fd); i >= 0 {
		k.gone += socketDrops(fd)
		k.fds = slices.Delete(k.fds, i, i+1)
	}
}

// total counts all sockets since the port was opened.
func (k *kernelDrops) total() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.gone
	for _, fd := range k.fds {
		n += socketDrops(fd)
	}
	return n
}
