package ual

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// call is a request and its reply. Calls are used again by their client, with their buffers.
type call struct {
	c      *Client
	id     uint64 // generation of the slot in the upper half, slot in the lower
	cmd    schema.Command
	since  time.Duration // when it was registered
	late   bool          // its deadline has passed once; see Client.check
	out    []byte        // request
	in     []byte        // reply, a copy
	header native.Header
	body   []byte // of in
	files  []*os.File
	done   chan struct{}
	small  smallVerbs
}

// smallVerbs are requests and replies of the data path. They are used again with their call, so that a verb allocates
// nothing.
type smallVerbs struct {
	notify schema.Notify
	cq     schema.CQ
	peek   schema.PeekReply
	bind   schema.BindMW
	window schema.WindowReply
	none   schema.None
}

// maxSpare is the most calls that a client keeps for use again. A call can hold two messages of the greatest length.
const maxSpare = 16

// begin returns a call whose request has room for the header.
func (c *Client) begin() *call {
	x := c.reuse()
	if x == nil {
		x = &call{c: c, done: make(chan struct{}, 1)}
	}
	x.out = native.Start(x.out)
	return x
}

// reuse returns a call that has ended, or nil if there is none. The list is the client's own, because a channel must
// not pass from one testing/synctest bubble to another.
func (c *Client) reuse() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.spare)
	if n == 0 {
		return nil
	}
	x := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return x
}

// end makes a call available for use again.
func (x *call) end() {
	native.CloseFiles(x.files)
	x.files, x.body = nil, nil
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, x)
	}
}

// roundTrip sends the request and waits for the reply. The error is that of the connection; a status is in x.header.
func (c *Client) roundTrip(cmd schema.Command, x *call, files []*os.File) error {
	if err := c.register(cmd, x); err != nil {
		return err
	}
	err := native.Finish(x.out, native.Header{Command: cmd, ID: x.id})
	if err == nil {
		err = c.c.Send(x.out, files)
	}
	if err != nil && c.unregister(x.id) { // otherwise the reader has ended the call
		switch {
		case len(x.out) > schema.MaxMessage:
			return &ci.Error{Verb: cmd.Verb(), Status: ci.InvalidParameter, Detail: "the request is too long", Err: err}
		case len(files) > 0 && !native.IsConnectionError(err):
			return &ci.Error{Verb: cmd.Verb(), Status: ci.InvalidParameter, Detail: "a descriptor", Err: err}
		}
		return c.disconnected(cmd)
	}
	<-x.done // the reader ends every call, at the latest after Config.CallTimeout
	if x.body == nil {
		return c.disconnected(cmd)
	}
	return nil
}

// register assigns an id to the call.
func (c *Client) register(cmd schema.Command, x *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.lost(cmd)
	}
	slot := uint32(len(c.calls))
	if n := len(c.free); n > 0 {
		slot, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.calls = append(c.calls, nil)
	}
	c.calls[slot] = x
	x.id = (x.id>>32+1)<<32 | uint64(slot)
	x.body, x.cmd, x.late = nil, cmd, false
	x.since = c.clock.Elapsed()
	c.watch(c.limit)
	return nil
}

// unregister takes back the id of a call. It reports whether the call was still waiting.
func (c *Client) unregister(id uint64) bool { return c.take(id) != nil }

// take returns the call that waits for a reply, which then does not wait any more.
func (c *Client) take(id uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := uint32(id)
	if uint64(slot) >= uint64(len(c.calls)) {
		return nil
	}
	x := c.calls[slot]
	if x == nil || x.id != id {
		return nil
	}
	c.calls[slot] = nil
	c.free = append(c.free, slot)
	return x
}

// read receives replies until the connection ends.
func (c *Client) read() {
	buf := make([]byte, schema.MaxMessage)
	var err error
	for err == nil {
		err = c.receive(buf)
	}
	c.c.Close()
	// The daemon closes the connection when it has destroyed everything, and the system does so when the daemon has
	// exited. Otherwise the daemon may still use the client's memory.
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	for _, x := range c.end(err, ended) {
		if x != nil {
			x.done <- struct{}{}
		}
	}
	c.wake(nil)
	c.unpinAll(ended)
}

