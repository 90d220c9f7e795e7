package kproxy

import (
	"errors"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/clock"
)

// copier executes copies of one process that may take any time: of pages of a file, which can be of a network or FUSE
// file system, of pages of a process that is not trusted, which can use userfaultfd, and by the client. They run on a
// goroutine of the process, through a buffer that only this goroutine has after a delay. A copy that takes longer than
// limit fails, and all later ones fail at once, also those of other processes of the same user for a time, unless
// the user is trusted. Then one goroutine and one buffer remain until the pages come or the process exits. Such a copy
// takes about 7 microseconds more, so other copies do without.
type copier struct {
	reach reach
	clock clock.Clock
	limit time.Duration // of a copy; up to twice the time may pass before it is noticed
	uid   int           // of the process
	users *suspensions  // nil for a process that is trusted

	mu      sync.Mutex // held during a copy
	jobs    chan copyJob
	results chan copyResult // of capacity 1, so that a late result does not block
	buf     []byte
	spans   []ci.Span
	stuck   error // a copy has taken too long
	closed  bool

	ownsReach bool // the goroutine closes reach when it ends; set before jobs is closed

	watch watch
}

// copyJob is a copy of buf[:n] from or to an address of the process, or the call of check.
type copyJob struct {
	buf     []byte
	at      place
	isWrite bool
	spans   []ci.Span    // not nil: copies of these, whose bytes are in the buffer
	check   func() error // nil: a copy
	limits  int          // how often the limit of a copy may pass before it is given up, less 1
}

type copyResult struct {
	n   int
	err error
}

// copyChunk is the size of the buffer.
const copyChunk = 64 << 10

// errStuck is the error of copies of a process whose pages did not come in time.
var errStuck = errors.New("a copy of memory of the process took too long (a network or FUSE file system, " +
	"userfaultfd): such memory of it is not reached any more; memory of ual.NewMemory is shared and needs no copies")

// do copies between b and the process's memory.
func (c *copier) do(b []byte, at place, isWrite bool) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start()
	for n < len(b) && err == nil {
		var k int
		part := b[n:min(len(b), n+copyChunk)]
		buf, e := c.room(len(part))
		if e != nil {
			return n, e
		}
		if isWrite {
			copy(buf, part)
		}
		k, err = c.run(buf, at.plus(uint64(n)), isWrite)
		if !isWrite {
			copy(part, buf[:k])
		}
		n += k
	}
	return n, err
}

// copySpans copies spans of the process's memory, as ci.Copier does, as many by one job as the buffer holds.
func (c *copier) copySpans(list []ci.Span, isWrite bool) (done int, err error) {
	for done < len(list) && err == nil {
		if len(list[done].Bytes) > copyChunk {
			if _, err = c.do(list[done].Bytes, placeOf(&list[done]), isWrite); err == nil {
				done++
			}
			continue
		}
		var k int
		k, err = c.doSpans(list[done:], isWrite)
		done += k
	}
	return done, err
}

// doSpans copies as many spans at the front of a list, at least one, as the buffer holds.
func (c *copier) doSpans(list []ci.Span, isWrite bool) (done int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start()
	n, size := 0, 0
	for n < len(list) && size+len(list[n].Bytes) <= copyChunk {
		size += len(list[n].Bytes)
		n++
	}
	buf, err := c.room(size)
	if err != nil {
		return 0, err
	}
	c.spans = append(c.spans[:0], list[:n]...)
	at := 0
	for i := range c.spans {
		s := &c.spans[i]
		s.Bytes = buf[at : at+len(s.Bytes)]
		at += len(s.Bytes)
		if isWrite {
			copy(s.Bytes, list[i].Bytes)
		}
	}
	done, err = c.execute(copyJob{spans: c.spans, isWrite: isWrite})
	if !isWrite {
		for i := range list[:done] {
			at := buf[:len(list[i].Bytes)]
			buf = buf[copy(list[i].Bytes, at):]
		}
	}
	return done, err
}

