package cmsuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Long messages, packet by packet. The certifier plays the responder: an agent without RMPP gets each packet.

// segmented is a request of the MAD services under test, and the script of its responder.
type segmented struct {
	t     *validate.T
	a, b  *side
	asker mads.Agent // with RMPP
	agent mads.Agent // of the script
	head  []byte     // headers of the packets that the script receives
	tid   uint64     // of the next request
	limit int        // of the responses, in bytes with the headers; 0: none
}

func newSegmented(t *validate.T) *segmented {
	a, b := sides(t)
	cfg := mads.AgentConfig{Name: "certifier", Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin,
		RMPP: true}
	s := &segmented{t: t, a: a, b: b, asker: a.agent(cfg)}
	cfg.RMPP, cfg.Methods = false, []mad.Method{mad.GetTable}
	s.agent = b.agent(cfg)
	return s
}

// saData returns n bytes of data, all different from their neighbors.
func saData(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i/200)
	}
	return b
}

// ask begins a request with n bytes of data.
func (s *segmented) ask(n int, timeout time.Duration, retries int) func() (*mads.Received, error) {
	s.tid++
	msg := append(make([]byte, mad.SAHeaderLen), saData(n)...)
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin, ClassVersion: mad.ClassVersionSubnetAdmin,
		Method: mad.GetTable, TID: s.tid, Attribute: mad.AttrPathRecord}).Put(msg)
	return result(s.t, "mads.Agent.Do", func(ctx context.Context) (*mads.Received, error) {
		return s.asker.Do(ctx, &mads.Message{To: s.a.to(s.b), MAD: msg, Timeout: timeout, Retries: retries,
			MaxResponse: s.limit})
	})
}

// next waits for a packet and returns its RMPP header and its data.
func (s *segmented) next(where string) (p mad.RMPP, data []byte) {
	r := recv(s.t, s.agent, where)
	h := r.Header()
	kit.Equal(s.t, where+": lower half of the transaction ID", uint32(h.TID), uint32(s.tid))
	kit.Equal(s.t, where+": method", h.Method, mad.GetTable)
	p.Parse(r.MAD[mad.HeaderLen:])
	kit.Equal(s.t, where+": version", p.Version, mad.RMPPVersion)
	kit.True(s.t, p.Active(), where+": flag Active", "set", "not set")
	s.head = bytes.Clone(r.MAD[:mad.SAHeaderLen])
	return p, r.MAD[mad.SAHeaderLen:]
}

// segment waits for segment n of a request with total bytes of data, and checks it.
func (s *segmented) segment(n, total int) {
	where := fmt.Sprintf("segment %d of %d bytes", n, total)
	p, data := s.next(where)
	numSegments := max((total+mad.SADataLen-1)/mad.SADataLen, 1)
	want := mad.RMPP{Version: mad.RMPPVersion, Type: mad.RMPPData, ResponseTime: mad.RMPPNoTime, Flags: mad.RMPPActive,
		Data1: uint32(n)}
	const saHeader = mad.SAHeaderLen - mad.RMPPEnd // counts as payload of each segment
	size := mad.SADataLen
	if n == 1 {
		want.Flags |= mad.RMPPFirst
		want.Data2 = uint32(total + numSegments*saHeader)
	}
	if n == numSegments {
		want.Flags |= mad.RMPPLast
		size = total - (n-1)*mad.SADataLen
		want.Data2 = uint32(size + saHeader)
	}
	kit.Equal(s.t, where, p, want)
	kit.SameBytes(s.t, where+": data", data[:size], saData(total)[(n-1)*mad.SADataLen:][:size])
}

// send sends a packet of the responder.
func (s *segmented) send(p mad.RMPP, data []byte) {
	b := make([]byte, mad.Size)
	copy(b, s.head)
	b[3] = byte(mad.GetTable | mad.ResponseMask)
	p.ResponseTime = mad.RMPPNoTime
	p.Put(b[mad.HeaderLen:])
	copy(b[mad.SAHeaderLen:], data)
	kit.OK(s.t, s.agent.Send(&mads.Message{To: s.b.to(s.a), MAD: b}), "mads.Agent.Send of a packet")
}

