package mlx4

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// An rpingPeer is one end of a connection with the program rping of a guest. A message has 16 bytes. The client's
// describes a buffer by address, R_Key and length. The server reads the first buffer of a ping, writes its content to
// the second one, and answers each message with an empty one.
type rpingPeer struct {
	id     *cmid.ID
	mr     *accesslayer.MR
	buf    []byte
	region ci.Region
}

// Offsets in the registered memory.
const (
	rpingSize    = 5000
	rpingMessage = 16
	rpingSource  = 0
	rpingSink    = rpingSource + rpingSize
	rpingSend    = rpingSink + rpingSize
	rpingRecv    = rpingSend + rpingMessage
	rpingRecvs   = 2
)

// rpingPort is the port of rping.
const rpingPort = 7174

func rpingQP() cmid.QPConfig {
	return cmid.QPConfig{Caps: ci.QPCaps{SendDepth: 4, RecvDepth: rpingRecvs}}
}

// rpingTerms are the parameters of rping's connections.
func rpingTerms() cmid.ConnParam { return cmid.ConnParam{ResponderResources: 1, InitiatorDepth: 1} }

// setup registers memory for an ID with a QP, and posts the receives.
func (p *rpingPeer) setup(id *cmid.ID) error {
	pd, err := id.PD()
	if err != nil {
		return err
	}
	p.id, p.buf = id, make([]byte, rpingRecv+rpingRecvs*rpingMessage)
	if p.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(p.buf),
		Access: ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite}); err != nil {
		return err
	}
	p.region = p.mr.Region()
	for i := range rpingRecvs {
		if err := p.post(i); err != nil {
			return err
		}
	}
	return nil
}

func (p *rpingPeer) post(i int) error {
	_, err := p.id.QP().PostRecv([]ci.RecvWR{{ID: uint64(i),
		SGL: []ci.SGE{p.region.SGE(uint64(rpingRecv+i*rpingMessage), rpingMessage)}}})
	return err
}

// do executes a work request.
func (p *rpingPeer) do(ctx context.Context, wr ci.SendWR) error {
	wr.Flags = ci.SendSignaled
	if _, err := p.id.QP().PostSend([]ci.SendWR{wr}); err != nil {
		return fmt.Errorf("%v: %w", wr.Op, err)
	}
	if _, err := wait(ctx, p.id.SendCQ()); err != nil {
		return fmt.Errorf("%v: %w", wr.Op, err)
	}
	return nil
}

// wait waits for a successful completion.
func wait(ctx context.Context, cq *accesslayer.CQ) (ci.WC, error) {
	wc := make([]ci.WC, 1)
	if _, err := cq.Wait(ctx, wc); err != nil {
		return ci.WC{}, err
	}
	return wc[0], wc[0].Err()
}

// send sends a message that describes a buffer; size 0 is the empty message of a server.
func (p *rpingPeer) send(ctx context.Context, off, size int) error {
	b := p.buf[rpingSend:][:rpingMessage]
	clear(b)
	if size > 0 {
		binary.BigEndian.PutUint64(b, p.region.Addr+uint64(off))
		binary.BigEndian.PutUint32(b[8:], uint32(p.region.RKey))
		binary.BigEndian.PutUint32(b[12:], uint32(size))
	}
	return p.do(ctx, ci.SendWR{Op: ci.OpSend, SGL: []ci.SGE{p.region.SGE(rpingSend, rpingMessage)}})
}

// receive receives a message, and returns the buffer that it describes.
func (p *rpingPeer) receive(ctx context.Context) (at ci.Remote, size uint32, err error) {
	wc, err := wait(ctx, p.id.RecvCQ())
	if err != nil {
		return at, 0, err
	}
	if wc.Length != rpingMessage {
		return at, 0, fmt.Errorf("a message of %d bytes", wc.Length)
	}
	b := p.buf[rpingRecv+int(wc.ID)*rpingMessage:]
	at = ci.Remote{Addr: binary.BigEndian.Uint64(b), RKey: ci.Key(binary.BigEndian.Uint32(b[8:]))}
	size = binary.BigEndian.Uint32(b[12:])
	return at, size, p.post(int(wc.ID))
}

// ping executes ping n of a client: the server reads its data and writes them back.
func (p *rpingPeer) ping(ctx context.Context, n int) error {
	source, sink := p.buf[rpingSource:][:rpingSize], p.buf[rpingSink:][:rpingSize]
	for i := range source {
		source[i] = 'A' + byte((i+n)%26)
	}
	source[rpingSize-1] = 0 // the server prints the text
	clear(sink)
	for _, off := range []int{rpingSource, rpingSink} {
		if err := p.send(ctx, off, rpingSize); err != nil {
			return err
		}
		if _, _, err := p.receive(ctx); err != nil {
			return err
		}
	}
	if !bytes.Equal(source, sink) {
		return fmt.Errorf("ping %d: the data that came back differ", n)
	}
	return nil
}

// pong executes a ping of a server, whose client checks the data.
func (p *rpingPeer) pong(ctx context.Context) error {
	for _, op := range []ci.SendOp{ci.OpRead, ci.OpWrite} {
		at, size, err := p.receive(ctx)
		if err != nil {
			return err
		}
		if size == 0 || size > rpingSize {
			return fmt.Errorf("the client has a buffer of %d bytes", size)
		}
		if err := p.do(ctx, ci.SendWR{Op: op, Remote: at, SGL: []ci.SGE{p.region.SGE(rpingSource, size)}}); err != nil {
			return err
		}
		if err := p.send(ctx, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
