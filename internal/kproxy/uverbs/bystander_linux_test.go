package uverbs

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/kproxy"
)

// bystander is a program with objects, which nothing that other programs do may change.
type bystander struct {
	rig    *rig
	p      *program
	o      objects
	memory []byte
	live   map[string]int
	status kproxy.ClientStatus
	qp     queryQPResp
}

func newBystander(r *rig) *bystander {
	b := &bystander{rig: r, p: r.context(), memory: bytes.Repeat([]byte{0xb5}, 8192)}
	b.o = b.p.create(b.memory)
	b.p.must(cmdModifyQP, modifyQP{QPHandle: b.o.qp, AttrMask: qpMaskState | qpMaskPKeyIndex | qpMaskPort |
		qpMaskAccess, QPState: 1, PortNum: 1}, nil)
	b.p.must(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: b.o.qp}, &b.qp)
	b.live = r.live()
	b.status = b.now(r.t)
	return b
}

// now returns the status of the program. It is the first client.
func (b *bystander) now(t testing.TB) kproxy.ClientStatus {
	list := b.rig.core.Status().Clients
	require.NotEmpty(t, list)
	c := list[0]
	c.Requests, c.Rejected = 0, 0
	return c
}

// check checks that the program has what it had, that its objects work, and that nobody else has any.
func (b *bystander) check(t testing.TB) {
	b.p.t = t
	assert.Equal(t, b.live, b.rig.live())
	assert.Len(t, b.rig.core.Status().Clients, 1)
	assert.Equal(t, b.status, b.now(t))
	var qp queryQPResp
	b.p.must(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: b.o.qp}, &qp)
	assert.Equal(t, b.qp, qp)
	_, errno := b.p.do(cmdDeallocPD, byHandle{b.o.pd}, nil)
	assert.Equal(t, syscall.EBUSY, errno, "objects use the PD")
	b.p.must(cmdReqNotifyCQ, reqNotifyCQ{CQHandle: b.o.cq}, nil)
	assert.Equal(t, len(b.memory), bytes.Count(b.memory, []byte{0xb5}))
}
