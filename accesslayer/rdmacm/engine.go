package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
)

// engine moves messages through the QP of an ID: it owns the buffers, posts and reposts them, and polls the QP's one
// CQ. It has no goroutine: a call that waits polls the CQ for all calls that wait (drive), one call at a time. Conn and
// Datagram are built on it.
//
// Locks: posts is held shared during verbs of the QP, and exclusively to end them. mu guards the queues and is never
// held during a verb.
type engine struct {
	id     *cmid.ID
	qp     ci.QP
	cq     *accesslayer.CQ
	mr     *accesslayer.MR
	region ci.Region

	recvs []recvBuffer
	sends []sendBuffer
	// accept processes a successful receive, with mu held, and reports whether the buffer contains a message for the
	// application. Otherwise the buffer is posted again.
	accept func(wc *ci.WC) (isMessage bool, err error)
	// creditPlaces is the number of free entries of the send queue for work requests without a buffer, which have the
	// ID creditID. It is guarded by mu.
	creditPlaces int
	onPlace      func() // called when one of them is freed; may be nil

	posts sync.RWMutex
	shut  bool // guarded by posts: no verb may be called

	baton  chan struct{} // held by the call that polls the CQ
	wcs    [16]ci.WC     // used by the holder of the baton, as is
	repost []int

	mu       sync.Mutex
	arrived  arrivals
	free     []int // indices of sends
	failed   error // of all calls after the end; nil before
	readers  waitList
	senders  waitList
	inFlight int // sends that have not completed

	idleWaiters []*waiter // for reuse; at most as many as calls have waited at once
}

// recvBuffer is a receive buffer with its work request, so that posting does not allocate.
type recvBuffer struct {
	data []byte
	sge  [1]ci.SGE
	wr   [1]ci.RecvWR
}

// sendBuffer is an entry of the send queue, and a buffer for its work request.
type sendBuffer struct {
	data []byte
	at   uint64 // offset in the region
	sge  [1]ci.SGE
	wr   [1]ci.SendWR

	// Guarded by engine.mu.
	waited    bool // a call waits for the completion and releases the buffer
	completed bool
	wc        ci.WC
	waiters   waitList
}

// creditID is the work request ID of credit messages: see credits.
const creditID uint64 = cmid.KeepAliveID - 1

// engineConfig describes the queues of an engine.
type engineConfig struct {
	recvCount, recvSize int
	sendCount, sendSize int
	creditPlaces        int
	qp                  cmid.QPConfig // KeepAlive and OnEvent are used; the engine sets the rest
}

// start creates the QP of an ID and posts the receives.
func (e *engine) start(id *cmid.ID, cfg engineConfig) (err error) {
	e.id, e.baton, e.creditPlaces = id, make(chan struct{}, 1), cfg.creditPlaces
	q := cfg.qp
	q.OneCQ = true
	q.Caps = ci.QPCaps{SendDepth: cfg.sendCount + cfg.creditPlaces, RecvDepth: cfg.recvCount, SendSGE: 1, RecvSGE: 1}
	if err := id.CreateQP(q); err != nil {
		return err
	}
	e.qp, e.cq = id.QP(), id.RecvCQ()
	pd, err := id.PD()
	if err != nil {
		return err
	}
	b := make([]byte, cfg.recvCount*cfg.recvSize+cfg.sendCount*cfg.sendSize)
	if e.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite}); err != nil {
		return err
	}
	e.region = e.mr.Region()
	e.arrived.ring = make([]arrival, cfg.recvCount)
	e.repost = make([]int, 0, len(e.wcs))
	e.recvs = make([]recvBuffer, cfg.recvCount)
	at := uint64(0)
	for i := range e.recvs {
		r := &e.recvs[i]
		r.data = b[at : at+uint64(cfg.recvSize)]
		r.sge[0] = e.region.SGE(at, uint32(cfg.recvSize))
		r.wr[0] = ci.RecvWR{ID: recvBit | uint64(i), SGL: r.sge[:]}
		at += uint64(cfg.recvSize)
		if _, err := e.qp.PostRecv(r.wr[:]); err != nil {
			return err
		}
	}
	e.sends = make([]sendBuffer, cfg.sendCount)
	e.free = make([]int, 0, cfg.sendCount)
	for i := range e.sends {
		s := &e.sends[i]
		s.data, s.at = b[at:at+uint64(cfg.sendSize)], at
		at += uint64(cfg.sendSize)
		e.free = append(e.free, i)
	}
	return nil
}

