package sa

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// Do sends a request from a port, and returns the response. Of req, it uses Method, Attribute, Modifier, ComponentMask
// and Data. Errors: *StatusError (the administrator refused); status Timeout (no response), InvalidPort (no such port,
// or an Ethernet port), InvalidPortState (the port has no subnet manager), NotFound (the port is not in the default
// partition), ErrorStatus (a response that does not fit the request); the error of ctx; ErrClosed.
func (c *Client) Do(ctx context.Context, port mads.Port, req *mad.SA) (resp *mad.SA, err error) {
	return wait(func(done func(*mad.SA, error)) error { return c.StartDo(ctx, port, req, done) })
}

// wait returns what start passes to done.
func wait[T any](start func(done func(T, error)) error) (result T, err error) {
	ended := make(chan struct{})
	if failed := start(func(t T, e error) { result, err = t, e; close(ended) }); failed != nil {
		return result, failed
	}
	<-ended
	return result, err
}

// errNoDone is the error of a call without a function for its outcome.
var errNoDone = failure(ci.InvalidParameter, "done is nil", nil)

// StartDo sends the request of Do and returns. done is called with the outcome; see "Requests without waiting" in the
// package comment. The caller may use req again when StartDo has returned.
func (c *Client) StartDo(ctx context.Context, port mads.Port, req *mad.SA, done func(*mad.SA, error)) error {
	if done == nil {
		return errNoDone
	}
	return c.start(ctx, port, req, func(r *response, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&r.SA, nil)
	})
}

// response is a response with the data of all its segments.
type response struct {
	mad.SA
	data []byte // without the headers
}

// start sends a request, and calls done with the outcome.
func (c *Client) start(ctx context.Context, port mads.Port, req *mad.SA, done func(*response, error)) error {
	to, err := c.administrator(port)
	if err != nil {
		return err
	}
	b := encode(req)
	r := &request{c: c, ctx: ctx, port: port, attribute: req.Attribute, done: done,
		msg: mads.Message{To: to, MAD: b[:], Timeout: c.cfg.Timeout, Retries: c.cfg.Retries,
			MaxResponse: c.cfg.MaxTable + mad.SAHeaderLen}}
	return r.send()
}

// encode returns the datagram of a request.
func encode(req *mad.SA) (b [mad.Size]byte) {
	q := *req
	q.Header = mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin,
		ClassVersion: mad.ClassVersionSubnetAdmin, Method: req.Method, Attribute: req.Attribute, Modifier: req.Modifier}
	q.RMPP = mad.RMPP{}
	q.Put(b[:])
	return b
}

// request is a request of a Client. It is used by one goroutine at a time: the caller of start, then that which calls
// answered or repeat.
type request struct {
	c         *Client
	ctx       context.Context
	port      mads.Port
	attribute uint16
	msg       mads.Message
	done      func(*response, error)

	delayed int  // responses after which the request was repeated later
	renew   bool // an agent that had been closed was replaced

	// Set while the request is in Client.backoff, under Client.mu.
	timer     clock.Timer
	unwatched func() bool // stops the wait for ctx
}

// send sends the request with the agent of the port. An agent that was closed, because its port was removed and added
// again, is replaced once.
func (r *request) send() error {
	for {
		a, created, err := r.c.agent(r.port)
		if err != nil {
			return err
		}
		err = a.StartDo(r.ctx, &r.msg, func(m *mads.Received, err error) { r.answered(a, created, m, err) })
		if err == nil || !r.renewAgent(a, created, err) {
			return r.c.unlessClosed(err)
		}
	}
}

// renewAgent forgets an agent that was closed before the request. It reports whether the request can be sent with
// another one.
func (r *request) renewAgent(a mads.Agent, created bool, err error) bool {
	if r.renew || created || !errors.Is(err, accesslayer.ErrClosed) {
		return false
	}
	r.renew = true
	r.c.forget(r.port, a)
	return true
}