func packet(typ mad.RMPPType, flags mad.RMPPFlags, status mad.RMPPStatus, data1, data2 uint32) mad.RMPP {
	return mad.RMPP{Version: mad.RMPPVersion, Type: typ, Flags: mad.RMPPActive | flags, Status: status, Data1: data1,
		Data2: data2}
}

func ack(segment, window uint32) mad.RMPP { return packet(mad.RMPPAck, 0, 0, segment, window) }

// part is a DATA packet of a response: a segment of saData with its number.
func part(n uint32, flags mad.RMPPFlags, payload uint32) mad.RMPP {
	return packet(mad.RMPPData, flags, 0, n, payload)
}

// lastPayload is the payload length of a last segment of 5 bytes: the SA header counts.
const lastPayload = mad.SAHeaderLen - mad.RMPPEnd + 5

// abortOf waits for an ABORT or STOP and checks its status.
func (s *segmented) abortOf(name string, want mad.RMPPStatus) {
	where := "answer to " + name
	p, _ := s.next(where)
	kit.Equal(s.t, where+": type", p.Type, mad.RMPPAbort)
	kit.Equal(s.t, where+": status", p.Status, want)
}

// fails checks the error of a request whose transfer has failed.
func (s *segmented) fails(err error, name string, want mads.RMPPError) {
	var e *mads.RMPPError
	kit.True(s.t, errors.As(err, &e) && e.Status == want.Status && e.Peer == want.Peer, "mads.Agent.Do after "+name,
		fmt.Sprintf("a *mads.RMPPError, status %v, Peer %v", want.Status, want.Peer), "%v", err)
}

var MADRMPP01 = datagrams.Must("MAD-RMPP-01", "IBTA 13.6.6", "mads, Agent.Do, AgentConfig.RMPP",
	"The receiver of a long message acknowledges its segments, takes them in any order within the window, and answers "+
		"a packet that violates the protocol with an ABORT that has the status of the violation.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.receive",
	Title: "responses in segments, valid and not",
	Run:   rmppReceive,
}, MADRMPP01)

