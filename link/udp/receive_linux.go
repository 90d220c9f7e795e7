package udp

import (
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
)

// receive is the function of the goroutine.
func (s *mmsgSocket) receive() {
	defer close(s.done)
	fds := make([]unix.PollFd, 0, 3+maxGroups)
	seen := s.drives.Load()
	step := time.NewTimer(pollStep)
	defer step.Stop()
	for !s.closed.Load() {
		s.attended.Store(false)
		// An acknowledgement that a poller leaves behind must be sent even if that poll was the last: by this goroutine
		// now, or after the poller has seen that it sleeps and wakes it.
		s.asleep.Store(true)
		s.port.Receiver.FlushAcks()
		fds = s.pollSet(fds[:0])
		// EINTR and the like: retry.
		_, _ = unix.Ppoll(fds, nil, nil)
		s.asleep.Store(false)
		s.clearWake(fds)
		if fds[1].Revents != 0 {
			s.readErrors()
		}
		n := s.drain()
		now := s.drives.Load()
		if now-seen < fewPolls && (n > 0 || now == seen) {
			seen = now
			continue
		}
		// A consumer polls, or this goroutine was woken while a consumer drives: pause until consumers stop polling, or
		// until one is about to sleep.
		s.aside.Store(true)
		for !s.closed.Load() && !s.attended.Load() {
			seen = now
			// Not in ppoll, which would block a processor of the scheduler while others spin.
			step.Reset(pollStep)
			select {
			case <-step.C:
			case <-s.attend:
			case <-s.closing:
			}
			s.drain()
			s.readRecentErrors()
			s.port.Receiver.FlushAcks()
			if now = s.drives.Load(); now-seen < busyPolls {
				break
			}
		}
		s.aside.Store(false)
		seen = s.drives.Load()
	}
}

// pollSet returns the descriptors to wait for: first the eventfd, then that of the errors of QP1's datagrams.
func (s *mmsgSocket) pollSet(fds []unix.PollFd) []unix.PollFd {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	fds = append(fds, unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN}, unix.PollFd{Fd: int32(s.gsi)},
		unix.PollFd{Fd: int32(s.in), Events: unix.POLLIN})
	for _, g := range s.groups {
		fds = append(fds, unix.PollFd{Fd: int32(g.fd), Events: unix.POLLIN})
	}
	return fds
}

func (s *mmsgSocket) clearWake(fds []unix.PollFd) {
	if fds[0].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(s.wake, b[:]) // already empty
	}
}

// drain receives until nothing is left and returns the number of packets, or 0 while a poller receives. It yields after
// each batch. The runtime preempts a goroutine that does not yield only after 10 ms; if packets keep arriving, other
// goroutines, such as a consumer that polls, would wait that long for a processor.
func (s *mmsgSocket) drain() (n int) {
	idle, drives := 0, s.drives.Load()
	for !s.closed.Load() && s.recvMu.TryLock() {
		k := s.receiveAll(false)
		s.recvMu.Unlock()
		if k > 0 {
			n += k
			idle = 0
			runtime.Gosched()
			continue
		}
		// After a packet, more may follow soon. Another read costs less than sleeping and being woken, which the sender
		// pays for, too. If a consumer drives, it reads itself.
		if idle++; n == 0 || idle > spinReceives || s.drives.Load() != drives {
			break
		}
		runtime.Gosched()
	}
	return n
}

// drive receives what is available, for a consumer whose queue is empty.
func (s *mmsgSocket) drive() int {
	s.drives.Add(1)
	if !s.recvMu.TryLock() {
		return 0
	}
	n := 0
	if !s.closed.Load() && s.rx != nil {
		n = s.receiveAll(true)
	}
	s.recvMu.Unlock()
	switch {
	case n > 0:
		if s.asleep.Load() {
			s.signal()
		}
	case s.port.Receiver != nil:
		s.port.Receiver.FlushAcks()
	}
	return n
}

// CatchUp receives until nothing is left, or until more has arrived than the buffer holds: then everything that had
// arrived before the call has been delivered. It returns early if another goroutine receives.
func (s *mmsgSocket) CatchUp(uint64) (next uint64, done bool) {
	empty := 0
	for n := 0; n < s.backlog &&
		empty < 2; { // twice, since a receive may report the error of an earlier send (ICMP) instead
		if s.closed.Load() {
			break
		}
		if !s.recvMu.TryLock() {
			return 0, false
		}
		k := 0
		if !s.closed.Load() && s.rx != nil {
			k = s.receiveAll(false)
		}
		s.recvMu.Unlock()
		n += k
		if k == 0 {
			empty++
			continue
		}
		empty = 0
		runtime.Gosched()
	}
	return 0, true
}

