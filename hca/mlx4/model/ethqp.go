package model

import (
	"sync"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// frameQP is a QP of raw Ethernet frames, or the parent of receive queues among which frames are distributed.
type frameQP struct {
	m    *Model
	num  uint32
	port *port
	pdn  uint32

	sendCQ, recvCQ *cq
	rss            *rss // nil: no parent
	keepsVLAN      bool // tags remain in received frames

	send *sendRing
	recv *recvRing

	sendMu sync.Mutex // of send
	recvMu sync.Mutex // of recv
	work   rvt.RecvWork

	// Buffers of what is being sent, and of a received frame without its tag.
	frame, inline, segment, tagged, untagged []byte

	uar uint32 // page of its doorbells

	stateMu sync.RWMutex
	state   uint64 // prm.QPInit and others
	context [prm.QPContextSize]byte
}

// maxFrameQPs bounds the QPs of raw frames, and with them the memory: each holds its longest frame, which has 128 KiB
// with large sends. Linux's driver has at most some 400 for each port.
const maxFrameQPs = 1 << 11

// newFrameQP makes a QP of raw frames, in Init.
func (c *command) newFrameQP(num uint32, ctx []byte) (*frameQP, prm.Status) {
	if len(c.frameQPs) >= maxFrameQPs {
		return nil, prm.ExceedLim
	}
	path := prm.QPCPrimary.Bytes(ctx, prm.PathSize)
	p := c.port(uint8(prm.PathPort.Get(path)) + 1)
	if p == nil || !p.isEthernet() {
		return nil, prm.BadParam
	}
	q := &frameQP{m: c.Model, num: num, port: p, pdn: uint32(prm.QPCPD.Get(ctx)) & pdMask, state: prm.QPInit,
		keepsVLAN: prm.QPCKeepVLAN.Has(ctx), uar: uint32(prm.QPCUAR.Get(ctx))}
	copy(q.context[:], ctx)
	queues := &qp{m: c.Model, num: num, hasReservedKey: prm.QPCReservedLKey.Has(ctx)}
	copy(queues.context[:], ctx)
	if prm.QPCRSS.Has(ctx) {
		r, status := newRSS(ctx)
		q.rss = r
		return q, status
	}
	if status := queues.makeQueues(); status != prm.OK {
		return nil, status
	}
	q.send, q.recv = queues.send, queues.recv
	q.work.SGL = make([]ci.SGE, 0, q.recv.sges())
	q.sendCQ, q.recvCQ = c.cq(uint32(prm.QPCSendCQN.Get(ctx))), c.cq(uint32(prm.QPCRecvCQN.Get(ctx)))
	if q.sendCQ == nil || q.recvCQ == nil {
		return nil, prm.BadResource
	}
	if q.sendCQ.hasFailed.Load() || q.recvCQ.hasFailed.Load() {
		return nil, prm.BadResState
	}
	q.sendCQ.frameQPs++
	q.recvCQ.frameQPs++
	return q, prm.OK
}

// close releases what the QP refers to.
func (q *frameQP) close() {
	if q.sendCQ != nil {
		q.sendCQ.frameQPs--
		q.recvCQ.frameQPs--
	}
	q.setState(prm.QPReset) // waits until no frame is being received or sent
}

// present returns the state of the QP, which is in Error with a CQ that has failed. stateMu or Model.mu is held.
func (q *frameQP) present() uint64 {
	if q.sendCQ != nil && (q.sendCQ.hasFailed.Load() || q.recvCQ.hasFailed.Load()) && q.state != prm.QPReset {
		return prm.QPError
	}
	return q.state
}

func (q *frameQP) setState(s uint64) {
	q.stateMu.Lock()
	defer q.stateMu.Unlock()
	q.state = s
}

// modifyFrameQP executes a change of state of a QP of raw frames.
func (c *command) modifyFrameQP(q *frameQP) prm.Status {
	states := map[ci.QPState]uint64{ci.QPInit: prm.QPInit, ci.QPRTR: prm.QPRTR, ci.QPRTS: prm.QPRTS,
		ci.QPError: prm.QPError}
	to, ok := states[qpSteps[c.op].to]
	from, hasFrom := qpStart[c.op]
	if !ok || hasFrom && qpStates[from] != q.present() {
		return prm.BadQPState
	}
	q.setState(to)
	return prm.OK
}

// isFrameQP reports whether a context is that of a QP of raw frames, whose path has an Ethernet link.
func (c *command) isFrameQP(num uint32, ctx []byte) bool {
	special := c.specialQPs != 0 && num-c.specialQPs < 2*maxPorts
	link := prm.PathLinkType.Get(prm.QPCPrimary.Bytes(ctx, prm.PathSize))
	return prm.QPCService.Get(ctx) == prm.ServiceMLX && !special && link == prm.PathLinkEthernet
}

// frameQP returns a QP of raw frames, or nil.
func (m *Model) frameQP(num uint32) *frameQP {
	m.objects.RLock()
	defer m.objects.RUnlock()
	return m.frameQPs[num&indexMask]
}

// reach returns the memory that a data segment refers to, of which the access was checked, or nil.
func (q *frameQP) reach(s ci.SGE, write bool) *region {
	if uint32(s.LKey) == prm.MPTReservedLKey { // allowed, or the segment would not have it
		return &region{m: q.m, size: 1 << logMaxMRSize, pages: physical(0)}
	}
	q.m.objects.RLock()
	defer q.m.objects.RUnlock()
	k := q.m.keys[s.LKey]
	if k == nil || k.pdn != q.pdn || write && k.access&ci.LocalWrite == 0 {
		return nil
	}
	return k.region
}

// copy copies between a data segment and p. It reports false if the segment does not grant that.
func (q *frameQP) copy(s ci.SGE, p []byte, write bool) bool {
	r := q.reach(s, write)
	if r == nil || s.Addr < r.start || s.Addr-r.start > r.size || uint64(len(p)) > r.size-(s.Addr-r.start) {
		return false
	}
	var err error
	if off := int64(s.Addr - r.start); write {
		_, err = r.WriteAt(p, off)
	} else {
		_, err = r.ReadAt(p, off)
	}
	return err == nil
}

// localKey is what a key grants to QPs of raw frames.
type localKey struct {
	region *region
	pdn    uint32
	access ci.Access
}
