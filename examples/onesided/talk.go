package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"ciddk/ci"
)

// peer is what the sides must know of each other before they can talk by verbs. They tell by TCP, as JSON.
type peer struct {
	GID ci.GID
	QPN ci.QPN
	PSN ci.PSN
	Mem ci.Remote // where the peer may WRITE and READ
}

func (s *side) tell(w io.Writer) error {
	return json.NewEncoder(w).Encode(peer{GID: s.gid, QPN: s.qp.Num(), PSN: s.psn, Mem: s.mem.Remote(stage)})
}

// hear reads one line: the reader of a JSON decoder might take more.
func hear(r io.Reader) (p peer, err error) {
	var line []byte
	for b := make([]byte, 1); b[0] != '\n'; line = append(line, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil {
			return p, fmt.Errorf("meeting the peer: %w", err)
		}
		if len(line) > 1000 {
			return p, errors.New("meeting the peer: it sent no line of JSON")
		}
	}
	if err := json.Unmarshal(line, &p); err != nil {
		return p, fmt.Errorf("meeting the peer: %w", err)
	}
	return p, nil
}

// serve takes one caller.
func (s *side) serve(ctx context.Context, at string, out io.Writer) error {
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	defer ln.Close()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	fmt.Fprintln(out, "waiting for a caller at", at)
	c, err := ln.Accept()
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()

	p, err := hear(c)
	if err != nil {
		return err
	}
	if err := s.connect(p); err != nil {
		return err
	}
	// Two buffers for the two messages, before the caller knows whom to send to.
	for i := range uint64(2) {
		if _, err := s.qp.PostRecv([]ci.RecvWR{{ID: i, SGL: []ci.SGE{s.mem.SGE(i*stage/2, stage/2)}}}); err != nil {
			return err
		}
	}
	if err := s.tell(c); err != nil {
		return err
	}
	for range 2 {
		wc, err := s.complete(ctx)
		if err != nil {
			return err
		}
		start := int(wc.ID) * stage / 2
		fmt.Fprintf(out, "received: %s\n", s.buf[start:start+int(wc.Length)])
	}
	// The caller's second message came behind its WRITE, so the WRITE is all there.
	text, _, _ := strings.Cut(string(s.buf[stage:]), "\x00")
	fmt.Fprintf(out, "in my memory: %s\n", text)
	// The caller hangs up when it has its last completion: until then, our adapter has to answer.
	if _, err := io.ReadAll(c); err != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}

// call does the talking.
func (s *side) call(ctx context.Context, at string, out io.Writer) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("is the server running? %w", err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := s.tell(c); err != nil {
		return err
	}
	p, err := hear(c)
	if err != nil {
		return err
	}
	if err := s.connect(p); err != nil {
		return err
	}

	if err := s.send(ctx, "hello over RDMA"); err != nil {
		return err
	}
	n := uint32(copy(s.buf, "written from afar"))
	if err := s.do(ctx, ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{s.mem.SGE(0, n)}, Remote: p.Mem}); err != nil {
		return err
	}
	if err := s.do(ctx, ci.SendWR{Op: ci.OpRead, SGL: []ci.SGE{s.mem.SGE(stage, n)}, Remote: p.Mem}); err != nil {
		return err
	}
	fmt.Fprintf(out, "read back: %s\n", s.buf[stage:stage+n])
	return s.send(ctx, "look at your memory")
}

// send sends a text as one message.
func (s *side) send(ctx context.Context, text string) error {
	n := uint32(copy(s.buf[:stage], text))
	return s.do(ctx, ci.SendWR{Op: ci.OpSend, SGL: []ci.SGE{s.mem.SGE(0, n)}})
}

// do posts one request and waits until it is complete.
func (s *side) do(ctx context.Context, wr ci.SendWR) error {
	wr.Flags |= ci.SendSignaled
	if _, err := s.qp.PostSend([]ci.SendWR{wr}); err != nil {
		return err
	}
	_, err := s.complete(ctx)
	return err
}
