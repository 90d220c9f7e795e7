package udp

import (
	"slices"
	"sync"
)

// kernelDrops counts the datagrams that the system received for the port's sockets and dropped, because the receive
// buffer was full or the UDP checksum was wrong. It reads the counters only on request. SO_RXQ_OVFL would report the
// same number, but only with the next datagram. All methods may be called concurrently.
type kernelDrops struct {
	mu   sync.Mutex
	fds  []int
	gone uint64 // drops of sockets that are closed
}

// watch adds a socket.
func (k *kernelDrops) watch(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fds = append(k.fds, fd)
}

// leave removes a socket and keeps its count. It is called before the socket is closed.
func (k *kernelDrops) leave(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.fds, fd); i >= 0 {
		k.gone += socketDrops(fd)
		k.fds = slices.Delete(k.fds, i, i+1)
	}
}

// total returns the drops of all sockets since the port was opened.
func (k *kernelDrops) total() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.gone
	for _, fd := range k.fds {
		n += socketDrops(fd)
	}
	return n
}
