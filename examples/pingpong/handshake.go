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

// done is the message of a client whose QPs can receive, with its NUL.
const done = "done\x00"

// connectPeer exchanges the addresses of the QPs with the peer and connects the QPs. The client sends its addresses
// first. The server connects before it sends its own, and the client before it sends done. So each side is ready to
// receive before the other one sends.
func (e *endpoint) connectPeer(ctx context.Context, out io.Writer) error {
	at := net.JoinHostPort(e.o.Host, strconv.Itoa(int(e.o.Port)))
	if e.isServer() {
		at = netip.AddrPortFrom(e.o.Addr, e.o.Port).String()
	}
	var ln net.Listener
	if e.isServer() { // before the output, so that a test can start the client when it sees the output
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
	c, err := e.dialOrAccept(ctx, ln, at)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.SetDeadline(time.Now().Add(e.o.Timeout)); err != nil {
		return err
	}
	if e.isServer() {
		err = e.serverHandshake(c)
	} else {
		err = e.clientHandshake(c)
	}
	if err != nil {
		return fmt.Errorf("exchanging addresses with the peer at %v: %w", c.RemoteAddr(), errors.Join(err, ctx.Err()))
	}
	for _, p := range e.peers {
		fmt.Fprintf(out, "  remote address: %v\n", p)
	}
	return nil
}

// dialOrAccept returns the client's connection to the server, or the first one that the server accepts. The server
// waits until ctx ends.
func (e *endpoint) dialOrAccept(ctx context.Context, ln net.Listener, at string) (net.Conn, error) {
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

// serverHandshake receives the client's addresses, connects, and sends its own.
func (e *endpoint) serverHandshake(c net.Conn) error {
	if err := e.receiveAddresses(c); err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	if err := e.sendAddresses(c); err != nil {
		return err
	}
	b := make([]byte, len(done))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if string(b) != done {
		return fmt.Errorf("the client sent %q instead of %q", b, done)
	}
	return nil
}

// clientHandshake sends its addresses, receives the server's, and connects.
func (e *endpoint) clientHandshake(c net.Conn) error {
	if err := e.sendAddresses(c); err != nil {
		return err
	}
	if err := e.receiveAddresses(c); err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	_, err := io.WriteString(c, done)
	return err
}

// slots returns the number of addresses that each side sends. ibv_srq_pingpong always sends 256; those of QPs that it
// does not have are zero.
func (e *endpoint) slots() int {
	if e.o.Mode == "srq" {
		return maxQPs
	}
	return 1
}

// sendAddresses sends the addresses of the QPs.
func (e *endpoint) sendAddresses(c net.Conn) error {
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

// receiveAddresses receives the addresses of the peer's QPs.
func (e *endpoint) receiveAddresses(c net.Conn) error {
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
			return fmt.Errorf("the peer has another number of QPs than this side, %d: give both sides the same -q",
				len(e.qps))
		}
	}
	return nil
}
