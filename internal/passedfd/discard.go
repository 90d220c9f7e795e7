package passedfd

import (
	"io"
	"sync"
	"time"

	"ciddk/clock"
)

// A Discarder closes descriptors that processes have sent. A close can take any time: that of a TCP socket as long as
// the process has set with SO_LINGER, that of a file of a FUSE file system until the process answers. So there is one
// goroutine, and one thread, for each user that has something to close. Methods may be called concurrently.
type Discarder struct {
	clock clock.Clock

	mu    sync.Mutex
	users map[int]*discards
}

// discards are the descriptors of one user's processes that are to be closed. Discarder.mu guards all but late.
type discards struct {
	queue []discard
	begun uint64 // of those that the goroutine has taken
	seen  uint64 // begun at the last tick
	timer clock.Timer
	late  chan struct{} // closed when a close takes too long
	stuck bool          // late is closed
}

// discard is the descriptors of one call of Close.
type discard struct {
	files []io.Closer
	done  chan struct{}
}

// discardLimit is the time that a close may take. Up to twice the time may pass before it is noticed.
const discardLimit = 5 * time.Second

// NewDiscarder returns a Discarder. clk is the source of time for discardLimit.
func NewDiscarder(clk clock.Clock) *Discarder {
	return &Discarder{clock: clk, users: map[int]*discards{}}
}

// Clock returns the source of time.
func (d *Discarder) Clock() clock.Clock { return d.clock }

// Close closes descriptors of a user's processes. It returns when they are closed, or when a close of that user takes
// longer than discardLimit; the rest is then closed after that one.
func (d *Discarder) Close(uid int, files ...io.Closer) {
	if len(files) == 0 {
		return
	}
	done, late := d.start(uid, files)
	select {
	case <-done:
	case <-late:
	}
}

// Start is Close, and does not wait.
func (d *Discarder) Start(uid int, files ...io.Closer) {
	if len(files) > 0 { // most datagrams pass none
		d.start(uid, files)
	}
}

// start has descriptors closed. done is closed when they are, and late when a close takes too long.
func (d *Discarder) start(uid int, files []io.Closer) (done, late <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	if u == nil {
		u = &discards{late: make(chan struct{})}
		d.users[uid] = u
		u.timer = d.clock.AfterFunc(discardLimit, func() { d.tick(u) })
		go d.serve(uid, u)
	}
	x := discard{files, make(chan struct{})}
	u.queue = append(u.queue, x)
	return x.done, u.late
}

// IsStuck reports whether a close of a user's descriptors takes longer than discardLimit. The caller accepts no more of
// them then, so that their number has a limit.
func (d *Discarder) IsStuck(uid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	return u != nil && u.stuck
}

// serve closes the descriptors of a user until there are none.
func (d *Discarder) serve(uid int, u *discards) {
	for {
		d.mu.Lock()
		if len(u.queue) == 0 {
			delete(d.users, uid)
			u.timer.Stop()
			d.mu.Unlock()
			return
		}
		x := u.queue[0]
		u.queue = u.queue[1:]
		u.begun++
		d.mu.Unlock()
		for _, f := range x.files {
			_ = f.Close() // the descriptor is gone in any case
		}
		close(x.done)
	}
}

// tick notices a close that was in progress at the last tick.
func (d *Discarder) tick(u *discards) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case u.stuck:
	case u.begun > 0 && u.begun == u.seen:
		u.stuck = true
		close(u.late)
	default:
		u.seen = u.begun
		u.timer.Reset(discardLimit)
	}
}
