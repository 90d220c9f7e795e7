package ual_test

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"

	"ciddk/ci"
)

// The layout of queues in memory that an application's library has allocated. The numbers have the host's order.
const (
	ringDepth  = 16
	ringHeader = 64 // bytes; the first eight are the producer's index
	sendEntry  = 64 // bytes: ID, address, length, key, remote address, remote key
	doneEntry  = 32 // bytes: ID, status, number of the QP
	ringSize   = ringHeader + ringDepth*sendEntry
)

var hostOrder = binary.NativeEndian

// appHCA is an adapter whose queues are in memory of the applications (SAS-2.4-02). The library names the address of a
// queue in its private data, and the driver reaches it by Process.Memory.
type appHCA struct{ ci.HCA }

// Info names the library.
func (h *appHCA) Info() ci.HCAInfo {
	i := h.HCA.Info()
	i.Library = "appqueue"
	return i
}

// OpenCA opens the adapter.
func (h *appHCA) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	ca, err := h.HCA.OpenCA(guid, fn, arg)
	if err != nil {
		return nil, err
	}
	return &appCA{ca}, nil
}

type appCA struct{ ci.CA }

func (c *appCA) Unwrap() any { return c.CA }

// OpenUser makes the doorbell of a process, a pipe.
func (c *appCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	u := &appContext{ca: c, process: p, bell: r, ring: w, qps: map[*appQP]struct{}{}, done: make(chan struct{})}
	ub.Status, ub.Out, ub.OutFiles = 0, ub.Out[:0], []*os.File{w}
	go u.serve()
	return u, nil
}

// appContext is the context of a process.
type appContext struct {
	ci.UnimplementedUserCA
	ca      *appCA
	process ci.Process
	bell    *os.File // the end that the driver reads
	ring    *os.File // the application's end
	done    chan struct{}

	mu  sync.Mutex
	qps map[*appQP]struct{}
}

// serve reads the queues whenever the doorbell rings.
func (u *appContext) serve() {
	defer close(u.done)
	b := make([]byte, 64)
	for {
		if _, err := u.bell.Read(b); err != nil {
			return
		}
		u.mu.Lock()
		for q := range u.qps {
			q.fetch()
		}
		u.mu.Unlock()
	}
}

// Destroy closes the context.
func (u *appContext) Destroy() error {
	err := errors.Join(u.bell.Close(), u.ring.Close())
	<-u.done
	return err
}

// AllocatePD allocates a PD.
func (u *appContext) AllocatePD(typ ci.PDType, _ *ci.UserBuffer) (ci.PD, error) {
	pd, err := u.ca.CA.AllocatePD(typ)
	if err != nil {
		return nil, err
	}
	return &appPD{pd, u}, nil
}

type appPD struct {
	ci.PD
	u *appContext
}

func (p *appPD) Unwrap() any { return p.PD }

// queue returns the memory of a queue that the library has named.
func (p *appPD) queue(ub *ci.UserBuffer) (ci.Memory, error) {
	if len(ub.In) != 8 {
		return nil, ci.InvalidParameter
	}
	m, err := p.u.process.Memory(hostOrder.Uint64(ub.In), ringSize, ci.LocalWrite)
	if err == nil {
		ub.Status, ub.Out = 0, ub.Out[:0]
	}
	return m, err
}

// appCQ is a CQ whose entries are in memory of the application.
type appCQ struct {
	ci.CQ
	mem     ci.Memory
	context any
	onEvent func(ci.Event)

	mu       sync.Mutex
	produced uint64
	failed   bool
}

func (q *appCQ) Unwrap() any { return q.CQ }

// CreateCQ creates a CQ.
func (p *appPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	m, err := p.queue(c.User)
	if err != nil {
		return nil, err
	}
	q := &appCQ{mem: m, context: c.Context, onEvent: c.OnEvent}
	ready := make(chan struct{})
	c.User, c.OnCompletion = nil, func(any) { <-ready; q.drain() }
	if q.CQ, err = p.PD.CreateCQ(c); err != nil {
		return nil, err
	}
	close(ready)
	return q, q.CQ.Notify(ci.NotifyNext)
}

