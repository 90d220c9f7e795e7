package native

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/schema"
	"ciddk/internal/passedfd"
)

// flights counts descriptors in flight: those that this process has passed to others, and that these have not received.
// The kernel counts them for the user of this process, and passes no more beyond RLIMIT_NOFILE (ETOOMANYREFS). So each
// process and each user of the other ends has a limit here, far below that one.
//
// A message stays in flight in the queue of the other end, also when this end is closed. So a socket by which
// descriptors were passed is kept until the other end has received all of its messages or is closed.
type flights struct {
	most, mostOfUser, mostOfClient int

	// reserve is more than most: a user without descriptors in flight may pass a message beyond most, so that several
	// users together do not keep another one from working.
	reserve int

	mu      sync.Mutex
	count   int
	users   map[int]int          // by user id
	outlets map[*outlet]struct{} // all that have descriptors
	left    map[*outlet]struct{} // of these, the ones that have no owner
	refused uint64
}

// outlet is a socket by which descriptors are passed. flights.mu guards the fields from count on.
type outlet struct {
	p   *passer
	raw syscall.RawConn

	count  int       // descriptors that were passed since the socket was last seen empty
	isBusy bool      // a message is being sent, and the socket may be empty until it is
	left   io.Closer // closes the socket when it is empty; nil: the owner uses it
}

// passer is a process to which descriptors are passed. flights.mu guards the fields from count on.
type passer struct {
	uid     int
	discard *passedfd.Discarder
	ended   chan struct{} // closed when the connection is

	count    int // of all its outlets
	hasEnded bool
}

const (
	// maxInFlight, maxInFlightOfClient and minInFlight limit what newFlights makes of RLIMIT_NOFILE. Each process may
	// have those of one message, at least.
	maxInFlight, maxInFlightOfClient, minInFlight = 4096, 16, 2 * schema.MaxFiles

	// flightWait is the time for which a message waits until there are fewer descriptors in flight, and flightRetry the
	// longest time between two attempts.
	flightWait, flightRetry = 2 * time.Second, 50 * time.Millisecond
)

// inFlight is the count of this process. It is one for all connections, because the kernel's is.
var inFlight = sync.OnceValue(func() *flights {
	most := int64(math.MaxInt32)
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil && l.Cur < math.MaxInt32 {
		most = int64(l.Cur)
	}
	return newFlights(int(most))
})

// newFlights returns a count for a process that may have a number of descriptors.
func newFlights(files int) *flights {
	most := max(min(files/8, maxInFlight), minInFlight)
	return &flights{most: most, mostOfUser: most / 2, reserve: max(files/2, most),
		mostOfClient: max(min(most/4, maxInFlightOfClient), schema.MaxFiles),
		users:        map[int]int{}, outlets: map[*outlet]struct{}{}, left: map[*outlet]struct{}{}}
}

// InFlight returns the number of descriptors that this process has passed and that may not have been received, and how
// many messages were refused because of their limits.
func InFlight() (count int, refused uint64) {
	f := inFlight()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweep(f.outlets)
	return f.count, f.refused
}

// retry calls send for a limited time, until its error is not ErrInFlight. isLast is set for the last attempt. Other
// error: net.ErrClosed (the connection has ended).
func (p *passer) retry(send func(isLast bool) error) error {
	wait := time.Millisecond
	for waited := time.Duration(0); ; waited, wait = waited+wait, min(2*wait, flightRetry) {
		isLast := waited >= flightWait
		err := send(isLast)
		if isLast || !errors.Is(err, ErrInFlight) {
			return err
		}
		again := make(chan struct{})
		t := p.discard.Clock().AfterFunc(wait, func() { close(again) })
		select {
		case <-again:
		case <-p.ended:
			t.Stop()
			return net.ErrClosed
		}
	}
}

// take counts n descriptors of a message that is sent next. sent follows if there is no error. isLast is set if the
// message is refused otherwise.
func (f *flights) take(o *outlet, n int, isLast bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweep(f.left)
	err := f.check(o.p, n)
	if err != nil && f.settle(o) {
		err = f.check(o.p, n)
	}
	if err != nil {
		f.sweep(f.outlets)
		err = f.check(o.p, n)
	}
	switch {
	case o.p.hasEnded:
		return net.ErrClosed
	case err != nil && isLast:
		f.refused++
		return err
	case err != nil:
		return err
	}
	o.isBusy = true
	f.outlets[o] = struct{}{}
	f.add(o, n)
	return nil
}

// check returns ErrInFlight if a process cannot have n more. mu is held.
func (f *flights) check(p *passer, n int) error {
	total := f.count + n
	switch {
	case p.count+n > f.mostOfClient:
		return fmt.Errorf("%w: %d of this client, and the limit of a client is %d", ErrInFlight, p.count,
			f.mostOfClient)
	case f.users[p.uid]+n > f.mostOfUser:
		return fmt.Errorf("%w: %d of user %d, and the limit of a user is %d (a sixteenth of RLIMIT_NOFILE)",
			ErrInFlight, f.users[p.uid], p.uid, f.mostOfUser)
	case total > f.most && (f.users[p.uid] > 0 || total > f.reserve):
		return fmt.Errorf("%w: %d of all clients, and the limit is %d (an eighth of RLIMIT_NOFILE)", ErrInFlight,
			f.count, f.most)
	}
	return nil
}