// answered is called when the request of an agent has ended.
func (r *request) answered(a mads.Agent, created bool, m *mads.Received, err error) {
	if err != nil {
		r.failed(a, created, err)
		return
	}
	resp, err := parse(m.MAD)
	switch {
	case err != nil:
		r.done(nil, failure(ci.ErrorStatus, "the response cannot be parsed", err))
	case len(resp.data) > r.c.cfg.MaxTable:
		r.done(nil, failure(ci.InsufficientResources, fmt.Sprintf("a table of %d bytes, at most %d are accepted "+
			"(Config.MaxTable)", len(resp.data), r.c.cfg.MaxTable), nil))
	case resp.Status&mad.StatusBusy != 0 && r.delayed < r.c.cfg.Retries:
		r.wait()
	case resp.Status != mad.StatusOK:
		r.done(nil, &StatusError{Attribute: r.attribute, Status: resp.Status})
	case resp.Attribute != r.attribute:
		r.done(nil, failure(ci.ErrorStatus, fmt.Sprintf("a response with attribute %s to a request with attribute %s",
			mad.AttributeName(mad.ClassSubnetAdmin, resp.Attribute), mad.AttributeName(mad.ClassSubnetAdmin,
				r.attribute)), nil))
	default:
		r.done(resp, nil)
	}
}

// failed is called when a request has ended without a response. A request is repeated if its agent was closed with its
// port, or if the segments of the response did not all arrive.
func (r *request) failed(a mads.Agent, created bool, err error) {
	if r.renewAgent(a, created, err) {
		if err = r.send(); err == nil {
			return
		}
	}
	cut, isCut := errors.AsType[*mads.RMPPError](err)
	if isCut && cut.Status != mad.RMPPResourcesExhausted && r.delayed < r.c.cfg.Retries {
		r.wait()
		return
	}
	r.done(nil, r.c.unlessClosed(err))
}

// parse decodes a response of one or more segments.
func parse(b []byte) (*response, error) {
	if len(b) < mad.SAHeaderLen {
		return nil, fmt.Errorf("%w: %d bytes, want %d", mad.ErrLength, len(b), mad.SAHeaderLen)
	}
	r := &response{data: b[mad.SAHeaderLen:]}
	first := b
	if len(first) < mad.Size { // RMPP drops what follows the data
		first = append(bytes.Clone(b), make([]byte, mad.Size-len(b))...)
	}
	if err := mad.ParseSA(first[:mad.Size], &r.SA); err != nil {
		return nil, err
	}
	return r, nil
}

// maxBackoffShift bounds the time between repetitions: 4 times Config.Timeout.
const maxBackoffShift = 4

// wait repeats the request after some time, which doubles with each repetition.
func (r *request) wait() {
	c := r.c
	d := c.cfg.Timeout / 4 << min(r.delayed, maxBackoffShift)
	r.delayed++
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		r.done(nil, ErrClosed)
		return
	}
	c.backoff[r] = struct{}{}
	r.timer = c.al.Clock().AfterFunc(d, r.repeat)
	r.unwatched = func() bool { return true }
	if r.ctx.Done() != nil {
		r.unwatched = context.AfterFunc(r.ctx, r.canceled)
	}
	c.mu.Unlock()
}

// leaveBackoff removes the request from Client.backoff. It reports false if the request is not there any more.
func (r *request) leaveBackoff() bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	_, in := r.c.backoff[r]
	if in {
		delete(r.c.backoff, r)
		r.stopBackoff()
	}
	return in
}

// stopBackoff stops the timer and the wait for the context.
func (r *request) stopBackoff() {
	r.timer.Stop()
	r.unwatched()
}

// repeat is the function of the timer. It must not block.
func (r *request) repeat() {
	if r.leaveBackoff() {
		if err := r.send(); err != nil {
			go r.done(nil, err)
		}
	}
}

// canceled is called when the context ends.
func (r *request) canceled() {
	if r.leaveBackoff() {
		r.done(nil, r.ctx.Err())
	}
}
