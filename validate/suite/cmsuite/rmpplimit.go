package cmsuite

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var MADRMPP03 = datagrams.Must("MAD-RMPP-03", "IBTA 13.6.6", "mads, Message.MaxResponse",
	"A response of the length that the request admits is received. A longer one is stopped with a STOP of status 1, "+
		"at its first segment if that announces the length, and the request fails with InsufficientResources.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.limit",
	Title: "responses of the longest length that a request admits, and longer ones",
	Run:   rmppLimit,
}, MADRMPP03)

func rmppLimit(t *validate.T) {
	const first, last = mad.RMPPFirst, mad.RMPPLast
	s := newSegmented(t)
	for _, tt := range kit.Variants(t, "", []struct {
		name  string
		limit int // of data
		sends []mad.RMPP
		acks  []uint32
		bytes int // of data received; 0: the response is stopped
	}{
		{name: "the limit, unannounced", limit: 205, sends: []mad.RMPP{part(1, first, 0), part(2, last, lastPayload)},
			acks: []uint32{1, 2}, bytes: 205},
		{name: "the limit, announced", limit: 205,
			sends: []mad.RMPP{part(1, first, 205+2*20), part(2, last, lastPayload)}, acks: []uint32{1, 2}, bytes: 205},
		{name: "the limit, in one segment", limit: 5, sends: []mad.RMPP{part(1, first|last, lastPayload)},
			acks: []uint32{1}, bytes: 5},
		{name: "one byte more, unannounced", limit: 204,
			sends: []mad.RMPP{part(1, first, 0), part(2, last, lastPayload)}, acks: []uint32{1}},
		{name: "one byte more, announced", limit: 204, sends: []mad.RMPP{part(1, first, 205+2*20)}},
		{name: "one byte more, in one segment", limit: 4, sends: []mad.RMPP{part(1, first|last, lastPayload)}},
	}) {
		s.limit = mad.SAHeaderLen + tt.limit
		await := s.ask(3, t.Remaining(), 0)
		s.segment(1, 3)
		s.send(ack(1, 1), nil)
		for _, p := range tt.sends {
			s.send(p, saData(400)[(p.Segment()-1)*mad.SADataLen:][:mad.SADataLen])
		}
		for _, n := range tt.acks {
			where := "ACK, " + tt.name
			p, _ := s.next(where)
			kit.Equal(t, where+": type and segment", [2]uint32{uint32(p.Type), p.Segment()},
				[2]uint32{uint32(mad.RMPPAck), n})
		}
		if tt.bytes == 0 {
			where := "answer to " + tt.name
			p, _ := s.next(where)
			kit.Equal(t, where+": type", p.Type, mad.RMPPStop)
			kit.Equal(t, where+": status", p.Status, mad.RMPPResourcesExhausted)
			_, err := await()
			kit.WantExactly(t, err, "mads.Agent.Do, "+tt.name, ci.InsufficientResources)
			s.send(part(2, last, lastPayload), saData(mad.SADataLen)) // of a transfer that has ended: no answer
			continue
		}
		r, err := await()
		kit.OK(t, err, "mads.Agent.Do, "+tt.name)
		kit.SameBytes(t, "response, "+tt.name, r.MAD[mad.SAHeaderLen:], saData(400)[:tt.bytes])
	}
}
