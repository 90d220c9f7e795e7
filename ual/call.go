package ual

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
)

// call is a request and its reply. Calls are used again, with their buffers.
type call struct {
	id     uint64 // generation of the slot in the upper half, slot in the lower
	out    []byte // request
	in     []byte // reply, a copy
	header native.Header
	body   []byte // of in
	files  []*os.File
	done   chan struct{}
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

// begin returns a call whose request has room for the header.
func (c *Client) begin() *call {
	x := calls.Get().(*call)
	x.out = native.Start(x.out)
	return x
}

// end makes a call available for use again.
func (x *call) end() {
	for _, f := range x.files {
		f.Close()
	}
	x.files, x.body = nil, nil
	calls.Put(x)
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
		if len(x.out) > schema.MaxMessage {
			return &ci.Error{Verb: cmd.Verb(), Status: ci.InvalidParameter, Detail: "the request is too long", Err: err}
		}
		return c.disconnected(cmd)
	}
	<-x.done
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
		return c.disconnected(cmd)
	}
	slot := uint32(len(c.calls))
	if n := len(c.free); n > 0 {
		slot, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.calls = append(c.calls, nil)
	}
	c.calls[slot] = x
	x.id = (x.id>>32+1)<<32 | uint64(slot)
	x.body = nil
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
	c.mu.Lock()
	c.err = err
	waiting := c.calls
	c.calls, c.free = nil, nil
	c.mu.Unlock()
	for _, x := range waiting {
		if x != nil {
			x.done <- struct{}{}
		}
	}
	c.unpinAll()
}

func (c *Client) receive(buf []byte) error {
	n, files, err := c.c.Recv(buf)
	if err != nil {
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
		for _, f := range files {
			f.Close()
		}
		return err
	}
	x.in = append(x.in[:0], buf[:n]...)
	x.header, x.body, x.files = h, x.in[native.HeaderSize:], files
	x.done <- struct{}{}
	return nil
}

// disconnected returns the error of a verb without a connection.
func (c *Client) disconnected(cmd schema.Command) error {
	return &ci.Error{Verb: cmd.Verb(), Status: ci.InvalidState, Err: ErrDisconnected}
}

// do executes a verb that is not one of the data path. It fills reply, and discards descriptors.
func (c *Client) do(cmd schema.Command, request any, files []*os.File, reply any) error {
	received, err := c.doFiles(cmd, request, files, reply)
	for _, f := range received {
		f.Close()
	}
	return err
}

// doFiles is do, and returns the descriptors of the reply.
func (c *Client) doFiles(cmd schema.Command, request any, files []*os.File, reply any) ([]*os.File, error) {
	x := c.begin()
	defer x.end()
	x.out = native.Append(x.out, request)
	if err := c.roundTrip(cmd, x, files); err != nil {
		return nil, err
	}
	if err := x.failure(); err != nil {
		return nil, err
	}
	if err := native.Parse(x.body, reply); err != nil {
		return nil, badReply(cmd, err)
	}
	received := x.files
	x.files = nil
	return received, nil
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