// undo ends an engine whose start has failed, or was followed by a step that failed.
func (e *engine) undo(id *cmid.ID) error {
	if e.qp == nil {
		return id.Close()
	}
	return e.close(net.ErrClosed)
}

// arrival is a message that waits for the application.
type arrival struct {
	buffer int
	wc     ci.WC
}

// arrivals is a ring with an entry for each receive buffer.
type arrivals struct {
	ring        []arrival
	first, size int
}

func (a *arrivals) push(x arrival) {
	a.ring[(a.first+a.size)%len(a.ring)] = x
	a.size++
}

func (a *arrivals) peek() *arrival { return &a.ring[a.first] }

func (a *arrivals) pop() {
	a.first = (a.first + 1) % len(a.ring)
	a.size--
}

// waiter is a call that waits for a condition under engine.mu.
type waiter struct{ wake chan struct{} }

// newWaiter returns a waiter of this engine. Engines share none: a channel that was made in a synctest bubble must not
// be used outside of it. mu is held.
func (e *engine) newWaiter() *waiter {
	if n := len(e.idleWaiters); n > 0 {
		w := e.idleWaiters[n-1]
		e.idleWaiters = e.idleWaiters[:n-1]
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

// waitList contains the calls that wait for one kind of condition.
type waitList []*waiter

func (l *waitList) add(w *waiter) { *l = append(*l, w) }

func (l *waitList) remove(w *waiter) {
	for i, o := range *l {
		if o == w {
			last := len(*l) - 1
			(*l)[i], (*l)[last] = (*l)[last], nil
			*l = (*l)[:last]
			return
		}
	}
}

// wake makes every waiter check its condition again.
func (l waitList) wake() {
	for _, w := range l {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// until waits until ready returns true. mu is held at the call, at the return, and when ready is called, which changes
// nothing. If several ends occur together, a true condition takes precedence over the end of the connection, and that
// over the end of ctx.
func (e *engine) until(ctx context.Context, list *waitList, ready func() bool) error {
	if ready() {
		return nil
	}
	w := e.newWaiter()
	list.add(w)
	var err error
	for err == nil && !ready() {
		if err = e.failed; err != nil {
			break
		}
		e.mu.Unlock()
		select {
		case <-w.wake:
		case <-ctx.Done():
			err = ctx.Err()
		case e.baton <- struct{}{}:
			e.mu.Lock()
			idle := !ready() && e.failed == nil
			e.mu.Unlock()
			if idle {
				err = e.drive(ctx, w.wake)
			}
			<-e.baton
		}
		e.mu.Lock()
	}
	list.remove(w)
	select { // a token that was sent after the last check
	case <-w.wake:
	default:
	}
	e.idleWaiters = append(e.idleWaiters, w)
	if err != nil && ready() {
		return nil
	}
	if err != nil && e.failed != nil {
		return e.failed
	}
	return err
}

// drive waits for completions and handles them. It ends early when kick has a token: what the caller waits for may come
// about without a completion, as when another call releases a send buffer. The caller holds the baton.
func (e *engine) drive(ctx context.Context, kick <-chan struct{}) error {
	n, err := accesslayer.Poller{CQ: e.cq, Kick: kick}.Next(ctx, e.wcs[:])
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, accesslayer.ErrClosed) {
			return err
		}
		e.fail(err)
		return nil
	}
	e.handle(e.wcs[:n])
	return nil
}

// handle processes completions. The caller holds the baton.
func (e *engine) handle(wcs []ci.WC) {
	var bad error
	place := false
	e.repost = e.repost[:0]
	e.mu.Lock()
	for i := range wcs {
		wc := &wcs[i]
		if wc.Status != ci.WCSuccess && bad == nil {
			bad = wc.Err()
		}
		switch {
		case wc.ID == cmid.KeepAliveID:
		case wc.ID == creditID:
			e.creditPlaces++
			place = true
		case wc.ID&recvBit == 0:
			e.sent(int(wc.ID), wc)
		case wc.Status == ci.WCSuccess:
			if err := e.received(wc); err != nil && bad == nil {
				bad = err
			}
		}
	}
	var cause error
	if bad != nil {
		cause = e.failLocked(bad)
	}
	e.mu.Unlock()
	for _, i := range e.repost {
		e.postRecv(i)
	}
	if cause != nil {
		e.id.Abort(cause)
	} else if place && e.onPlace != nil {
		e.onPlace()
	}
}

// poll processes the completions that are in the CQ, unless another call does.
func (e *engine) poll() {
	select {
	case e.baton <- struct{}{}:
		if n, err := e.cq.Poll(e.wcs[:]); err == nil && n > 0 {
			e.handle(e.wcs[:n])
		}
		<-e.baton
	default:
	}
}

// recvBit is set in the work request IDs of receives. It distinguishes them from sends: of a completion with an
// error, only ID, Status and QPN are valid.
const recvBit uint64 = 1 << 62

// sent processes the completion of a send buffer; mu is held.
func (e *engine) sent(i int, wc *ci.WC) {
	s := &e.sends[i]
	e.inFlight--
	if s.waited {
		s.completed, s.wc = true, *wc
		s.waiters.wake()
	} else {
		e.free = append(e.free, i)
	}
	e.senders.wake()
}

// received processes a successful receive; mu is held.
func (e *engine) received(wc *ci.WC) error {
	i := int(wc.ID &^ recvBit)
	isMessage, err := e.accept(wc)
	switch {
	case err != nil:
		return err
	case isMessage:
		e.arrived.push(arrival{buffer: i, wc: *wc})
		e.readers.wake()
	default:
		e.repost = append(e.repost, i)
	}
	return nil
}

// postRecv posts a receive buffer. It ignores errors: they mean that the QP has failed, which its completions report.
func (e *engine) postRecv(i int) {
	e.posts.RLock()
	defer e.posts.RUnlock()
	if !e.shut {
		_, _ = e.qp.PostRecv(e.recvs[i].wr[:])
	}
}

// postSend posts the work request of a send buffer, or one without a buffer.
func (e *engine) postSend(wr []ci.SendWR) error {
	e.posts.RLock()
	defer e.posts.RUnlock()
	if e.shut {
		return e.err()
	}
	_, err := e.qp.PostSend(wr)
	return err
}

// err returns the error with which the engine ended, nil before.
func (e *engine) err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// acquire waits for a send buffer for a work request for whose completion the caller waits.
func (e *engine) acquire(ctx context.Context) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.acquireLocked(ctx, true, nil)
}

// acquireLocked waits for a send buffer and, if peer is not nil, until the peer can receive a message; mu is held. With
// waited, the caller waits for the completion of the work request that it posts.
func (e *engine) acquireLocked(ctx context.Context, waited bool, peer *credits) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if e.failed != nil {
		return 0, e.failed
	}
	err := e.until(ctx, &e.senders, func() bool {
		return e.failed == nil && len(e.free) > 0 && (peer == nil || peer.canSend())
	})
	if err != nil {
		return 0, err
	}
	return e.take(waited), nil
}

