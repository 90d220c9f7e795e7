package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"ciddk/ci"
)

// Work request IDs. They are also the bits that describe what a QP waits for.
const (
	recvID = 1
	sendID = 2
)

// exchange sends and receives -n messages each. A QP sends its next message when the last one has completed and the
// reply has arrived.
func (e *endpoint) exchange(ctx context.Context) error {
	pending := make([]uint64, len(e.qps))
	for i := range e.qps {
		pending[i] = recvID
		if !e.isServer() {
			if err := e.postSend(i, 0); err != nil {
				return err
			}
			pending[i] |= sendID
		}
	}
	sent, received, posted := 0, 0, e.o.RxDepth
	wcs := make([]ci.WC, 2*len(e.qps))
	for sent < e.o.Iters || received < e.o.Iters {
		n, err := e.wait(ctx, wcs)
		if err != nil {
			return fmt.Errorf("%d sent, %d received: %w", sent, received, err)
		}
		for _, wc := range wcs[:n] {
			i, ok := e.byNum[wc.QPN]
			if !ok {
				return fmt.Errorf("a completion of QP %#x, which is not one of this program", uint32(wc.QPN))
			}
			if wc.Status != ci.WCSuccess {
				return fmt.Errorf("work request %d of QP %#x: %w", wc.ID, uint32(wc.QPN), wc.Err())
			}
			switch wc.ID {
			case sendID:
				sent++
			case recvID:
				if err := e.check(wc, received); err != nil {
					return err
				}
				received++
				// Before this side sends its next message, and so before the last ones of the peer can arrive.
				e.imp.off.Store(received+2*len(e.qps) >= e.o.Iters)
				if posted--; posted <= len(e.qps) {
					if err := e.postRecv(e.o.RxDepth - posted); err != nil {
						return err
					}
					posted = e.o.RxDepth
				}
			}
			if pending[i] &^= wc.ID; pending[i] == 0 && sent < e.o.Iters {
				if err := e.postSend(i, sent); err != nil {
					return err
				}
				pending[i] = recvID | sendID
			}
		}
	}
	return nil
}

// wait polls until there is a completion. It fails when ctx ends, and when there was none for --timeout.
func (e *endpoint) wait(ctx context.Context, wcs []ci.WC) (int, error) {
	deadline := time.Now().Add(e.o.Timeout)
	for polls := 0; ; polls++ {
		n, err := e.cq.Poll(wcs)
		if n > 0 || err != nil {
			return n, err
		}
		if e.o.Events {
			// Completions from before Notify raise no event, so poll once more.
			if err := e.cq.Notify(ci.NotifyNext); err != nil {
				return 0, err
			}
			if n, err := e.cq.Poll(wcs); n > 0 || err != nil {
				return n, err
			}
			if err := e.sleep(ctx, deadline); err != nil {
				return 0, err
			}
		} else if polls%256 == 255 { // reading the clock costs more than a poll
			if err := errors.Join(ctx.Err(), e.checkDeadline(deadline)); err != nil {
				return 0, err
			}
			runtime.Gosched()
		}
	}
}

// sleep waits for a completion event.
func (e *endpoint) sleep(ctx context.Context, deadline time.Time) error {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-e.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return e.checkDeadline(deadline)
	}
}

// checkDeadline returns an error after the deadline.
func (e *endpoint) checkDeadline(deadline time.Time) error {
	if time.Now().Before(deadline) {
		return nil
	}
	return fmt.Errorf("no completion for %v: is the peer running, with the same mode, size and MTU?", e.o.Timeout)
}

// postRecv posts n receives with the same buffer, to the shared queue if there is one.
func (e *endpoint) postRecv(n int) error {
	wrs := make([]ci.RecvWR, n)
	for i := range wrs {
		wrs[i] = ci.RecvWR{ID: recvID, SGL: []ci.SGE{e.recvSGE}}
	}
	post := e.qps[0].PostRecv
	if e.srq != nil {
		post = e.srq.PostRecv
	}
	_, err := post(wrs)
	return err
}

// postSend sends message number of this side to the peer of QP i.
func (e *endpoint) postSend(i, number int) error {
	if e.o.Check && !e.isServer() {
		fillMessage(e.send, number)
	}
	wr := ci.SendWR{ID: sendID, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{e.sendSGE}}
	if e.o.Mode == "ud" {
		wr.To = ci.Dest{AV: e.avs[i], QPN: e.peers[i].QPN, QKey: qkey}
	}
	_, err := e.qps[i].PostSend([]ci.SendWR{wr})
	return err
}