// drain moves completions to the application, and arms the queue for the next ones.
func (q *appCQ) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.CQ.Notify(ci.NotifyNext) != nil {
		return // destroyed
	}
	var wc [ringDepth]ci.WC
	for {
		n, err := q.CQ.Poll(wc[:])
		if n == 0 || err != nil {
			return
		}
		for i := range wc[:n] {
			q.put(&wc[i])
		}
	}
}

// put writes a completion. If the memory has gone, the queue fails.
func (q *appCQ) put(wc *ci.WC) {
	if q.failed {
		return
	}
	var b [doneEntry]byte
	hostOrder.PutUint64(b[0:], wc.ID)
	hostOrder.PutUint32(b[8:], uint32(wc.Status))
	hostOrder.PutUint32(b[12:], uint32(wc.QPN))
	_, err := q.mem.WriteAt(b[:], int64(ringHeader+q.produced%ringDepth*doneEntry))
	if err == nil {
		q.produced++
		var index [8]byte
		hostOrder.PutUint64(index[:], q.produced)
		_, err = q.mem.WriteAt(index[:], 0)
	}
	if err != nil {
		q.failed = true
		q.onEvent(ci.Event{Type: ci.EventCQError, Context: q.context})
	}
}

// appQP is a QP whose send queue is in memory of the application.
type appQP struct {
	ci.QP
	u       *appContext
	mem     ci.Memory
	context any
	onEvent func(ci.Event)

	// The context's mutex guards these.
	consumed uint64
	failed   bool
}

func (q *appQP) Unwrap() any { return q.QP }

// CreateQP creates a QP.
func (p *appPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	m, err := p.queue(c.User)
	if err != nil {
		return nil, err
	}
	send, ok := ci.As[*appCQ](c.SendCQ)
	recv, ok2 := ci.As[*appCQ](c.RecvCQ)
	if !ok || !ok2 {
		return nil, ci.InvalidCQHandle
	}
	c.SendCQ, c.RecvCQ, c.User = send.CQ, recv.CQ, nil
	q := &appQP{u: p.u, mem: m, context: c.Context, onEvent: c.OnEvent}
	if q.QP, err = p.PD.CreateQP(c); err != nil {
		return nil, err
	}
	p.u.mu.Lock()
	defer p.u.mu.Unlock()
	p.u.qps[q] = struct{}{}
	return q, nil
}

// Destroy destroys the QP.
func (q *appQP) Destroy() error {
	q.u.mu.Lock()
	delete(q.u.qps, q)
	q.u.mu.Unlock()
	return q.QP.Destroy()
}

// fetch posts what the application has written. If the memory has gone, or its content is not valid, the QP fails.
func (q *appQP) fetch() {
	if q.failed {
		return
	}
	if err := q.post(); err != nil {
		q.failed = true
		q.onEvent(ci.Event{Type: ci.EventQPFatal, Context: q.context})
	}
}

var errRing = errors.New("the producer's index is not valid")

func (q *appQP) post() error {
	var b [sendEntry]byte
	if _, err := q.mem.ReadAt(b[:8], 0); err != nil {
		return err
	}
	produced := hostOrder.Uint64(b[:])
	if produced-q.consumed > ringDepth {
		return errRing
	}
	for ; q.consumed != produced; q.consumed++ {
		n, err := q.mem.ReadAt(b[:], int64(ringHeader+q.consumed%ringDepth*sendEntry))
		if err != nil {
			return err
		}
		if n != len(b) {
			return io.ErrUnexpectedEOF
		}
		u64, u32 := hostOrder.Uint64, hostOrder.Uint32
		wr := ci.SendWR{ID: u64(b[0:]), Op: ci.OpWrite, Flags: ci.SendSignaled,
			SGL:    []ci.SGE{{Addr: u64(b[8:]), Length: u32(b[16:]), LKey: ci.Key(u32(b[20:]))}},
			Remote: ci.Remote{Addr: u64(b[24:]), RKey: ci.Key(u32(b[32:]))}}
		if _, err := q.QP.PostSend([]ci.SendWR{wr}); err != nil {
			return err
		}
	}
	return nil
}
