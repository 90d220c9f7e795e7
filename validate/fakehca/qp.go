package fakehca

import (
	"time"

	"ciddk/ci"
)

type qp struct {
	ci.UnimplementedQP
	pd         *pd
	c          ci.QPCreate
	send, recv *cq
	attr       ci.QPAttr
	rq         []recvWR
	destroyed  bool
}

// recvWR is a receive with its first buffer.
type recvWR struct {
	id uint64
	to []byte
}

func (q *qp) Num() ci.QPN { return q.attr.Num }

func (q *qp) TimeWait(time.Duration) {} // QPNs are never reused

func (q *qp) Destroy() error {
	h := q.pd.ca.h
	h.enter("QP.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.destroyed {
		return fail("QP.Destroy", ci.InvalidQPHandle)
	}
	q.destroyed = true
	q.pd.numChildren--
	q.send.numUsers--
	q.recv.numUsers--
	delete(h.qps, q.attr.Num)
	h.remove("qp", "QP.Destroy")
	return nil
}

func (q *qp) Query() (ci.QPAttr, error) {
	h := q.pd.ca.h
	h.enter("QP.Query")
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.destroyed {
		return ci.QPAttr{}, fail("QP.Query", ci.InvalidQPHandle)
	}
	return q.attr, nil
}

func (q *qp) Modify(set ci.QPField, a ci.QPAttr) error {
	h := q.pd.ca.h
	h.enter("QP.Modify")
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.destroyed {
		return fail("QP.Modify", ci.InvalidQPHandle)
	}
	if set&(ci.QPFieldAlternate|ci.QPFieldAPM|ci.QPFieldCurrentState|ci.QPFieldSendDepth|ci.QPFieldRecvDepth) != 0 {
		return fail("QP.Modify", ci.Unsupported)
	}
	if set&ci.QPFieldDestNum != 0 {
		q.attr.DestNum = a.DestNum
	}
	if set&ci.QPFieldState != 0 {
		q.attr.State = a.State
	}
	return nil
}

func (q *qp) PostSend(wrs []ci.SendWR) (int, error) {
	h := q.pd.ca.h
	h.enter("QP.PostSend")
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.destroyed {
		return 0, fail("QP.PostSend", ci.InvalidQPHandle)
	}
	for i, wr := range wrs {
		isOptional := wr.Op == ci.OpLocalInv || wr.Op == ci.OpAtomicWrite || wr.Op == ci.OpFlush
		if wr.Flags&(ci.SendInvalidate|ci.SendIPChecksum|ci.SendL4Checksum) != 0 || isOptional {
			return i, fail("QP.PostSend", ci.Unsupported)
		}
		if q.attr.State != ci.QPRTS {
			return i, fail("QP.PostSend", ci.InvalidQPState)
		}
		if i >= q.c.SendDepth {
			return i, fail("QP.PostSend", ci.InsufficientResources)
		}
		h.numSent++
		peer := h.qps[q.attr.DestNum]
		if lost := h.faults.LoseEvery > 0 &&
			h.numSent%h.faults.LoseEvery == 0; !lost && peer != nil &&
			len(peer.rq) > 0 {
			n := 0
			for _, s := range wr.SGL {
				n += copy(peer.rq[0].to[n:], memory(q.pd, s))
			}
			peer.recv.push(
				ci.WC{ID: peer.rq[0].id, Op: ci.WCRecv, Length: uint32(n), QPN: peer.attr.Num, Context: peer.c.Context},
			)
			peer.rq = peer.rq[1:]
		}
		if wr.Flags&ci.SendSignaled != 0 {
			q.send.push(ci.WC{ID: wr.ID, Op: ci.WCSend, QPN: q.attr.Num, Context: q.c.Context})
		}
	}
	return len(wrs), nil
}

func (q *qp) PostRecv(wrs []ci.RecvWR) (int, error) {
	h := q.pd.ca.h
	h.enter("QP.PostRecv")
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.destroyed {
		return 0, fail("QP.PostRecv", ci.InvalidQPHandle)
	}
	for i, wr := range wrs {
		if len(q.rq) >= q.c.RecvDepth {
			return i, fail("QP.PostRecv", ci.InsufficientResources)
		}
		var to []byte
		if len(wr.SGL) > 0 {
			to = memory(q.pd, wr.SGL[0])
		}
		q.rq = append(q.rq, recvWR{wr.ID, to})
	}
	return len(wrs), nil
}

// memory returns the bytes of an SGE. It does not check key and bounds. The lock is held.
func memory(p *pd, s ci.SGE) []byte {
	m := p.ca.h.mrs[s.LKey]
	return m.c.Memory.Slice(s.Addr-m.c.Memory.Addr(), uint64(s.Length))
}
