package server

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// conn is one connection.
type conn struct {
	c       *native.Conn
	session *kproxy.Session
	pending chan struct{} // one element for each request in execution
	wait    sync.WaitGroup
	posts   native.Posts
	wc      []ci.WC
	out     []byte // of the data path
	verbs   smallVerbs
}

// serve executes the requests of a connection until it is closed.
func (s *Server) serve(c *native.Conn) {
	defer c.Close()
	// A child process may have a copy of the socket, so the end of the client process ends the session.
	stop := c.WatchPeer(func() { c.Close() })
	defer stop()
	session, err := s.hello(c)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.conns.Begin(c)
	s.mu.Unlock()
	d := &conn{c: c, session: session, pending: make(chan struct{}, session.Quota().Pending)}
	for d.next() {
	}
	_ = session.Close() // it has logged the error
	c.Close()           // a client that waits learns that everything is destroyed; replies in progress fail
	d.wait.Wait()
}

var errHello = errors.New("server: the first request is not Hello")

// hello executes the first request and returns the client's session.
func (s *Server) hello(c *native.Conn) (*kproxy.Session, error) {
	late := s.clock.AfterFunc(helloTimeout, func() { c.Close() })
	defer late.Stop()
	buf, n, files, err := c.RecvPooled(&received)
	if err != nil {
		return nil, err
	}
	defer received.Put(buf)
	c.Discard(files)
	h, body, err := native.ParseHeader((*buf)[:n])
	if err != nil || h.Reply || h.Command != schema.CmdHello {
		return nil, errHello
	}
	var r schema.Hello
	session, err := s.open(c, body, &r)
	if err != nil {
		_ = sendError(c, h, 0, err) // the connection is closed either way
		return nil, err
	}
	session.Received(schema.CmdHello)
	reply := &schema.HelloReply{Version: schema.Version, PID: uint32(os.Getpid()), MaxMessage: schema.MaxMessage,
		MaxBatch: schema.MaxBatch, MaxPending: uint32(session.Quota().Pending)}
	if err := sendReply(c, h, &kproxy.Result{Body: reply}); err != nil {
		_ = session.Close()
		return nil, err
	}
	return session, nil
}

func (s *Server) open(c *native.Conn, body []byte, r *schema.Hello) (*kproxy.Session, error) {
	if err := native.Parse(body, r); err != nil {
		return nil, invalid(schema.CmdHello, err)
	}
	if r.Version != schema.Version || r.PointerBits != 32 && r.PointerBits != 64 {
		return nil, &ci.Error{Verb: "ual.Dial", Status: ci.Unsupported, Detail: fmt.Sprintf("the daemon has version "+
			"%d of the protocol, the client's library version %d (build both from one version of the kit)",
			schema.Version, r.Version)}
	}
	pid, uid, gid, err := c.Peer()
	if err != nil {
		return nil, err
	}
	return s.core.Open(kproxy.Peer{PID: pid, UID: uid, GID: gid}, int(r.PointerBits), r.Name)
}

// next receives one request and executes it. It reports false when the connection is to be closed.
func (d *conn) next() bool {
	buf, n, files, err := d.c.RecvPooled(&received)
	isCut := errors.Is(err, native.ErrDescriptors)
	if err != nil && !isCut {
		return false
	}
	defer received.Put(buf)
	h, body, err := native.ParseHeader((*buf)[:n])
	if err != nil || h.Reply {
		d.c.Discard(files)
		return false
	}
	d.session.Received(h.Command)
	if isCut {
		return sendError(d.c, h, 0, &ci.Error{Verb: h.Command.Verb(), Status: ci.InsufficientResources,
			Detail: "the daemon", Err: native.ErrDescriptors}) == nil
	}
	spec := &schema.Commands[h.Command]
	if spec.Data {
		d.c.Discard(files)
		return d.data(h, body) == nil
	}
	req := reflect.New(spec.Request).Interface()
	if err = native.Parse(body, req); err == nil && len(files) > spec.MaxFiles {
		err = errors.New("server: too many descriptors")
	}
	if err == nil && h.Command == schema.CmdHello {
		err = errors.New("server: a second Hello")
	}
	if err != nil {
		d.c.Discard(files)
		d.session.Reject()
		return sendError(d.c, h, 0, invalid(h.Command, err)) == nil
	}
	d.pending <- struct{}{}
	d.wait.Go(func() {
		defer func() { <-d.pending }()
		d.do(h, &kproxy.Call{Command: h.Command, Body: req, Files: files})
	})
	return true
}

