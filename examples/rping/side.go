package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// bufferLen is the length of the longest ping, in bytes.
const bufferLen = 64 << 10

// Offsets in the registered buffer.
const (
	sourceOff = 0
	sinkOff   = bufferLen
	sendOff   = 2 * bufferLen
	recvOff   = sendOff + advertLen
	totalLen  = recvOff + receives*advertLen
)

// receives is the number of posted receives. The peer sends one message and then waits for the reply.
const receives = 2

// A side is one end of a connection.
type side struct {
	id     *cmid.ID
	o      options
	out    *printer
	mr     *accesslayer.MR
	buf    []byte
	region ci.Region
	wc     []ci.WC
}

// qpConfig describes the QP of either side, which has one request at a time.
func qpConfig() cmid.QPConfig {
	return cmid.QPConfig{Caps: ci.QPCaps{SendDepth: 4, RecvDepth: receives}}
}

// newSide creates the buffers of an ID with a QP, and posts the receives. The caller calls close or, if the ID is never
// connected, destroys the region.
func newSide(id *cmid.ID, o options, out *printer) (*side, error) {
	s := &side{id: id, o: o, out: out, buf: make([]byte, totalLen), wc: make([]ci.WC, 1)}
	pd, err := id.PD()
	if err != nil {
		return nil, err
	}
	if s.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(s.buf), Access: ci.LocalWrite | ci.RemoteRead |
		ci.RemoteWrite}); err != nil {
		return nil, err
	}
	s.region = s.mr.Region()
	for i := range receives {
		if err := s.postRecv(i); err != nil {
			return nil, errors.Join(err, s.mr.Destroy())
		}
	}
	return s, nil
}

// terms returns the connection parameters of the original: one outstanding RDMA READ.
func terms() cmid.ConnParam { return cmid.ConnParam{ResponderResources: 1, InitiatorDepth: 1} }

func (s *side) postRecv(i int) error {
	_, err := s.id.QP().PostRecv([]ci.RecvWR{{ID: uint64(i),
		SGL: []ci.SGE{s.region.SGE(uint64(recvOff+i*advertLen), advertLen)}}})
	return err
}

// errLeft reports that the peer has ended the connection.
var errLeft = errors.New("the peer has disconnected")

// wait waits for a completion. It fails when the connection ends.
func (s *side) wait(ctx context.Context, cq *accesslayer.CQ) (ci.WC, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.id.Context(), func() { stop(s.id.Err()) })()
	_, err := cq.Wait(ctx, s.wc)
	if err != nil && s.id.Err() != nil { // there may be a completion from before the end
		if n, perr := cq.Poll(s.wc); perr == nil && n > 0 {
			err = nil
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return ci.WC{}, fmt.Errorf("no completion for %v: %w", s.o.Timeout, err)
	case err != nil && s.id.Err() != nil:
		return ci.WC{}, s.over()
	case err != nil:
		return ci.WC{}, err
	case s.wc[0].Status == ci.WCFlushErr:
		return ci.WC{}, s.flushed(ctx)
	case s.wc[0].Status != ci.WCSuccess:
		return ci.WC{}, s.wc[0].Err()
	}
	return s.wc[0], nil
}

// flushed returns the reason for a flushed work request: the end of the connection, which may be reported a moment
// later, or a failure of the QP.
func (s *side) flushed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	<-ctx.Done() // the end of the connection cancels it
	if s.id.Err() != nil {
		return s.over()
	}
	return ci.WCFlushErr.Err()
}

// over returns the error for the end of the connection.
func (s *side) over() error {
	if err := s.id.Err(); !errors.Is(err, rdmacm.ErrPeerDisconnected) {
		return fmt.Errorf("the connection is over: %w", err)
	}
	return errLeft
}

// do carries out one work request.
func (s *side) do(ctx context.Context, what string, wr ci.SendWR) error {
	wr.Flags = ci.SendSignaled
	if _, err := s.id.QP().PostSend([]ci.SendWR{wr}); err != nil {
		if s.id.Err() != nil {
			return s.over()
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	if _, err := s.wait(ctx, s.id.SendCQ()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.out.debugf("%s completed\n", what)
	return nil
}

// sendAdvert sends an advert.
func (s *side) sendAdvert(ctx context.Context, a advert) error {
	a.put(s.buf[sendOff:])
	return s.do(ctx, "SEND", ci.SendWR{Op: ci.OpSend, SGL: []ci.SGE{s.region.SGE(sendOff, advertLen)}})
}

// receiveAdvert receives an advert.
func (s *side) receiveAdvert(ctx context.Context) (advert, error) {
	wc, err := s.wait(ctx, s.id.RecvCQ())
	if err != nil {
		return advert{}, fmt.Errorf("receive: %w", err)
	}
	i := int(wc.ID)
	off := recvOff + i*advertLen
	a, err := parseAdvert(s.buf[off : off+min(int(wc.Length), advertLen)])
	if err != nil {
		return a, err
	}
	s.out.debugf("received: address %x, R_Key %x, length %d\n", a.Addr, uint32(a.RKey), a.Len)
	return a, s.postRecv(i)
}

// close ends the connection and releases the buffers.
func (s *side) close() error { return errors.Join(s.id.Close(), s.mr.Destroy()) }