// tryAcquire is acquire without waiting; ok is false if there is no free buffer.
func (e *engine) tryAcquire(waited bool) (i int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed != nil || len(e.free) == 0 {
		return 0, false
	}
	return e.take(waited), true
}

// take removes a send buffer from the free ones; mu is held.
func (e *engine) take(waited bool) int {
	last := len(e.free) - 1
	i := e.free[last]
	e.free = e.free[:last]
	e.inFlight++
	s := &e.sends[i]
	s.waited, s.completed = waited, false
	return i
}

// post posts the work request of a send buffer. After an error the buffer is free again.
func (e *engine) post(i int, wr ci.SendWR, n int) error {
	s := &e.sends[i]
	wr.ID = uint64(i)
	wr.Flags |= ci.SendSignaled
	if wr.SGL == nil && n > 0 {
		s.sge[0] = e.region.SGE(s.at, uint32(n))
		wr.SGL = s.sge[:]
	}
	s.wr[0] = wr
	err := e.postSend(s.wr[:])
	if err == nil {
		return nil
	}
	e.mu.Lock()
	e.inFlight--
	e.releaseLocked(i)
	e.mu.Unlock()
	return e.failedOr(err)
}

// failedOr returns the error with which the engine or the ID ended, else err.
func (e *engine) failedOr(err error) error {
	if why := e.id.Err(); why != nil {
		e.fail(why)
	}
	if why := e.err(); why != nil {
		return why
	}
	return err
}