// add adds to what is in flight. mu is held.
func (f *flights) add(o *outlet, n int) {
	f.count += n
	o.count += n
	o.p.count += n
	if f.users[o.p.uid] += n; f.users[o.p.uid] == 0 {
		delete(f.users, o.p.uid)
	}
}

// sent ends a message of n descriptors for which take has been called. err is that of the system call.
func (f *flights) sent(o *outlet, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.isBusy = false
	if err != nil {
		f.add(o, -n)
	}
	if o.count == 0 {
		f.remove(o)
	}
}

// sweep removes the outlets of a set whose descriptors have been received. mu is held.
func (f *flights) sweep(set map[*outlet]struct{}) {
	for o := range set {
		f.settle(o)
	}
}

// settle removes an outlet if its descriptors have been received, and reports whether they have. mu is held.
func (f *flights) settle(o *outlet) bool {
	if o.isBusy || !isEmpty(o.raw) {
		return false
	}
	f.remove(o)
	return true
}

// remove removes an outlet without descriptors in flight. mu is held.
func (f *flights) remove(o *outlet) {
	f.add(o, -o.count)
	delete(f.outlets, o)
	delete(f.left, o)
	if o.left != nil {
		o.p.discard.Start(o.p.uid, o.left) // its queue can have descriptors that do not close
		o.left = nil
	}
}

// drain waits until a process can have n more descriptors, or the other end has received all that was sent by o. It is
// for connections: other messages wait meanwhile, as they do if the socket is full, and the end of the connection ends
// it. One goroutine calls it at a time, and none sends descriptors by o meanwhile.
func (f *flights) drain(o *outlet, n int) error {
	f.mu.Lock()
	isFull := o.p.count+n > f.mostOfClient
	f.mu.Unlock()
	if !isFull {
		return nil
	}
	return o.raw.Write(func(uintptr) bool { // called again when the other end has received a message
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.settle(o)
	})
}

// end ends the connection of a process, which has no more messages from now on. It reports whether the outlet of the
// connection has descriptors.
func (f *flights) end(o *outlet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !o.p.hasEnded {
		o.p.hasEnded = true
		close(o.p.ended)
	}
	f.sweep(f.left)
	return o.count > 0
}

// leave has f close a socket when the other end has received the descriptors, or has closed it. It reports false if
// there are none any more: the caller closes it.
func (f *flights) leave(o *outlet, c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case o.left != nil: // it has been called before
		return true
	case o.count == 0 || f.settle(o):
		return false
	}
	o.left = c
	f.left[o] = struct{}{}
	return true
}

// emptyQueue is a number of bytes that no message has in the kernel. While a message is being released, it counts as
// one byte.
const emptyQueue = 64

// isEmpty reports whether the other end of a Unix socket has received all messages of this end, or has been closed.
func isEmpty(raw syscall.RawConn) bool {
	is := false
	err := raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		is = err == nil && n < emptyQueue
	})
	return is || err != nil // a socket that its owner has closed: no descriptors were left
}

// rights returns the control message that passes files.
func rights(files []*os.File) ([]byte, error) {
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn() // Fd would change the mode of the descriptor that the other end receives
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
		}
		if err != nil {
			return nil, fmt.Errorf("native: descriptor %d: %w", i, err)
		}
	}
	return unix.UnixRights(fds...), nil
}

// pass is Send of a connection with Guard.
func (c *Conn) pass(m []byte, n int, oob []byte) error {
	f := inFlight()
	return c.outlet.p.retry(func(isLast bool) error {
		c.passing.Lock()
		defer c.passing.Unlock()
		if err := f.drain(c.outlet, n); err != nil {
			return err
		}
		if err := f.take(c.outlet, n, isLast); err != nil {
			return err
		}
		_, _, err := c.c.WriteMsgUnix(m, oob, nil)
		f.sent(c.outlet, n, err)
		return err
	})
}

// SendTo sends one message with descriptors by a Unix socket that the process at the other end has sent, and that it
// receives from. The connection has Guard. It waits for a limited time while the process has too many descriptors that
// it has not received, and does not wait for room in the socket. It reports whether it keeps the socket, which it then
// closes when the descriptors are received; otherwise, the socket remains the caller's. The files remain the caller's.
// Errors: ErrInFlight; net.ErrClosed (the connection has ended); those of the system call.
func (c *Conn) SendTo(to *os.File, m []byte, files []*os.File) (kept bool, err error) {
	oob, err := rights(files)
	if err != nil {
		return false, err
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return false, err
	}
	o := &outlet{p: c.outlet.p, raw: raw}
	f := inFlight()
	if err := o.p.retry(func(isLast bool) error { return f.take(o, len(files), isLast) }); err != nil {
		return false, err
	}
	if e := raw.Control(func(fd uintptr) {
		err = sendNow(int(fd), m, oob)
	}); e != nil {
		err = e
	}
	f.sent(o, len(files), err)
	return err == nil && f.leave(o, to), err
}

// sendNow sends a message without waiting.
func sendNow(fd int, m, oob []byte) error {
	for {
		err := unix.Sendmsg(fd, m, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}
