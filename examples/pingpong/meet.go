package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// done is what the client says when its QPs can receive, with the NUL.
const done = "done\x00"

// meet exchanges the addresses of the QPs with the peer and connects them. The client speaks first; the server connects before it
// answers, the client before it says done: whoever sends first finds the other ready.
func (e *endpoint) meet(ctx context.Context, out io.Writer) error {
	at := net.JoinHostPort(e.o.Host, strconv.Itoa(int(e.o.Port)))
	if e.server() {
		at = netip.AddrPortFrom(e.o.Addr, e.o.Port).String()
	}
	var ln net.Listener
	if e.server() { // before anything is printed, so that a client may follow the output
		var lc net.ListenConfig
		var err error
		if ln, err = lc.Listen(ctx, "tcp", at); err != nil {
			return fmt.Errorf("waiting for a client: %w", err)
		}
		defer ln.Close()
	}
	for i := range e.qps {
		fmt.Fprintf(out, "  local address:  %v\n", e.local(i))
	}
	c, err := e.connection(ctx, ln, at)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.SetDeadline(time.Now().Add(e.o.Timeout)); err != nil {
		return err
	}
	if e.server() {
		err = e.answer(c)
	} else {
		err = e.ask(c)
	}
	if err != nil {
		return fmt.Errorf("finding the peer at %v: %w", c.RemoteAddr(), errors.Join(err, ctx.Err()))
	}
	for _, p := range e.peers {
		fmt.Fprintf(out, "  remote address: %v\n", p)
	}
	return nil
}

// connection is the client's to the server, or the first that the server accepts, for which it waits as long as ctx allows.
func (e *endpoint) connection(ctx context.Context, ln net.Listener, at string) (net.Conn, error) {
	if ln == nil {
		d := net.Dialer{Timeout: e.o.Timeout}
		c, err := d.DialContext(ctx, "tcp", at)
		if err != nil {
			return nil, fmt.Errorf("no server: %w", err)
		}
		return c, nil
	}
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	c, err := ln.Accept()
	if err != nil {
		return nil, fmt.Errorf("waiting for a client: %w", errors.Join(err, ctx.Err()))
	}
	return c, nil
}

func (e *endpoint) answer(c net.Conn) error {
	if err := e.hear(c); err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	if err := e.tell(c); err != nil {
		return err
	}
	b := make([]byte, len(done))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if string(b) != done {
		return fmt.Errorf("%q where %q was due", b, done)
	}
	return nil
}

func (e *endpoint) ask(c net.Conn) error {
	if err := e.tell(c); err != nil {
		return err
	}
	if err := e.hear(c); err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	_, err := io.WriteString(c, done)
	return err
}

// slots is how many peers each side tells. ibv_srq_pingpong always tells of 256 QPs, those that it does not have as zeros.
func (e *endpoint) slots() int {
	if e.o.Mode == "srq" {
		return maxQPs
	}
	return 1
}

func (e *endpoint) tell(c net.Conn) error {
	var b []byte
	for i := range e.slots() {
		var p peer
		if i < len(e.qps) {
			p = e.local(i)
		}
		b = append(b, p.encode()...)
	}
	_, err := c.Write(b)
	return err
}

func (e *endpoint) hear(c net.Conn) error {
	b := make([]byte, peerLen)
	for i := range e.slots() {
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		p, err := decode(b)
		if err != nil {
			return err
		}
		if i < len(e.qps) {
			e.peers[i] = p
		}
		if e.o.Mode == "srq" && (p.QPN != 0) != (i < len(e.qps)) {
			return fmt.Errorf("the peer has not as many QPs as -q says, %d", len(e.qps))
		}
	}
	return nil
}