// wait waits for the completion of a send buffer that was acquired with waited set. The caller keeps the buffer; but if
// ctx ends, its completion releases it.
func (e *engine) wait(ctx context.Context, i int) (ci.WC, error) {
	s := &e.sends[i]
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.until(ctx, &s.waiters, func() bool { return s.completed }); err != nil {
		s.waited = false
		return ci.WC{}, err
	}
	switch bad := s.wc.Err(); { // handle has ended the engine
	case s.wc.Status == ci.WCSuccess:
		return s.wc, nil
	case s.wc.Status == ci.WCFlushErr || errors.Is(e.failed, bad):
		return s.wc, e.failed
	default: // another call saw the end of the ID before this completion was polled
		return s.wc, failure.Ended(fmt.Errorf("%w: %w", ErrQPFailed, bad))
	}
}

// abandon ends the use of send buffer i without waiting. The buffer is released when its work request has completed.
func (e *engine) abandon(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := &e.sends[i]; !s.completed {
		s.waited = false // its completion releases it
		return
	}
	e.releaseLocked(i)
}

// release releases send buffer i, and wakes calls that wait for a free one.
func (e *engine) release(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.releaseLocked(i)
}

// releaseLocked is release with mu held.
func (e *engine) releaseLocked(i int) {
	e.free = append(e.free, i)
	e.senders.wake()
}

// fail ends the engine. Calls return cause as the reason, or the reason of the ID's end if it has ended, because that
// flushes work; but a work request that failed by itself is the reason, whichever end the ID saw.
func (e *engine) fail(cause error) {
	e.mu.Lock()
	cause = e.failLocked(cause)
	e.mu.Unlock()
	if cause != nil {
		e.id.Abort(cause)
	}
}

// failLocked is fail with mu held. It returns the reason with which the caller ends the ID after it has released mu, or
// nil if the engine had ended before.
func (e *engine) failLocked(cause error) error {
	if e.failed != nil {
		return nil
	}
	why := e.id.Err()
	_, isOfWork := errors.AsType[ci.WCError](cause)
	isFlush := errors.Is(cause, ci.WCFlushErr.Err())
	switch {
	case why != nil && (isFlush || !isOfWork):
		cause = why
	case isFlush:
		cause = ErrQPFailed // an event of the QP has the reason
	default: // a failed work request comes before a DREQ that its peer sends because of it
		cause = fmt.Errorf("%w: %w", ErrQPFailed, cause)
	}
	e.setFailed(cause)
	return cause
}

// setFailed makes cause the error of all calls; mu is held.
func (e *engine) setFailed(cause error) {
	e.failed = failure.Ended(cause)
	e.readers.wake()
	e.senders.wake()
	for i := range e.sends {
		e.sends[i].waiters.wake()
	}
}

// close ends all calls with cause, and releases the buffers. It waits for verbs in progress.
func (e *engine) close(cause error) error {
	e.mu.Lock()
	e.setFailed(cause) // also if the engine has ended with another error
	e.mu.Unlock()
	e.posts.Lock()
	e.shut = true
	e.posts.Unlock()
	err := e.id.Close()
	if e.mr != nil {
		err = errors.Join(err, failure.UnlessGone(e.mr.Destroy()))
	}
	return err
}
