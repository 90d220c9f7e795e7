package server

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// data executes a request of the data path and replies. Its error is that of the connection.
func (d *conn) data(h native.Header, body []byte) error {
	switch h.Command {
	case schema.CmdPostSend:
		queue, err := d.posts.ParseSend(body)
		if err != nil {
			return d.reject(h, err)
		}
		n, err := d.session.PostSend(queue, d.posts.Send, d.posts.Handles)
		return d.posted(h, n, err)
	case schema.CmdPostRecv:
		queue, err := d.posts.ParseRecv(body)
		if err != nil {
			return d.reject(h, err)
		}
		n, err := d.session.PostRecv(queue, d.posts.Recv)
		return d.posted(h, n, err)
	case schema.CmdPostSRQRecv:
		queue, err := d.posts.ParseRecv(body)
		if err != nil {
			return d.reject(h, err)
		}
		n, err := d.session.PostSRQRecv(queue, d.posts.Recv)
		return d.posted(h, n, err)
	case schema.CmdPoll:
		return d.poll(h, body)
	}
	return d.small(h, body)
}

// reject replies to a request that does not match its declaration.
func (d *conn) reject(h native.Header, err error) error {
	d.session.Reject()
	return sendError(d.c, h, 0, invalid(h.Command, err))
}

// posted replies to a post.
func (d *conn) posted(h native.Header, n int, err error) error {
	if err != nil {
		return sendError(d.c, h, n, err)
	}
	d.out = native.AppendAccepted(native.Start(d.out), n)
	return d.send(h)
}

func (d *conn) send(h native.Header) error {
	h.Reply = true
	if err := native.Finish(d.out, h); err != nil {
		return err
	}
	return d.c.Send(d.out, nil)
}

func (d *conn) poll(h native.Header, body []byte) error {
	cq, n, err := native.ParsePoll(body)
	if err != nil {
		return d.reject(h, err)
	}
	if cap(d.wc) < n {
		d.wc = make([]ci.WC, n)
	}
	wc := d.wc[:n]
	if n, err = d.session.Poll(cq, wc); err != nil {
		return sendError(d.c, h, 0, err)
	}
	d.out = native.AppendCompletions(native.Start(d.out), wc[:n], kproxy.Token)
	clear(wc[:n]) // it refers to objects
	return d.send(h)
}

// smallVerbs are the requests and replies of the data path with a fixed size. They are used again, so that a verb
// allocates nothing.
type smallVerbs struct {
	notify schema.Notify
	cq     schema.CQ
	peek   schema.PeekReply
	bind   schema.BindMW
	window schema.WindowReply
	none   schema.None
}

// small executes the requests of the data path with a fixed size.
func (d *conn) small(h native.Header, body []byte) error {
	v := &d.verbs
	var reply any = &v.none
	var err, mismatch error
	switch h.Command {
	case schema.CmdNotify:
		if mismatch = native.Parse(body, &v.notify); mismatch == nil {
			err = d.session.Notify(&v.notify)
		}
	case schema.CmdPeek:
		if mismatch = native.Parse(body, &v.cq); mismatch == nil {
			reply, err = &v.peek, d.session.Peek(&v.cq, &v.peek)
		}
	case schema.CmdBindMW:
		if mismatch = native.Parse(body, &v.bind); mismatch == nil {
			reply, err = &v.window, d.session.BindMW(&v.bind, &v.window)
		}
	}
	switch {
	case mismatch != nil:
		return d.reject(h, mismatch)
	case err != nil:
		return sendError(d.c, h, 0, err)
	}
	d.out = native.Append(native.Start(d.out), reply)
	return d.send(h)
}
