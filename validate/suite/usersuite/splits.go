package usersuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = posts.Case(validate.Case{
	ID:    "user.post.split",
	Title: "lists that are longer than a message: each message has as many requests as it has room for",
	Run:   postSplit,
}, req.SAS2_1_24)

// roomOfPost is the number of bytes of work requests for which a message has room.
const roomOfPost = schema.MaxMessage - native.HeaderSize - lenPost

// fillRecvs returns receives of n bytes in a post, a multiple of 16.
func fillRecvs(n int) (list []ci.RecvWR) {
	for n > 0 {
		part := min(n, lenRecv+lenSGE*schema.MaxSGE)
		list = append(list, ci.RecvWR{ID: uint64(n), SGL: make([]ci.SGE, (part-lenRecv)/lenSGE)})
		n -= part
	}
	return list
}

// fillSends returns sends of n bytes in a post, a multiple of 8: nothing, or one request and more.
func fillSends(n int) (list []ci.SendWR) {
	const most = lenSend + schema.MaxInline
	for n > 0 {
		part := min(n, most)
		if left := n - part; left > 0 && left < lenSend {
			part -= lenSend // so that there is room for another one
		}
		list = append(list, ci.SendWR{ID: uint64(n), Inline: make([]byte, part-lenSend)})
		n -= part
	}
	return list
}

func postSplit(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	ca := s.with().open()
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	rc, ud := ca.QP(pd, cq, cq), ca.QP(pd, cq, cq, kit.Type(ci.UD))
	r := s.record()
	send := func(what string, qp *kit.QP, list []ci.SendWR, messages int) {
		var want []string
		for _, w := range list {
			want = append(want, describeSend(w, ""))
		}
		s.trace.take()
		n, err := qp.PostSend(list)
		kit.WantTaken(t, "QP.PostSend of "+what, n, err, len(list))
		kit.Equal(t, "messages of "+what, s.trace.count("message QP.PostSend"), messages)
		r.want(t, what, want...)
	}
	recv := func(what string, list []ci.RecvWR, messages int) {
		var want []string
		for _, w := range list {
			want = append(want, describeRecv(w))
		}
		s.trace.take()
		n, err := rc.PostRecv(list)
		kit.WantTaken(t, "QP.PostRecv of "+what, n, err, len(list))
		kit.Equal(t, "messages of "+what, s.trace.count("message QP.PostRecv"), messages)
		r.want(t, what, want...)
	}
	t.Step("receives")
	for n := range 4 {
		last := ci.RecvWR{ID: 1, SGL: make([]ci.SGE, n)}
		left := roomOfPost - len(recvPart(last))
		recv(fmt.Sprintf("a message whose last receive has %d elements", n), append(fillRecvs(left), last), 1)
		recv(fmt.Sprintf("16 bytes more, with a last receive of %d elements", n),
			append(fillRecvs(left+lenSGE), last), 2)
	}
	recv("MaxBatch receives", make([]ci.RecvWR, schema.MaxBatch), 1)
	recv("one receive more than MaxBatch", make([]ci.RecvWR, schema.MaxBatch+1), 2)
	t.Step("sends")
	q := queues{qp: 1, ud: 2}
	for _, v := range q.sends() {
		qp := map[schema.Handle]*kit.QP{1: rc, 2: ud}[v.queue]
		left := roomOfPost - len(sendPart(v.w, v.h))
		send("a message whose last send has "+v.what, qp, append(fillSends(left), v.w), 1)
		send("8 bytes more, with a last send of "+v.what, qp, append(fillSends(left+8), v.w), 2)
	}
	const least = roomOfPost / lenSend
	send("the shortest sends of a message", rc, make([]ci.SendWR, least), 1)
	send("one of the shortest sends more", rc, make([]ci.SendWR, least+1), 2)
	send("the shortest sends of three messages", rc, make([]ci.SendWR, 3*least), 3)
}
