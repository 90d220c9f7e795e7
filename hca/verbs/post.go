//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"sync"
	"syscall"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/verbs/internal/ibv"
)

// postBatch is the number of requests that one call of the library posts.
const postBatch = 16

// state is the state of a QP as the consumer has set it, which decides whether a post is accepted.
type state ci.QPState

// sends and receives report whether requests are accepted to the send or the receive queue.
func (s state) sends() bool    { return ci.QPState(s) > ci.QPRTR }
func (s state) receives() bool { return ci.QPState(s) != ci.QPReset }

type sendQueue struct {
	mu    sync.Mutex
	dead  bool
	state state
	rules wrrules.Rules
	list  *ibv.List[ibv.SendWR]
	log   bindLog
	held  []*av    // vectors that requests of the list name
	binds []logged // binds of the list
}

type recvQueue struct {
	mu    sync.Mutex
	dead  bool
	state state
	list  *ibv.List[ibv.RecvWR]
}

var (
	sendErrors = wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors = wrrules.NewErrors("QP.PostRecv", ci.InvalidQPHandle)
)

// PostSend posts requests, in batches of one call of the library each. Status: as ci.QP has them.
func (q *qp) PostSend(wrs []ci.SendWR) (n int, err error) {
	s := &q.sq
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return 0, sendErrors.Destroyed
	case !s.state.sends():
		return 0, sendErrors.State
	}
	for n < len(wrs) {
		var rejected *ci.Error
		batch := 0
		for ; n+batch < len(wrs) && !s.list.Full(); batch++ {
			if rejected = q.add(&wrs[n+batch]); rejected != nil {
				break
			}
		}
		got, err := q.submit(wrs[n:])
		n += got
		switch {
		case err != nil:
			return n, postError("QP.PostSend", sendErrors, err)
		case rejected != nil:
			return n, rejected
		}
	}
	return n, nil
}

// submit posts the list, which has the first requests of wrs, and records the binds among them.
func (q *qp) submit(wrs []ci.SendWR) (n int, err error) {
	s := &q.sq
	if s.log.isOn.Load() || len(s.binds) > 0 { // before the completions of the requests are polled
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
	}
	n, err = s.list.Post()
	for _, v := range s.held {
		v.mu.RUnlock()
	}
	clear(s.held)
	s.held = s.held[:0]
	if !s.log.isOn.Load() && len(s.binds) == 0 {
		return n, err
	}
	binds := s.binds
	for i := range wrs[:n] {
		var window *mw
		var key ci.Key
		if wrs[i].Op == ci.OpBindMW {
			window, key, binds = binds[0].window, binds[0].key, binds[1:]
			window.mu.Lock()
			window.mw.SetKey(uint32(key))
			window.posted(key)
			window.mu.Unlock()
		}
		s.log.add(wrs[i].ID, wrs[i].Flags&ci.SendSignaled != 0 || q.create.Flags&ci.QPSignalAll != 0, window, key)
	}
	clear(s.binds)
	s.binds = s.binds[:0]
	return n, err
}

// postError returns the error of a post that the provider rejected.
func postError(verb string, e *wrrules.Errors, err error) error {
	if errors.Is(err, syscall.ENOMEM) {
		return e.Full
	}
	return reject(verb, err, ci.Success)
}