func rmppReceive(t *validate.T) {
	const first, last = mad.RMPPFirst, mad.RMPPLast
	one := part(1, first, 0)
	version := part(2, 0, 0)
	version.Version = 2
	s := newSegmented(t)
	for _, tt := range kit.Variants(t, "", []struct {
		name   string
		sends  []mad.RMPP
		acks   []uint32 // segments that the receiver acknowledges
		bytes  int      // of data received; 0: the request fails
		status mad.RMPPStatus
		isPeer bool
	}{
		{name: "one segment", sends: []mad.RMPP{part(1, first|last, lastPayload)}, acks: []uint32{1}, bytes: 5},
		{name: "three segments", sends: []mad.RMPP{one, part(2, 0, 0), part(3, last, lastPayload)},
			acks: []uint32{1, 3}, bytes: 405},
		{name: "a total length in the first segment",
			sends: []mad.RMPP{part(1, first, 205+2*20), part(2, last, lastPayload)}, acks: []uint32{1, 2}, bytes: 205},
		{name: "the last segment before the second", sends: []mad.RMPP{one, part(3, last, lastPayload), part(2, 0, 0)},
			acks: []uint32{1, 3}, bytes: 405},
		{name: "the last segment before two others",
			sends: []mad.RMPP{one, part(4, last, lastPayload), part(2, 0, 0), part(3, 0, 0)}, acks: []uint32{1, 4},
			bytes: 605},
		{name: "segments in disorder",
			sends: []mad.RMPP{one, part(3, 0, 0), part(5, last, lastPayload), part(2, 0, 0), part(4, 0, 0)},
			acks:  []uint32{1, 5}, bytes: 805},
		{name: "copies of segments", sends: []mad.RMPP{one, one, part(3, last, lastPayload), part(3, last, lastPayload),
			part(2, 0, 0), one}, acks: []uint32{1, 1, 3, 3}, bytes: 405},
		{name: "a segment beyond the window", sends: []mad.RMPP{one, part(1<<20, 0, 0), part(2, last, lastPayload)},
			acks: []uint32{1, 2}, bytes: 205},
		{name: "version 2", sends: []mad.RMPP{one, version}, acks: []uint32{1}, status: mad.RMPPBadVersion},
		{name: "type 5", sends: []mad.RMPP{one, packet(5, 0, 0, 2, 0)}, acks: []uint32{1}, status: mad.RMPPBadType},
		{name: "segment 0", sends: []mad.RMPP{one, part(0, 0, 0)}, acks: []uint32{1}, status: mad.RMPPBadSegment},
		{name: "a second first segment", sends: []mad.RMPP{one, part(2, first, 0)}, acks: []uint32{1},
			status: mad.RMPPBadSegment},
		{name: "a status in DATA", sends: []mad.RMPP{one, packet(mad.RMPPData, 0, 1, 2, 0)}, acks: []uint32{1},
			status: mad.RMPPIllegalStatus},
		{name: "a last segment that is too long", sends: []mad.RMPP{one, part(2, last, 221)}, acks: []uint32{1},
			status: mad.RMPPBadLength},
		{name: "a total length that the segments exceed",
			sends: []mad.RMPP{part(1, first, 204+2*20), part(2, last, lastPayload)}, acks: []uint32{1},
			status: mad.RMPPBadLength},
		{name: "a segment after the last one", sends: []mad.RMPP{one, part(3, last, lastPayload), part(4, 0, 0)},
			acks: []uint32{1}, status: mad.RMPPBadSegment},
		{name: "a last segment after a later one", sends: []mad.RMPP{one, part(4, 0, 0), part(3, last, lastPayload)},
			acks: []uint32{1}, status: mad.RMPPBadSegment},
		{name: "two last segments", sends: []mad.RMPP{one, part(3, last, lastPayload), part(2, last, lastPayload)},
			acks: []uint32{1}, status: mad.RMPPBadSegment},
		{name: "STOP", sends: []mad.RMPP{one, packet(mad.RMPPStop, 0, 1, 0, 0)}, acks: []uint32{1},
			status: mad.RMPPResourcesExhausted, isPeer: true},
		{name: "ABORT", sends: []mad.RMPP{one, packet(mad.RMPPAbort, 0, 126, 0, 0)}, acks: []uint32{1},
			status: mad.RMPPTooManyRetries, isPeer: true},
		{name: "ABORT with an illegal status", sends: []mad.RMPP{one, packet(mad.RMPPAbort, 0, 5, 0, 0)},
			acks: []uint32{1}, status: mad.RMPPIllegalStatus, isPeer: true},
	}) {
		await := s.ask(3, t.Remaining(), 0)
		s.segment(1, 3)
		s.send(ack(1, 1), nil)
		for _, p := range tt.sends {
			if n := int(p.Segment()); n >= 1 && n < 10 {
				s.send(p, saData(2000)[(n-1)*mad.SADataLen:][:mad.SADataLen])
			} else {
				s.send(p, nil)
			}
		}
		for _, n := range tt.acks {
			where := fmt.Sprintf("ACK of segment %d, %s", n, tt.name)
			p, _ := s.next(where)
			kit.Equal(t, where+": type", p.Type, mad.RMPPAck)
			kit.Equal(t, where+": segment", p.Segment(), n)
			kit.True(t, p.NewWindowLast() >= n, where+": window", "at least the segment", "%d", p.NewWindowLast())
		}
		if tt.bytes == 0 && !tt.isPeer {
			s.abortOf(tt.name, tt.status)
		}
		r, err := await()
		if tt.bytes == 0 {
			kit.WantExactly(t, err, "mads.Agent.Do after "+tt.name, ci.ErrorStatus)
			s.fails(err, tt.name, mads.RMPPError{Status: tt.status, Peer: tt.isPeer})
			continue
		}
		kit.OK(t, err, "mads.Agent.Do, "+tt.name)
		kit.Equal(t, "transaction ID of the response, "+tt.name, r.Header().TID, s.tid)
		kit.SameBytes(t, "response, "+tt.name, r.MAD[mad.SAHeaderLen:], saData(2000)[:tt.bytes])
	}
}

