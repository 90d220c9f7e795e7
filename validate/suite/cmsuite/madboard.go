package cmsuite

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.board",
	Title: "requests and responses of baseboard management, which differ in their modifier",
	Run:   gsiBoard,
}, MADGSI05)

func gsiBoard(t *validate.T) {
	a, b := sides(t)
	cfg := mads.AgentConfig{Name: "board", Class: mad.ClassBoard, Version: 1}
	asker := a.agent(cfg)
	cfg.Methods = []mad.Method{mad.Send}
	board := b.agent(cfg)
	datagram := func(tid uint64, modifier uint32) []byte {
		m := make([]byte, mad.Size)
		(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassBoard, ClassVersion: 1, Method: mad.Send, TID: tid,
			Attribute: vendorAttr, Modifier: modifier}).Put(m)
		m[mad.Size-1] = byte(tid)
		return m
	}
	for i, modifier := range []uint32{0, 2, 0xfffffffe} {
		tid := uint64(i) + 1
		awaitAnswer := result(t, "mads.Agent.Do", func(ctx context.Context) (*mads.Received, error) {
			return asker.Do(ctx, &mads.Message{To: a.to(b), MAD: datagram(tid, modifier), Timeout: t.Remaining() / 2})
		})
		r := arrival(t, board, "request of baseboard management")
		h := r.Header()
		kit.Equal(t, "modifier of a request", h.Modifier, modifier)
		// A response for no request reaches nobody, neither here nor there.
		kit.OK(t, asker.Send(&mads.Message{To: a.to(b), MAD: datagram(77, modifier|1)}),
			"mads.Agent.Send of a response")
		h.Modifier |= 1
		h.Put(r.MAD)
		kit.OK(t, board.Send(&mads.Message{To: r.From, MAD: r.MAD}), "mads.Agent.Send of a response")
		answer, err := awaitAnswer()
		kit.OK(t, err, "mads.Agent.Do of a request of baseboard management")
		kit.Equal(t, "transaction ID of the response", answer.Header().TID, tid)
		kit.Equal(t, "modifier of the response", answer.Header().Modifier, modifier|1)
		_, err = asker.Do(t.Context(), &mads.Message{To: a.to(b), MAD: datagram(tid, modifier|1)})
		kit.WantExactly(t, err, "mads.Agent.Do of a response of baseboard management", ci.InvalidParameter)
	}
	none(t, board, "responses for no request")
}
