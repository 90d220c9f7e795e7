package uverbs

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/rings"
)

// consumerIndex is the offset of the consumer's index in a queue of Linux Soft-RoCE.
const consumerIndex = 256

// postRig is a UD QP in Init, with the places of its queues and of its CQ.
type postRig struct {
	*program
	qp             uint32
	recv, send, cq uint64
}

func newPostRig(t *testing.T) *postRig {
	p := &postRig{program: newRig(t).context()}
	var pd allocPDResp
	p.must(cmdAllocPD, allocPD{replyAddr}, &pd)
	var cq createCQResp
	p.cq = ne.Uint64(p.must(cmdCreateCQ, createCQ{Response: replyAddr, CQE: 10, CompChannel: noCompChannel}, &cq))
	var qp createQPResp
	out := p.must(cmdCreateQP, createQP{Response: replyAddr, Args: createQPArgs{PDHandle: pd.PDHandle,
		SendCQHandle: cq.CQHandle, RecvCQHandle: cq.CQHandle, MaxSendWR: 15, MaxRecvWR: 15, MaxSendSGE: 1,
		MaxRecvSGE: 1,
		QPType:     createQPUD}}, &qp)
	p.qp, p.recv, p.send = qp.QPHandle, ne.Uint64(out), ne.Uint64(out[rings.VerbsQueueSize:])
	p.enter(1, qpMaskPKeyIndex|qpMaskPort|qpMaskQKey)
	return p
}

func (p *postRig) enter(state uint8, mask uint32) {
	p.must(cmdModifyQP, modifyQP{QPHandle: p.qp, AttrMask: qpMaskState | mask, QPState: state, PortNum: 1}, nil)
}

func (p *postRig) post() syscall.Errno {
	_, errno := p.do(cmdPostSend, postSend{Response: replyAddr, QPHandle: p.qp, WQESize: 128}, &postSendResp{})
	return errno
}

// TestRefusedPosts posts requests in states in which the QP does not send. They are removed, and the QP sends later
// ones only. A request of zeros is a WRITE, which ends the send queue of a UD QP.
func TestRefusedPosts(t *testing.T) {
	p := newPostRig(t)
	posted := uint32(0)
	for state := uint8(1); state <= 2; state++ {
		for range 20 {
			posted = (posted + 3) % 16
			p.poke(p.send+producerIndex, posted)
			assert.Equal(t, syscall.EINVAL, p.post())
			assert.Equal(t, posted, p.peek(p.send+consumerIndex), "the queue is empty")
		}
		p.enter(state+1, map[uint8]uint32{2: qpMaskSQPSN}[state])
	}
	state := func() uint8 {
		var q queryQPResp
		p.must(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: p.qp}, &q)
		return q.QPState
	}
	assert.Zero(t, p.post(), "in RTS")
	assert.EqualValues(t, 3, state())
	assert.Zero(t, p.peek(p.cq+producerIndex))
	p.poke(p.send+producerIndex, (posted+1)%16)
	assert.Zero(t, p.post())
	assert.EqualValues(t, 5, state(), "it was executed")
	assert.EqualValues(t, 1, p.peek(p.cq+producerIndex))
}

// TestReceivesInError posts receives to a QP in Error, as the stock library does: without a call.
func TestReceivesInError(t *testing.T) {
	p := newPostRig(t)
	for again := range uint32(2) {
		p.poke(p.recv+producerIndex, 1) // in Init
		p.enter(6, 0)
		base := 5 * again
		for i := uint32(1); i <= 5; i++ {
			p.poke(p.recv+producerIndex, i)
			require.Eventually(t, func() bool { return p.peek(p.cq+producerIndex) == base+i }, time.Minute,
				time.Millisecond)
		}
		p.enter(0, 0)
		p.enter(1, qpMaskPKeyIndex|qpMaskPort|qpMaskQKey)
	}
}

// TestFirstAddress registers regions, and registers them again, and compares their first addresses.
func TestFirstAddress(t *testing.T) {
	p := newRig(t).context()
	b := make([]byte, 8192)
	o := p.create(b)
	addr := ci.Bytes(b).Addr()
	const other = 1 << 40
	for _, x := range []struct {
		name               string
		access, again, now uint32
		iova, to           uint64
		before, after      uint64
	}{
		{"translation", 0, reregTranslation, 0, addr, other, addr, other},
		{"translation keeps the flag", accessZeroBased, reregTranslation, 0, addr, addr, 0, 0},
		{"address 0 without the flag", 0, reregTranslation, 0, 0, addr, 0, addr},
		{"rights keep the address", accessZeroBased, reregAccess, accessLocalWrite, addr, addr, 0, 0},
		{"rights do not move it", 0, reregAccess, accessZeroBased, addr, addr, addr, addr},
		{"both", 0, reregAccess | reregTranslation, accessZeroBased, addr, other, addr, 0},
		{"both, back", accessZeroBased, reregAccess | reregTranslation, 0, addr, other, 0, other},
		{"PD", accessZeroBased, reregPD, 0, addr, 0, 0, 0},
	} {
		low := func(n uint64) uint64 { // its offset in the page is that of the memory
			if n == 0 || n == addr {
				return n
			}
			return n | addr&pageMask
		}
		if addr&pageMask != 0 && x.iova == 0 {
			continue
		}
		var mr regMRResp
		p.must(cmdRegMR, regMR{Response: replyAddr, Start: addr, Length: 100, HCAVA: low(x.iova), PDHandle: o.pd,
			AccessFlags: x.access}, &mr)
		first := func() uint64 {
			return ne.Uint64(p.mustIoctl(newIoctl(typeMR, 3).use(attrHandle, uint64(mr.MRHandle)).out(attrQueryMRLKey,
				4).
				out(attrQueryMRRKey, 4).out(attrQueryMRLength, 8).out(attrQueryMRIOVA, 8))[attrQueryMRIOVA])
		}
		assert.Equal(t, low(x.before), first(), x.name)
		p.must(cmdReregMR, reregMR{Response: replyAddr, MRHandle: mr.MRHandle, Flags: x.again, Start: addr, Length: 200,
			HCAVA: low(x.to), PDHandle: o.pd, AccessFlags: x.now}, &reregMRResp{})
		assert.Equal(t, low(x.after), first(), x.name)
		p.must(cmdDeregMR, byHandle{mr.MRHandle}, nil)
	}
}
