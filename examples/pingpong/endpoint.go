package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"ciddk/ci"
)

// grhLen is the length of the GRH before the data of a received datagram (IBTA volume 1, 11.4.1.2).
const grhLen = 40

// qkey is the Q_Key of the original programs.
const qkey ci.QKey = 0x11111111

// An adapter is an HCA that this process has opened.
type adapter interface {
	ci.HCA
	Counters() map[string]uint64
	Close() error
}

// An endpoint holds the objects of one side.
type endpoint struct {
	o     options
	imp   *impairment
	port  ci.PortAttr
	gid   uint16 // row of o.Addr in the GID table of the port
	pd    ci.PD
	cq    ci.CQ
	srq   ci.SRQ // mode srq
	qps   []ci.QP
	byNum map[ci.QPN]int // index in qps
	avs   []ci.AV        // of the peers; mode ud
	psns  []ci.PSN
	peers []peer

	send, recv []byte // the messages; the same bytes unless the client checks the data
	sendSGE    ci.SGE
	recvSGE    ci.SGE
	wake       chan struct{}

	undo []func() error // in the order of creation
}

// isServer reports whether this side is the server.
func (e *endpoint) isServer() bool { return e.o.Host == "" }

// newEndpoint creates the objects. The QPs are in Init, and receives are posted.
func newEndpoint(hca adapter, o options, i *impairment) (e *endpoint, err error) {
	e = &endpoint{o: o, imp: i, byNum: map[ci.QPN]int{}, peers: make([]peer, o.QPs), wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	ca, err := hca.OpenCA(hca.Info().GUID, func(ci.Event) {}, nil)
	if err != nil {
		return e, err
	}
	e.undo = append(e.undo, ca.Destroy)
	if err := e.findPort(ca); err != nil {
		return e, err
	}
	if e.pd, err = ca.AllocatePD(ci.PDNormal); err != nil {
		return e, err
	}
	e.undo = append(e.undo, e.pd.Destroy)
	e.cq, err = e.pd.CreateCQ(ci.CQCreate{Size: o.RxDepth + o.QPs, OnCompletion: func(any) {
		select {
		case e.wake <- struct{}{}:
		default: // a wake-up is pending
		}
	}})
	if err != nil {
		return e, err
	}
	e.undo = append(e.undo, e.cq.Destroy)
	if err := e.register(); err != nil {
		return e, err
	}
	return e, e.createQPs()
}

// findPort finds port 1 and the row of this side's address.
func (e *endpoint) findPort(ca ci.CA) error {
	attr, err := ca.Query()
	if err != nil {
		return err
	}
	if len(attr.Ports) == 0 {
		return errors.New("the HCA has no port")
	}
	e.port = attr.Ports[0]
	if e.port.State != ci.PortActive {
		return fmt.Errorf("port 1 is %v, not active", e.port.State)
	}
	i := slices.IndexFunc(e.port.GIDs, func(g ci.GIDEntry) bool { return g.GID == gidOf(e.o.Addr) })
	if i < 0 {
		return fmt.Errorf("port 1 has no GID for %v", e.o.Addr)
	}
	e.gid = uint16(i)
	if limit := e.port.MTU.Bytes(); e.o.Mode == "ud" && e.o.Size > limit {
		return fmt.Errorf("-s %d: a datagram holds at most the port's MTU, %d bytes", e.o.Size, limit)
	} else if e.o.Mode != "ud" && e.o.MTU > limit {
		return fmt.Errorf("-m %d: the port's MTU is %d", e.o.MTU, limit)
	}
	return nil
}

// register registers the buffer. As in the originals, there is one buffer for all messages, since at most one is in
// flight in each direction. Only a client that checks the data has separate buffers for sending and receiving.
func (e *endpoint) register() error {
	room := grhLen + e.o.Size
	off := 0
	if e.o.Check && !e.isServer() {
		off = room
	}
	buf := make([]byte, room+off)
	for i := range buf {
		buf[i] = fill
	}
	mr, err := e.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(buf), Access: ci.LocalWrite})
	if err != nil {
		return err
	}
	e.undo = append(e.undo, mr.Destroy)
	r := mr.Region()
	e.send, e.sendSGE = buf[grhLen:room], r.SGE(grhLen, uint32(e.o.Size))
	e.recv, e.recvSGE = buf[off+grhLen:], r.SGE(uint64(off+grhLen), uint32(e.o.Size))
	if e.o.Mode == "ud" {
		e.recvSGE = r.SGE(uint64(off), uint32(room))
	}
	return nil
}

// createQPs creates the QPs and, in mode srq, the shared receive queue.
func (e *endpoint) createQPs() error {
	c := ci.QPCreate{
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: e.o.RxDepth, SendSGE: 1, RecvSGE: 1},
		Flags:  ci.QPSignalAll, SendCQ: e.cq, RecvCQ: e.cq,
	}
	c.Type = service(e.o.Mode)
	if e.o.Mode == "srq" {
		srq, err := e.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: e.o.RxDepth, MaxSGE: 1}})
		if err != nil {
			return err
		}
		e.undo = append(e.undo, srq.Destroy)
		e.srq, c.SRQ, c.RecvDepth = srq, srq, 0
	}
	for i := range e.o.QPs {
		qp, err := e.pd.CreateQP(c)
		if err != nil {
			return err
		}
		e.undo = append(e.undo, qp.Destroy)
		if err := qp.Modify(ci.ToInit{Port: 1, QKey: qkey}.For(c.Type)); err != nil {
			return err
		}
		e.qps, e.byNum[qp.Num()] = append(e.qps, qp), i
		e.psns = append(e.psns, ci.PSN(rand.Uint32()&0xffffff))
	}
	return e.postRecv(e.o.RxDepth)
}

// local returns the address of QP i.
func (e *endpoint) local(i int) peer {
	return peer{LID: e.port.LID, QPN: e.qps[i].Num(), PSN: e.psns[i], GID: gidOf(e.o.Addr)}
}

// close destroys the objects in the reverse order of their creation. It goes on after an error.
func (e *endpoint) close() error {
	var errs []error
	for _, f := range slices.Backward(e.undo) {
		errs = append(errs, f())
	}
	e.undo = nil
	return errors.Join(errs...)
}