// receiveAll makes one receive on each socket and delivers. The caller holds recvMu.
func (s *mmsgSocket) receiveAll(polled bool) int {
	n := s.rx.receive(s.in, netip.AddrPortFrom(s.port.Addr, s.port.UDP), polled)
	for i := range s.groups {
		n += s.rx.receive(s.groups[i].fd, netip.AddrPortFrom(s.groups[i].group, s.port.UDP), polled)
	}
	return n
}

// Drive makes the port an rvt.Driver. It does nothing on portable sockets.
func (p *Port) Drive() int {
	n := 0
	for _, a := range p.table.Ports() {
		if a == nil {
			continue
		}
		if s, ok := a.Socket.(*mmsgSocket); ok {
			n += s.drive()
		}
	}
	return n
}

// Attend wakes the goroutines of the sockets if they are paused.
func (p *Port) Attend() {
	for _, a := range p.table.Ports() {
		if a == nil {
			continue
		}
		if s, ok := a.Socket.(*mmsgSocket); ok {
			s.comeBack()
		}
	}
}

// comeBack wakes the goroutine if it is paused.
func (s *mmsgSocket) comeBack() {
	s.attended.Store(true)
	if s.aside.Load() {
		select {
		case s.attend <- struct{}{}:
		default: // it has been woken
		}
	}
}

// A recvBatch is the storage of one receive.
type recvBatch struct {
	*rocev2.Decoder
	port  *rocev2.Port
	raw   bool // received packets have their IPv4 headers
	stat  *rocev2.Stats
	most  int // messages to request: 1 after an empty receive, more after full ones
	dirty int // headers that the system has written
	hdrs  [recvMessages]mmsghdr
	iovs  [recvMessages]unix.Iovec
	names [recvMessages]unix.RawSockaddrInet6
	ctls  [recvMessages][shownRoom]byte
	bufs  []byte
}

const (
	recvMessages = 32 // maximum messages per receive
	recvLarge    = 4  // the same for long trains: received data is still in the cache when it is copied
	recvBytes    = 64 << 10
)

func newRecvBatch(p *rocev2.Port, raw bool) *recvBatch {
	// Pages that no datagram reaches are never touched.
	r := &recvBatch{port: p, Decoder: rocev2.NewDecoder(p, !raw), raw: raw, stat: &p.Stats,
		bufs: make([]byte, recvMessages*recvBytes), most: 1, dirty: recvMessages}
	for i := range r.hdrs {
		r.iovs[i] = iovec(r.bufs[i*recvBytes : (i+1)*recvBytes])
		r.hdrs[i].init(&r.names[i], &r.iovs[i])
	}
	return r
}

// receive calls recvmmsg once and delivers the datagrams. It returns their number (a train counts as one).
func (r *recvBatch) receive(fd int, dst netip.AddrPort, polled bool) int {
	for i := range r.dirty {
		r.hdrs[i].reset(r.ctls[i][:])
	}
	n, err := recvmmsg(fd, r.hdrs[:r.most])
	raceReceived()
	r.dirty = n
	if err != nil || n == 0 {
		r.most = 1
		return 0 // nothing available, or an error of an earlier send (ICMP), which does not concern receiving
	}
	full := n == r.most
	r.stat.SystemCalls.Add(1)
	r.Polled = polled
	total := 0
	for i := range n {
		h := &r.hdrs[i]
		size := int(h.size)
		total += size
		if size > recvBytes || h.truncated() {
			r.port.Receiver.Count(rvt.DropMalformed, 1)
			continue
		}
		b := r.bufs[i*recvBytes : i*recvBytes+size]
		if r.raw {
			r.RawIP(b, dst)
			continue
		}
		r.Datagram(sourceOf(&r.names[i]), dst, b, control(r.ctls[i][:h.controlLen()], r.Decoder))
	}
	limit := recvMessages
	if total/n > recvBytes/4 {
		limit = recvLarge
	}
	if full {
		r.most *= 4
	}
	r.most = min(r.most, limit)
	r.Deliver()
	return n
}

// sourceOf parses an address that the system wrote.
func sourceOf(n *unix.RawSockaddrInet6) netip.AddrPort {
	if n.Family == unix.AF_INET {
		return sourceOf4(n)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(n.Addr), ntohs(n.Port))
}