var MADRMPP02 = datagrams.Must("MAD-RMPP-02", "IBTA 13.6.6", "mads, Agent.Do, AgentConfig.RMPP",
	"The sender of a long message sends the segments that the window of the last ACK permits, sends them again "+
		"without an ACK, and answers an ACK that violates the protocol with an ABORT that has the status of the "+
		"violation.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.send",
	Title: "a request of five segments, with valid ACKs and others",
	Run:   rmppSend,
}, MADRMPP02)

func rmppSend(t *validate.T) {
	const total = 4*mad.SADataLen + 9 // five segments
	s := newSegmented(t)
	version := ack(1, 2)
	version.Version = 2
	type step struct {
		ack  mad.RMPP
		then []int // segments that follow
	}
	for _, tt := range kit.Variants(t, "", []struct {
		name   string
		steps  []step
		status mad.RMPPStatus // 0: the request succeeds
		isPeer bool
	}{
		{name: "windows of two segments", steps: []step{{ack(1, 3), []int{2, 3}}, {ack(3, 5), []int{4, 5}},
			{ack(5, 5), nil}}},
		{name: "an ACK of a part", steps: []step{{ack(1, 4), []int{2, 3, 4}}, {ack(2, 5), []int{5}}, {ack(5, 5), nil}}},
		{name: "an earlier ACK", steps: []step{{ack(1, 3), []int{2, 3}}, {ack(0, 5), nil}, {ack(3, 5), []int{4, 5}},
			{ack(5, 9), nil}}},
		{name: "a smaller window", steps: []step{{ack(1, 3), []int{2, 3}}, {ack(2, 2), nil}, {ack(3, 5), []int{4, 5}},
			{ack(5, 9), nil}}},
		{name: "the response without an ACK", steps: []step{{ack(1, 3), []int{2, 3}}}},
		{name: "an ACK beyond the window", steps: []step{{ack(2, 2), nil}}, status: mad.RMPPSegmentTooBig},
		{name: "an ACK beyond the last segment", steps: []step{{ack(1, 9), []int{2, 3, 4, 5}}, {ack(6, 9), nil}},
			status: mad.RMPPSegmentTooBig},
		{name: "a window before the segment", steps: []step{{ack(1, 0), nil}}, status: mad.RMPPWindowTooSmall},
		{name: "a status in an ACK", steps: []step{{packet(mad.RMPPAck, 0, 1, 1, 2), nil}},
			status: mad.RMPPIllegalStatus},
		{name: "version 2", steps: []step{{version, nil}}, status: mad.RMPPBadVersion},
		{name: "STOP", steps: []step{{packet(mad.RMPPStop, 0, 1, 0, 0), nil}}, status: mad.RMPPResourcesExhausted,
			isPeer: true},
		{name: "ABORT", steps: []step{{ack(1, 2), []int{2}}, {packet(mad.RMPPAbort, 0, 127, 0, 0), nil}},
			status: mad.RMPPUnspecified, isPeer: true},
	}) {
		await := s.ask(total, t.Remaining(), 0)
		s.segment(1, total)
		for _, p := range tt.steps {
			s.send(p.ack, nil)
			for _, n := range p.then {
				s.segment(n, total)
			}
		}
		if tt.status != 0 {
			if !tt.isPeer {
				s.abortOf(tt.name, tt.status)
			}
			_, err := await()
			kit.WantExactly(t, err, "mads.Agent.Do after "+tt.name, ci.ErrorStatus)
			s.fails(err, tt.name, mads.RMPPError{Status: tt.status, Peer: tt.isPeer})
			continue
		}
		s.send(part(1, mad.RMPPFirst|mad.RMPPLast, lastPayload), saData(5))
		p, _ := s.next("ACK of the response")
		kit.Equal(t, "packet after the response", [2]uint32{uint32(p.Type), p.Segment()},
			[2]uint32{uint32(mad.RMPPAck), 1})
		r, err := await()
		kit.OK(t, err, "mads.Agent.Do, "+tt.name)
		kit.SameBytes(t, "response, "+tt.name, r.MAD[mad.SAHeaderLen:], saData(5))
	}
	await := s.ask(total, 20*time.Millisecond, 2)
	for range 3 {
		s.segment(1, total)
	}
	s.abortOf("no ACK", mad.RMPPTooManyRetries)
	_, err := await()
	kit.WantExactly(t, err, "mads.Agent.Do without an ACK", ci.Timeout)
}
