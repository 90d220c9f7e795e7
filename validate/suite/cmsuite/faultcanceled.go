package cmsuite

import (
	"context"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = recoveries.Case(validate.Case{
	ID: "mad.fault.canceled",
	Title: "QP1 fails when two datagrams and a canceled request wait, and a further datagram is sent during " +
		"its recovery",
	Run: faultCanceled,
}, MADFault03, MADFault01)

func faultCanceled(t *validate.T) {
	a, b, f := fragileSides(t)
	from, to := a.agent(vendor()), b.agent(vendor(mad.Send))
	addr := a.to(b)
	var sent [][]byte
	send := func(where string) {
		m := datagram(t, mad.Send, uint64(len(sent))+1)
		sent = append(sent, m)
		kit.OK(t, from.Send(&mads.Message{To: addr, MAD: m}), "mads.Agent.Send "+where)
	}
	received := 0
	receive := func(n int, where string) {
		for ; received < n; received++ {
			kit.SameBytes(t, "datagram "+where, arrival(t, to, "datagram "+where).MAD, sent[received])
		}
	}
	posting, recovering := make(chan struct{}), make(chan struct{})
	post, goOn := make(chan struct{}), make(chan struct{})
	freePost, freeRecovery := sync.OnceFunc(func() { close(post) }), sync.OnceFunc(func() { close(goOn) })
	defer freeRecovery()
	defer freePost()
	posts, changes := 0, 0
	f.set(func() {
		f.send = func(q ci.QP, wrs []ci.SendWR) (int, error) {
			f.mu.Lock()
			posts++
			n := posts
			f.mu.Unlock()
			switch n {
			case 1:
				close(posting)
				<-post
			case 2:
				if err := q.Modify(ci.ToError()); err != nil {
					return 0, err
				}
				return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidQPState}
			}
			return q.PostSend(wrs)
		}
		f.modify = func(q ci.QP, set ci.QPField, attr ci.QPAttr) error {
			f.mu.Lock()
			changes++
			isFirst := changes == 1
			f.mu.Unlock()
			if isFirst {
				close(recovering)
				<-goOn
			}
			return q.Modify(set, attr)
		}
	})
	first := make(chan error, 1)
	m := datagram(t, mad.Send, 1)
	sent = append(sent, m)
	t.Go(func() { first <- from.Send(&mads.Message{To: addr, MAD: m}) })
	await(t, posting, "PostSend of QP1")
	send("while another one is posted")
	send("while another one is posted")
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	kit.OK(t, from.StartDo(ctx, &mads.Message{To: addr, MAD: datagram(t, mad.Get, 100), Timeout: t.Remaining()},
		func(_ *mads.Received, err error) { ends <- err }), "mads.Agent.StartDo")
	cancel()
	kit.True(t, await(t, ends, "the end of a canceled request") != nil, "a canceled request", "an error", "success")
	freePost()
	await(t, recovering, "the recovery of QP1")
	send("during the recovery")
	freeRecovery()
	kit.OK(t, await(t, first, "mads.Agent.Send"), "mads.Agent.Send of the first datagram")
	receive(3, "from before the recovery")
	send("after the recovery")
	receive(len(sent), "from the recovery on")
	none(t, to, "QP1 of the peer after a recovery")
}