// do executes a request that is not one of the data path.
func (d *conn) do(h native.Header, call *kproxy.Call) {
	r, err := d.session.Do(call)
	d.c.Discard(call.Files)
	if err == nil {
		err = sendReply(d.c, h, r)
		if r.CloseFiles {
			native.CloseFiles(r.Files)
		}
		if err == nil || native.IsConnectionError(err) {
			return // a connection that does not work is closed by its reader
		}
		d.session.Undo(r)
		err = unsent(h.Command, err)
	}
	if sendError(d.c, h, 0, err) != nil {
		_ = d.c.Interrupt() // without a reply, the client would wait; the connection may have ended already
	}
}

// unsent returns the error of a verb whose reply could not be sent: it is too long, the driver's descriptors are
// closed, or there are no resources to pass descriptors: those that clients have not received have limits (package
// native), which are below the system's.
func unsent(c schema.Command, err error) error {
	status := ci.Status(ci.UnknownError)
	for _, e := range []error{native.ErrInFlight, syscall.ETOOMANYREFS, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			status = ci.InsufficientResources
		}
	}
	return &ci.Error{Verb: c.Verb(), Status: status, Detail: "the daemon's reply", Err: err}
}

// invalid returns the error of a request that does not match its declaration.
func invalid(c schema.Command, err error) error {
	status := ci.Status(ci.InvalidParameter)
	if h, ok := errors.AsType[*native.HandleError](err); ok {
		status = h.Want.Invalid()
	}
	return &ci.Error{Verb: c.Verb(), Status: status, Detail: "the request does not match its declaration", Err: err}
}

var errTooLong = errors.New("server: the reply exceeds the limit of a message")

// received are the buffers of messages that are being parsed. A connection without messages has none.
var received = sync.Pool{New: func() any {
	b := make([]byte, schema.MaxMessage)
	return &b
}}

// buffers are used again, since a message can be long.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func sendReply(c *native.Conn, h native.Header, r *kproxy.Result) error {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	*p = native.Append(native.Start(*p), r.Body)
	h.Reply, h.Status = true, 0
	if err := native.Finish(*p, h); err != nil {
		return errTooLong
	}
	return c.Send(*p, r.Files)
}

// sendError replies with an error. accepted is the number of work requests of a post that were accepted.
func sendError(c *native.Conn, h native.Header, accepted int, err error) error {
	r := errorReply(accepted, err)
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	*p = native.Append(native.Start(*p), r)
	h.Reply, h.Status = true, ci.StatusOf(err)
	if err := native.Finish(*p, h); err != nil {
		return err
	}
	return c.Send(*p, nil)
}

func errorReply(accepted int, err error) *schema.ErrorReply {
	r := &schema.ErrorReply{Accepted: uint32(accepted)}
	if v, ok := errors.AsType[*kproxy.VendorError](err); ok {
		r.VendorStatus = v.Status
	}
	e, ok := errors.AsType[*ci.Error](err)
	if !ok {
		r.Detail = schema.ClipText(err.Error())
		return r
	}
	detail := e.Detail
	if e.Err != nil {
		if detail != "" {
			detail += ": "
		}
		detail += e.Err.Error()
	}
	r.Verb, r.Detail = schema.ClipText(e.Verb), schema.ClipText(detail)
	if e.Most != nil {
		r.HasMost, r.Most = true, schema.NewQPCaps(*e.Most)
	}
	return r
}