// start starts the goroutine if it does not run. mu is held.
func (c *copier) start() {
	if c.jobs == nil && !c.closed {
		c.jobs, c.results = make(chan copyJob), make(chan copyResult, 1)
		c.watch.late, c.watch.limit = make(chan struct{}), c.limit
		go c.serve(c.jobs, c.results)
	}
}

// room returns the buffer of a copy of n bytes, at most copyChunk, or the reason why none is executed. mu is held.
func (c *copier) room(n int) ([]byte, error) {
	switch {
	case c.stuck != nil:
		return nil, c.stuck
	case c.closed:
		return nil, errors.ErrUnsupported
	case c.users.holds(c.uid, c.clock.Elapsed()):
		return nil, errSuspended
	}
	if len(c.buf) < n {
		c.buf = make([]byte, max(n, min(2*len(c.buf), copyChunk)))
	}
	return c.buf[:n], nil
}

// run executes a copy between the result of room and the process. After a copy that took too long, the buffer is not
// used any more. mu is held.
func (c *copier) run(buf []byte, at place, isWrite bool) (int, error) {
	return c.execute(copyJob{buf: buf, at: at, isWrite: isWrite})
}

// check calls fn, which may take any time, too. If that is longer than a number of limits, fn is not waited for, and no
// copy is executed any more.
func (c *copier) check(limits int, fn func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start()
	if _, err := c.room(0); err != nil {
		return err
	}
	_, err := c.execute(copyJob{check: fn, limits: limits - 1})
	return err
}

// execute has the goroutine execute a job. mu is held.
func (c *copier) execute(j copyJob) (int, error) {
	c.watch.begin(c.clock, j.limits)
	c.jobs <- j
	select {
	case r := <-c.results:
		c.watch.end()
		return r.n, r.err
	case <-c.watch.late:
		c.stuck, c.buf, c.spans = c.reach.abort(), nil, nil
		c.users.add(c.uid, c.clock.Elapsed())
		return 0, c.stuck
	}
}

// serve executes copies until jobs is closed.
func (c *copier) serve(jobs <-chan copyJob, results chan<- copyResult) {
	for j := range jobs {
		var x copyResult
		switch {
		case j.check != nil:
			x.err = j.check()
		case j.spans != nil:
			x.n, x.err = c.reach.copySpans(j.spans, j.isWrite)
		case j.isWrite:
			x.n, x.err = c.reach.write(j.buf, j.at)
		default:
			x.n, x.err = c.reach.read(j.buf, j.at)
		}
		results <- x
	}
	if c.ownsReach {
		c.reach.close()
	}
}

// close ends the goroutine, and the access to the process. No copy runs, except one that is stuck.
func (c *copier) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.watch.stop()
	c.ownsReach = c.stuck != nil
	if !c.ownsReach {
		c.reach.close()
	}
	if c.jobs != nil {
		close(c.jobs)
	}
}

// watch notices a copy that takes too long. Its timer runs while there are copies, and costs nothing for each of them.
type watch struct {
	late  chan struct{} // closed when a copy has taken too long
	limit time.Duration

	mu      sync.Mutex
	copies  uint64 // begun
	seen    uint64 // copies at the last tick
	left    int    // limits that may still pass
	isBusy  bool
	isArmed bool
	stopped bool
	timer   clock.Timer
}

func (w *watch) begin(c clock.Clock, limits int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.copies++
	w.left, w.isBusy = limits, true
	switch {
	case w.isArmed || w.stopped:
		return
	case w.timer == nil:
		w.timer = c.AfterFunc(w.limit, w.tick)
	default:
		w.timer.Reset(w.limit)
	}
	w.isArmed = true
}

func (w *watch) end() {
	w.mu.Lock()
	w.isBusy = false
	w.mu.Unlock()
}

// tick ends a copy that was in progress at the last tick. Without copies since then, the timer ends.
func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	isSame := w.copies == w.seen
	w.seen = w.copies
	switch {
	case w.isBusy && isSame && w.left == 0:
		w.stopped = true
		close(w.late)
	case w.isBusy || !isSame:
		if isSame {
			w.left--
		}
		w.timer.Reset(w.limit)
	default:
		w.isArmed = false
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
