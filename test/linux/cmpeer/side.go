package main

import (
	"context"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// grhLen is the number of bytes before the data of a received datagram (IBTA 11.4.1.2).
const grhLen = 40

// side is an ID with a QP, and a buffer for one outgoing and all incoming messages.
type side struct {
	id   *cmid.ID
	o    options
	head int // bytes before the data of a received message
	buf  []byte
	r    ci.Region
	wc   []ci.WC
}

func qpConfig(o options) cmid.QPConfig {
	return cmid.QPConfig{Caps: ci.QPCaps{SendDepth: o.Count + 1, RecvDepth: o.Count + 1}}
}

// prepare allocates the buffer of an ID with a QP, and posts all receives.
func prepare(id *cmid.ID, o options, head int) (*side, error) {
	s := &side{id: id, o: o, head: head, wc: make([]ci.WC, 1)}
	room := head + o.Size
	s.buf = make([]byte, room*(o.Count+1))
	pd, err := id.PD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(s.buf), Access: ci.LocalWrite})
	if err != nil {
		return nil, err
	}
	s.r = mr.Region()
	for i := range o.Count {
		if _, err := id.QP().PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: []ci.SGE{s.r.SGE(uint64(room*i),
			uint32(room))}}}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// send sends all messages, each with a copy of wr.
func (s *side) send(ctx context.Context, wr ci.SendWR) error {
	off := (s.head + s.o.Size) * s.o.Count
	wr.Flags |= ci.SendSignaled
	wr.SGL = []ci.SGE{s.r.SGE(uint64(off), uint32(s.o.Size))}
	for range s.o.Count {
		if _, err := s.id.QP().PostSend([]ci.SendWR{wr}); err != nil {
			return err
		}
	}
	for i := range s.o.Count {
		if _, err := s.completion(ctx, s.id.SendCQ()); err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
	}
	return nil
}

// receive receives all messages, and returns the completion of the last one.
func (s *side) receive(ctx context.Context) (ci.WC, error) {
	var wc ci.WC
	for i := range s.o.Count {
		var err error
		if wc, err = s.completion(ctx, s.id.RecvCQ()); err != nil {
			return wc, fmt.Errorf("receive %d: %w", i, err)
		}
		if int(wc.Length) != s.head+s.o.Size {
			return wc, fmt.Errorf("receive %d: %d bytes, %d were due", i, wc.Length, s.head+s.o.Size)
		}
	}
	return wc, nil
}

func (s *side) completion(ctx context.Context, cq *accesslayer.CQ) (ci.WC, error) {
	if _, err := cq.Wait(ctx, s.wc); err != nil {
		return ci.WC{}, err
	}
	if s.wc[0].Status != ci.WCSuccess {
		return ci.WC{}, s.wc[0].Err()
	}
	return s.wc[0], nil
}