// add adds a request to the list, or returns why it is not accepted.
func (q *qp) add(wr *ci.SendWR) *ci.Error {
	s := &q.sq
	r := wrrules.Request{Op: wr.Op, Flags: wr.Flags, SGEs: len(wr.SGL), IsInline: wr.Inline != nil,
		Inline: len(wr.Inline), QPN: wr.To.QPN}
	var to *av
	if q.create.Type == ci.UD && wr.Op == ci.OpSend {
		if v, ok := ci.As[*av](wr.To.AV); ok && v.pd == q.pd {
			v.mu.RLock()
			s.held = append(s.held, v)
			to, r.HasAV = v, v.refs.Alive() && v.ah != (ibv.AH{}) // the provider reads the handle at once
		}
	}
	var bind *ci.MWBind
	var window *mw
	var region ibv.MR
	if wr.Op == ci.OpBindMW && wr.Ext != nil {
		bind = &wr.Ext.Bind
		window, region, r.HasObjects = q.bindObjects(bind)
	}
	if wr.Op == ci.OpNop {
		return sendErrors.Of(wrrules.Unsupported) // libibverbs has no such request
	}
	if reason := s.rules.Check(&r); reason != wrrules.OK {
		return sendErrors.Of(reason)
	}
	n := len(wr.SGL)
	if r.IsInline {
		n = 1
	}
	out, sges := s.list.Add(n)
	out.ID, out.Flags = wr.ID, flagsOf(wr.Flags)
	if r.IsInline {
		out.Flags |= ibv.SendInline
		sges[0] = s.list.Inline(wr.Inline)
	} else {
		copySGEs(sges, wr.SGL)
	}
	if wr.Flags&ci.SendImmediate != 0 {
		out.SetImm(wr.Imm)
	}
	switch wr.Op {
	case ci.OpSend:
		out.Opcode = ibv.WRSend
		switch {
		case wr.Flags&ci.SendInvalidate != 0:
			out.Opcode = ibv.WRSendInv
			out.SetInvalidate(uint32(wr.Inv))
		case wr.Flags&ci.SendImmediate != 0:
			out.Opcode = ibv.WRSendImm
		}
		if to != nil {
			out.To(to.ah, uint32(wr.To.QPN), uint32(wr.To.QKey))
		}
	case ci.OpWrite, ci.OpRead:
		out.Opcode = ibv.WRWrite
		if wr.Op == ci.OpRead {
			out.Opcode = ibv.WRRead
		} else if wr.Flags&ci.SendImmediate != 0 {
			out.Opcode = ibv.WRWriteImm
		}
		out.Remote(wr.Remote.Addr, uint32(wr.Remote.RKey))
	case ci.OpCompareSwap:
		out.Opcode = ibv.WRCompareSwap
		out.Atomic(wr.Remote.Addr, wr.Atomic.Compare, wr.Atomic.Swap, uint32(wr.Remote.RKey))
	case ci.OpFetchAdd:
		out.Opcode = ibv.WRFetchAdd
		out.Atomic(wr.Remote.Addr, wr.Atomic.Compare, 0, uint32(wr.Remote.RKey))
	case ci.OpLocalInv:
		out.Opcode = ibv.WRLocalInv
		out.SetInvalidate(uint32(wr.Inv))
	case ci.OpBindMW:
		window.mu.Lock()
		key := window.last()&^0xff | bind.Key&0xff
		window.mu.Unlock()
		out.Opcode = ibv.WRBindMW
		out.Bind(window.mw, region, uint32(key), bind.Addr, bind.Length, accessOf(bind.Access))
		s.binds = append(s.binds, logged{window: window, key: key})
	}
	return nil
}

// bindObjects returns the objects of a bind of type 2.
func (q *qp) bindObjects(b *ci.MWBind) (*mw, ibv.MR, bool) {
	w, ok1 := ci.As[*mw](b.MW)
	m, ok2 := ci.As[*mr](b.MR)
	switch {
	case !ok1 || !w.refs.Alive() || w.pd.hca != q.hca || w.kind != ci.MWType2,
		!ok2 || !m.refs.Alive() || m.pd.hca != q.hca:
		return nil, ibv.MR{}, false
	}
	return w, m.mr, true
}

// flagsOf returns flags as the library has them.
func flagsOf(f ci.SendFlags) (out uint32) {
	if f&ci.SendFence != 0 {
		out |= ibv.SendFence
	}
	if f&ci.SendSignaled != 0 {
		out |= ibv.SendSignaled
	}
	if f&ci.SendSolicited != 0 {
		out |= ibv.SendSolicited
	}
	return out
}

// copySGEs copies a list of pieces.
func copySGEs(to []ibv.SGE, from []ci.SGE) {
	for i := range from {
		to[i] = ibv.SGE{Addr: from[i].Addr, Length: from[i].Length, LKey: uint32(from[i].LKey)}
	}
}

// PostRecv posts receives. Status: as ci.QP has them.
func (q *qp) PostRecv(wrs []ci.RecvWR) (int, error) {
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dead:
		return 0, recvErrors.Destroyed
	case q.srq != nil:
		return 0, recvErrors.Of(wrrules.WRType)
	case !r.state.receives():
		return 0, recvErrors.State
	}
	return postRecv(r.list, wrs, q.granted.RecvSGE, recvErrors)
}

// postRecv posts receives to a queue, in batches of one call of the library each.
func postRecv(list *ibv.List[ibv.RecvWR], wrs []ci.RecvWR, sges int, e *wrrules.Errors) (n int, err error) {
	for n < len(wrs) {
		isLong := false
		for batch := 0; n+batch < len(wrs) && !list.Full(); batch++ {
			wr := &wrs[n+batch]
			if isLong = len(wr.SGL) > sges; isLong {
				break
			}
			out, to := list.Add(len(wr.SGL))
			out.ID = wr.ID
			copySGEs(to, wr.SGL)
		}
		got, err := list.Post()
		n += got
		switch {
		case err != nil:
			return n, postError("PostRecv", e, err)
		case isLong:
			return n, e.Of(wrrules.SGEs)
		}
	}
	return n, nil
}