// end marks the connection as lost and returns the calls that wait, by slot. Unless the daemon has ended the
// connection, it closes the event queues, which the daemon may leave open for ever.
func (c *Client) end(err error, byDaemon bool) []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.isLost.Store(true)
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	if !byDaemon {
		for q := range c.queues {
			q.file.Close()
		}
		if c.copies.file != nil {
			c.copies.file.Close()
		}
	}
	waiting := c.calls
	c.calls, c.free = nil, nil
	return waiting
}

func (c *Client) receive(buf []byte) error {
	n, files, err := c.c.Recv(buf)
	if err != nil && !errors.Is(err, native.ErrDescriptors) { // the verb finds that its reply has too few of them
		return err
	}
	h, _, err := native.ParseHeader(buf[:n])
	if err == nil && !h.Reply {
		err = errors.New("ual: the daemon sent a request")
	}
	var x *call
	if err == nil {
		if x = c.take(h.ID); x == nil {
			err = fmt.Errorf("ual: the daemon replied to request %x, which does not wait", h.ID)
		}
	}
	if err != nil {
		native.CloseFiles(files)
		return err
	}
	x.in = append(x.in[:0], buf[:n]...)
	x.header, x.body, x.files = h, x.in[native.HeaderSize:], files
	x.done <- struct{}{}
	return nil
}

// disconnected returns the error of a verb without a connection.
func (c *Client) disconnected(cmd schema.Command) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost(cmd)
}

// lost is disconnected; mu is held.
func (c *Client) lost(cmd schema.Command) error {
	e := &ci.Error{Verb: cmd.Verb(), Status: ci.InvalidState, Err: ErrDisconnected}
	if h, ok := errors.AsType[*hungError](c.err); ok {
		e.Detail = h.Error()
	}
	return e
}

// do executes a verb that is not one of the data path. It fills reply, and discards descriptors.
func (c *Client) do(cmd schema.Command, request any, files []*os.File, reply any) error {
	received, err := c.doFiles(cmd, request, files, reply)
	native.CloseFiles(received)
	return err
}

// doFiles is do, and returns the descriptors of the reply.
func (c *Client) doFiles(cmd schema.Command, request any, files []*os.File, reply any) ([]*os.File, error) {
	x := c.begin()
	defer x.end()
	if err := x.do(cmd, request, files, reply); err != nil {
		return nil, err
	}
	received := x.files
	x.files = nil
	return received, nil
}

// do executes a verb with this call, which has no request yet.
func (x *call) do(cmd schema.Command, request any, files []*os.File, reply any) error {
	x.out = native.Append(x.out, request)
	if err := x.c.roundTrip(cmd, x, files); err != nil {
		return err
	}
	if err := x.failure(); err != nil {
		return err
	}
	if err := native.Parse(x.body, reply); err != nil {
		return badReply(cmd, err)
	}
	return nil
}

// badReply returns the error of a reply that does not match its declaration.
func badReply(cmd schema.Command, err error) error {
	return &ci.Error{Verb: cmd.Verb(), Status: ci.UnknownError,
		Detail: "the daemon's reply does not match its declaration", Err: err}
}

// failure returns the error in a reply, nil for success.
func (x *call) failure() error {
	if x.header.Status == 0 {
		return nil
	}
	_, status, err := x.errorReply()
	if x.header.Command == schema.CmdVendorCall {
		return &vendorError{err, status}
	}
	return err
}

// errorReply returns the error in a reply with a status other than success, and the fields for posts and vendor calls.
func (x *call) errorReply() (accepted int, vendor int32, _ error) {
	cmd := x.header.Command
	var r schema.ErrorReply
	if err := native.Parse(x.body, &r); err != nil {
		return 0, 0, badReply(cmd, err)
	}
	e := &ci.Error{Verb: r.Verb, Status: x.header.Status, Detail: r.Detail}
	if e.Verb == "" {
		e.Verb = cmd.Verb()
	}
	if r.HasMost {
		e.Most = new(r.Most.CI())
	}
	return int(r.Accepted), r.VendorStatus, e
}
