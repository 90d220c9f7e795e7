package cmsuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Long messages that peers begin, and the times and limits of transfers. The time of the services is the case's.

// Times of transfers, which are those of Linux.
const (
	rmppAckTime     = 2 * time.Second
	rmppSegmentTime = 40 * time.Second
	rmppDoneTime    = 10 * time.Second
	rmppSecondTime  = 10 * time.Millisecond
)

// sender plays the senders of long messages of subnet administration to a bench, packet by packet.
type sender struct {
	*bench
	agent mads.Agent // receives the messages, with methods Send and Set
	lid   ci.LID     // of the sender
}

func newSender(t *validate.T, c mads.Config) *sender {
	return newSenderOn(newBench(t, benchSetting{mads: c, virtual: true}))
}

// newSenderOn is newSender with a bench in virtual time.
func newSenderOn(b *bench) *sender {
	return &sender{bench: b, lid: 0x111, agent: b.agent(mads.AgentConfig{Name: "receiver",
		Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin, RMPP: true,
		Methods: []mad.Method{mad.Send, mad.Set}})}
}

// from returns an edit that sets the sender of a datagram.
func (s *sender) from(lid ci.LID) func(w *ci.WC, slot []byte) {
	return func(w *ci.WC, slot []byte) {
		if s.ca.Port.Link == ci.LinkInfiniBand {
			w.SLID = lid
			return
		}
		own := s.ca.Port.GIDs[0].GID
		g := gidOf([]byte{0xfd, 3, 3, 3, 3, 3, byte(lid >> 8), byte(lid)}, 1)
		if own == mapped(own[12:]...) {
			g = mapped(10, 77, byte(lid>>8), byte(lid))
		}
		grh := slot[:grhLen]
		clear(grh)
		grh[0] = 0x60
		copy(grh[8:], g[:])
		copy(grh[24:], own[:])
	}
}

// packet injects a packet of a transfer. data are the bytes of the segment.
func (s *sender) packet(method mad.Method, tid uint64, p mad.RMPP, data []byte) {
	m := make([]byte, mad.Size)
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin, ClassVersion: mad.ClassVersionSubnetAdmin,
		Method: method, TID: tid, Attribute: mad.AttrPathRecord}).Put(m)
	p.ResponseTime = mad.RMPPNoTime
	p.Put(m[mad.HeaderLen:])
	copy(m[mad.SAHeaderLen:], data)
	source := s.from(s.lid)
	s.inject(1, func(w *ci.WC, slot []byte) {
		copy(slot[grhLen:], m)
		source(w, slot)
	})
}

// segment injects segment n of a message of several segments, the last of which has 5 bytes. A total of 0 is not
// announced.
func (s *sender) segment(tid uint64, n, last, total int) {
	p := part(uint32(n), 0, 0)
	if n == 1 {
		p.Flags |= mad.RMPPFirst
		if p.Data2 = 0; total > 0 {
			p.Data2 = uint32(total + max((total+mad.SADataLen-1)/mad.SADataLen, 1)*20)
		}
	}
	if n == last {
		p.Flags |= mad.RMPPLast
		p.Data2 = lastPayload
	}
	s.packet(mad.Send, tid, p, segmentData(n))
}

// segmentData returns the data of segment n, which saData has at its place.
func segmentData(n int) []byte { return saData(n * mad.SADataLen)[(n-1)*mad.SADataLen:] }

// replies returns what the services have replied, in words.
func (s *sender) replies() (words []string) {
	s.settle(1)
	for _, p := range s.sent() {
		h, r := p.header(), p.rmpp()
		w := fmt.Sprintf("%v %d", r.Type, r.Status)
		switch {
		case !r.Active():
			w = fmt.Sprintf("method %#x status %#x", uint8(h.Method), h.Status)
		case r.Type == mad.RMPPAck || r.Type == mad.RMPPData:
			w = fmt.Sprintf("%v %d %d", r.Type, r.Data1, r.Data2)
		}
		words = append(words, w)
	}
	return words
}

// wants expects replies.
func (s *sender) wants(after string, want ...string) {
	got := s.replies()
	kit.True(s.t, slices.Equal(got, want), "replies after "+after, fmt.Sprintf("%q", want), "%q", got)
}

// message expects a message of n segments, the last of which has 5 bytes.
func (s *sender) message(tid uint64, n int) {
	where := fmt.Sprintf("message %d of %d segments", tid, n)
	r := recv(s.t, s.agent, where)
	kit.Equal(s.t, where+": transaction ID", r.Header().TID, tid)
	kit.Equal(s.t, where+": method", r.Header().Method, mad.Send)
	kit.SameBytes(s.t, where, r.MAD[mad.SAHeaderLen:], saData((n-1)*mad.SADataLen+5))
}

// noMessage expects that no message is complete.
func (s *sender) noMessage(after string) {
	s.settle(1)
	ended, cancel := deadline(s.t, time.Now())
	defer cancel()
	if r, err := s.agent.Recv(ended); err == nil {
		s.t.Failf("message after "+after, "none", "transaction %d with %d bytes", r.Header().TID, len(r.MAD))
	}
}

// window is the number of segments by which the receiver extends the window.
func (s *sender) window() int {
	attr, err := s.ca.CA.Query()
	kit.OK(s.t, err, "CA.Query")
	return min(512, attr.MaxWRs) / 8
}

var MADRMPP04 = datagrams.Must("MAD-RMPP-04", "IBTA 13.6.6", "mads, AgentConfig.RMPP, Agent.Recv",
	"A message that a peer sends in segments is received once and complete, is acknowledged, also again, for 10 s, "+
		"and is aborted with status 118 if its next segment does not come within 40 s.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.unsolicited",
	Title: "messages that a peer begins, packet by packet, and their times",
	Run:   rmppUnsolicited,
}, MADRMPP04)

func rmppUnsolicited(t *validate.T) {
	severalSources(t)
	s := newSender(t, mads.Config{MaxMessage: mad.SAHeaderLen + 2005})
	w := s.window()
	ack := func(n, last int) string { return fmt.Sprintf("ACK %d %d", n, last) }
	const only = mad.RMPPFirst | mad.RMPPLast
	t.Step("%s", "one segment")
	s.packet(mad.Send, 1, part(1, only, lastPayload), segmentData(1))
	s.wants("a message of one segment", ack(1, 1))
	s.message(1, 1)
	s.packet(mad.Send, 1, part(1, only, lastPayload), segmentData(1))
	s.wants("its copy", ack(1, 1))
	s.advance(rmppDoneTime - time.Nanosecond)
	s.packet(mad.Send, 1, part(1, only, lastPayload), segmentData(1))
	s.wants("its copy after almost 10 s", ack(1, 1))
	s.noMessage("copies")
	s.packet(mad.Send, 1, part(2, 0, 0), segmentData(2))
	s.wants("a segment after the last one of a finished message", ack(1, 1))
	s.advance(time.Nanosecond)
	s.packet(mad.Send, 1, part(2, 0, 0), segmentData(2))
	s.wants("the second segment of no transfer")
	s.packet(mad.Send, 1, part(1, only, lastPayload), segmentData(1))
	s.wants("the same message after 10 s", ack(1, 1))
	s.message(1, 1)

	t.Step("%s", "several segments")
	s.segment(2, 1, 4, 605)
	s.wants("segment 1 of 4", ack(1, 1+w))
	s.segment(2, 3, 4, 605)
	s.segment(2, 4, 4, 605)
	s.segment(2, 3, 4, 605)
	s.wants("segments 3 and 4 of 4")
	s.noMessage("segments 3 and 4 of 4")
	s.segment(2, 2, 4, 605)
	s.wants("segment 2 of 4", ack(4, 1+w))
	s.message(2, 4)
	s.segment(3, 1, 0, 0)
	s.wants("segment 1", ack(1, 1+w))
	s.segment(3, w+2, 0, 0)
	s.wants("a segment beyond the window")
	for _, x := range []mad.RMPP{packet(mad.RMPPAck, 0, 0, 1, 1), packet(mad.RMPPStop, 0, 1, 0, 0),
		packet(mad.RMPPAbort, 0, 127, 0, 0)} {
		s.packet(mad.Send|mad.ResponseMask, 3, x, nil)
		s.wants("a packet of the receiver of no transfer")
	}
	s.packet(mad.Send, 3, packet(mad.RMPPAbort, 0, 127, 0, 0), nil)
	s.segment(3, 2, 3, 0)
	s.wants("an ABORT of the sender and a segment")
	s.packet(mad.Send, 33, packet(mad.RMPPAbort, 0, 127, 0, 0), nil)
	s.packet(mad.Send, 33, packet(mad.RMPPStop, 0, 1, 0, 0), nil)
	s.wants("ABORT and STOP of no transfer")

	t.Step("%s", "times")
	s.segment(4, 1, 3, 0)
	s.wants("segment 1 of 3", ack(1, 1+w))
	s.advance(rmppSegmentTime - time.Nanosecond)
	s.wants("almost 40 s")
	s.segment(4, 2, 3, 0)
	s.wants("segment 2 of 3")
	s.advance(rmppSegmentTime - time.Nanosecond)
	s.wants("almost 40 s")
	s.segment(4, 2, 3, 0)
	s.wants("segment 2 again", ack(2, 1+w))
	s.advance(time.Nanosecond)
	s.wants("40 s without segment 3", "ABORT 118")
	s.segment(4, 3, 3, 0)
	s.wants("segment 3 after the ABORT")
	s.noMessage("40 s without segment 3")

	t.Step("%s", "faults")
	for i, v := range []struct {
		name string
		p    mad.RMPP
		want []string
	}{
		{"segment 1 without the flag First", part(1, 0, 0), []string{"ABORT 120"}},
		{"segment 0", part(0, mad.RMPPFirst, 0), []string{"ABORT 120"}},
		{"a last segment that is too long", part(1, only, 221), []string{"ABORT 119"}},
		{"a last segment shorter than its header", part(1, only, 19), []string{"ABORT 119"}},
		{"a total length that cannot be", part(1, mad.RMPPFirst, 220+10), []string{"ABORT 119"}},
		{"a total length beyond the limit", part(1, mad.RMPPFirst, 2062+11*20), []string{"STOP 1"}},
		{"a status", packet(mad.RMPPData, mad.RMPPFirst, 1, 1, 0), []string{"ABORT 124"}},
		{"type 9", packet(9, mad.RMPPFirst, 0, 1, 0), []string{"ABORT 121"}},
	} {
		s.packet(mad.Send, uint64(10+i), v.p, segmentData(1))
		s.wants(v.name, v.want...)
		s.packet(mad.Send, uint64(10+i), part(2, mad.RMPPLast, lastPayload), segmentData(2))
		s.wants("a segment after " + v.name)
	}
	s.segment(30, 1, 2, 305)
	s.segment(30, 2, 2, 0)
	s.wants("a message that is shorter than announced", ack(1, 1+w), "ABORT 119")
	s.noMessage("messages with faults")

	t.Step("%s", "the longest message")
	s.segment(40, 1, 11, 2005)
	for n := 2; n <= 11; n++ {
		s.segment(40, n, 11, 2005)
	}
	s.wants("the longest message", ack(1, 1+w), ack(11, 1+w))
	s.message(40, 11)
	s.segment(41, 1, 0, 0)
	s.wants("segment 1 without a total", ack(1, 1+w))
	for n := 2; n <= min(w, 20); n++ {
		s.segment(41, n, 0, 0)
	}
	kit.True(t, slices.Contains(s.replies(), "STOP 1"), "replies to a message that becomes longer than the limit",
		"STOP 1", "none")
	s.segment(41, 2, 2, 0)
	s.wants("a segment after the STOP")

	t.Step("%s", "close")
	s.segment(50, 1, 3, 0)
	s.packet(mad.Send, 51, part(1, only, lastPayload), segmentData(1))
	s.wants("a message that is not complete, and one that is", ack(1, 1+w), ack(1, 1))
	kit.OK(t, s.agent.Close(), "mads.Agent.Close")
	s.wants("Close during a message", "ABORT 127")
	s.segment(50, 2, 3, 0)
	s.wants("a segment of a closed agent")
	s.segment(52, 1, 3, 0) // nobody receives it, so the port answers as for any other request
	s.wants("a message for a closed agent")
}

var MADRMPP05 = datagrams.Must("MAD-RMPP-05", "CI access layer", "mads, Config.MaxTransfers, MaxReassembly",
	"Transfers that peers begin are bounded in number and bytes, and one peer may have a quarter of each. Beyond that "+
		"the reply is STOP, unless a transfer makes no progress and gives its place to the new one. A transfer that "+
		"ends frees its place.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.places",
	Title: "more transfers than there are places, of one peer and of several",
	Run:   rmppPlaces,
}, MADRMPP05)

func rmppPlaces(t *validate.T) {
	severalSources(t)
	s := newSender(t, mads.Config{MaxTransfers: 8, MaxRepliesPeer: 1000, MaxReplies: 1000})
	ack := fmt.Sprintf("ACK 1 %d", 1+s.window())
	tid := uint64(0)
	begin := func() uint64 { tid++; s.segment(tid, 1, 3, 405); return tid }
	t.Step("%s", "one peer")
	one, two := begin(), begin()
	s.wants("two transfers of one peer", ack, ack)
	begin()
	s.wants("a third transfer of one peer", "STOP 1")
	s.segment(one, 2, 3, 0)
	s.segment(one, 3, 3, 0)
	s.wants("the end of a transfer", fmt.Sprintf("ACK 3 %d", 1+s.window()))
	s.message(one, 3)
	three := begin()
	s.wants("a transfer after one has ended", ack)
	begin()
	s.wants("a further transfer", "STOP 1")
	s.packet(mad.Send, three, packet(mad.RMPPAbort, 0, 127, 0, 0), nil)
	four := begin()
	s.wants("a transfer after one was aborted", ack)
	s.segment(four, 2, 3, 0) // so that it is live for longer
	s.advance(rmppSecondTime - time.Nanosecond)
	begin()
	s.wants("a transfer before another one may give way", "STOP 1")
	s.advance(time.Nanosecond)
	five := begin() // two has one segment, and gives way
	s.wants("a transfer after 10 ms without progress of another", ack)
	s.segment(two, 2, 3, 0)
	s.wants("a segment of the transfer that gave way")
	s.segment(five, 2, 3, 0)
	s.advance(rmppAckTime - rmppSecondTime - time.Nanosecond)
	begin()
	s.wants("a transfer before others may give way", "STOP 1")
	s.advance(2 * rmppSecondTime)
	begin() // four gives way, the older one
	s.wants("a transfer after 2 s without progress of another", ack)
	s.segment(four, 3, 3, 0)
	s.wants("a segment of the transfer that gave way")
	s.segment(five, 3, 3, 0)
	s.message(five, 3)
	s.sent()

	t.Step("%s", "several peers")
	s.advance(time.Hour)
	s.sent()
	for lid := range ci.LID(4) {
		s.lid = 0x200 + lid
		begin()
		begin()
		s.wants("two transfers of each of four peers", ack, ack)
	}
	s.lid = 0x300
	begin()
	s.wants("a ninth transfer", "STOP 1")
	s.advance(rmppSecondTime)
	begin()
	s.wants("a ninth transfer after 10 ms without progress of the others", ack)

	t.Step("%s", "responses")
	for range 2 { // they are not transfers that peers begin
		s.request(1)
	}
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.slow",
	Title: "responses whose segments take longer than the timeout of the request",
	Run: func(t *validate.T) {
		s := newSender(t, mads.Config{})
		s.request(2)
		s.request(4)
	},
}, MADRMPP04)

// request makes a request of the bench whose response has n segments. Each but the first comes after the timeout of the
// request, which a response that has begun meets.
func (s *sender) request(n int) {
	const timeout = time.Second
	t := s.t
	asker := s.bench.agent(mads.AgentConfig{Name: "asker", Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true})
	m := make([]byte, mad.Size)
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin, ClassVersion: mad.ClassVersionSubnetAdmin,
		Method: mad.GetTable, TID: 5, Attribute: mad.AttrPathRecord}).Put(m)
	ended := make(chan error, 1)
	s.sent()
	err := asker.StartDo(t.Context(), &mads.Message{To: s.side.to(s.peer), MAD: m, Timeout: timeout},
		func(r *mads.Received, err error) {
			if err == nil && len(r.MAD) != mad.SAHeaderLen+(n-1)*mad.SADataLen+5 {
				err = fmt.Errorf("a response of %d bytes", len(r.MAD))
			}
			ended <- err
		})
	kit.OK(t, err, "mads.Agent.StartDo")
	s.settle(1)
	list := s.sent()
	kit.True(t, len(list) == 1, "datagrams of a request", "1", "%s", describeSent(list))
	for i := range n {
		p := part(uint32(i+1), 0, 0)
		if i == 0 {
			p.Flags |= mad.RMPPFirst
		} else {
			s.settle(1)
			s.sent()
			s.advance(2 * timeout)
			kit.Equal(t, "datagrams after the timeout of a request whose response has begun", len(s.sent()), 0)
		}
		if i == n-1 {
			p.Flags |= mad.RMPPLast
			p.Data2 = lastPayload
		}
		answer := slices.Clone(list[0].mad)
		answer[3] = byte(mad.GetTableResp)
		p.Put(answer[mad.HeaderLen:])
		s.deliver(1, answer)
	}
	kit.OK(t, await(t, ended, "mads.Agent.StartDo"), "mads.Agent.StartDo with a long response")
	s.settle(1)
	s.sent()
	kit.OK(t, asker.Close(), "mads.Agent.Close")
}

var MADRMPP06 = datagrams.Must("MAD-RMPP-06", "CI access layer", "mads, Agent.Send, Do, Message.Timeout, Retries",
	"A long message is sent again without an ACK, by default after 2 s and three times, and then it is aborted with "+
		"status 126. Long messages that are being sent are bounded, those with the same transaction ID rejected with "+
		"ResourceBusy, and those of a closed agent aborted.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.sends",
	Title: "long messages without an ACK, and more than there is room for",
	Run:   rmppSends,
}, MADRMPP06)

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.few",
	Title: "long responses to one peer, with room for three transfers",
	Run:   rmppFew,
}, MADRMPP06)

func rmppFew(t *validate.T) {
	s := newSender(t, mads.Config{MaxTransfers: 3})
	const resp = mad.Send | mad.ResponseMask
	send := func(to mads.Address, tid uint64) error {
		return s.agent.Send(&mads.Message{To: to, MAD: longMessage(resp, tid, 5), Timeout: time.Hour})
	}
	to := s.side.to(s.peer)
	kit.OK(t, send(to, 1), "mads.Agent.Send of a long response")
	kit.WantExactly(t, send(to, 2), "mads.Agent.Send of a second long response to the peer", ci.InsufficientResources)
	other := to
	if s.ca.Port.Link == ci.LinkInfiniBand {
		other.AV.DLID ^= 0x40
	} else {
		other.AV.GRH.DGID[15] ^= 0x40
	}
	kit.OK(t, send(other, 3), "mads.Agent.Send of a long response to another peer")
	s.settle(1)
	s.sent()
	s.segment(10, 1, 2, 205)
	s.wants("a long message of a peer", fmt.Sprintf("ACK 1 %d", 1+s.window()))
	s.segment(10, 2, 2, 0)
	s.wants("its end", fmt.Sprintf("ACK 2 %d", 1+s.window()))
	s.message(10, 2)
}

// longMessage returns a message of subnet administration.
func longMessage(method mad.Method, tid uint64, n int) []byte {
	m := append(make([]byte, mad.SAHeaderLen), saData(n)...)
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin, ClassVersion: mad.ClassVersionSubnetAdmin,
		Method: method, TID: tid, Attribute: mad.AttrPathRecord}).Put(m)
	return m
}

func rmppSends(t *validate.T) {
	const maxBytes, maxTransfers = 20000, 8
	s := newSender(t, mads.Config{MaxTransfers: maxTransfers, MaxReassembly: maxBytes, MaxMessage: 15000})
	to := s.side.to(s.peer)
	send := func(m []byte, tries time.Duration, retries int) error {
		return s.agent.Send(&mads.Message{To: to, MAD: m, Timeout: tries, Retries: retries})
	}
	// sentAgain expects that segments are repeated.
	reply := func(tid uint64, p mad.RMPP) { // of the peer
		m := longMessage(mad.Send|mad.ResponseMask, tid, 0)
		m = append(m, make([]byte, mad.Size-len(m))...)
		p.ResponseTime = mad.RMPPNoTime
		p.Put(m[mad.HeaderLen:])
		s.deliver(1, m)
	}
	data := func(n, total int) string {
		l := 0
		if n == 1 {
			l = total + (total+199)/200*20
		}
		if n == (total+199)/200 {
			l = total - (n-1)*200 + 20
		}
		return fmt.Sprintf("DATA %d %d", n, l)
	}
	t.Step("%s", "the default times")
	kit.OK(t, send(longMessage(mad.Send, 1, 605), 0, 0), "mads.Agent.Send")
	s.wants("a long message", data(1, 605))
	for range 3 {
		s.advance(rmppAckTime - time.Nanosecond)
		s.wants("almost 2 s without an ACK")
		s.advance(time.Nanosecond)
		s.wants("2 s without an ACK", data(1, 605))
	}
	s.advance(rmppAckTime - time.Nanosecond)
	s.wants("almost 8 s without an ACK")
	s.advance(time.Nanosecond)
	s.wants("8 s without an ACK", "ABORT 126")
	reply(1, ack(1, 5))
	s.wants("an ACK after the ABORT")

	t.Step("%s", "other times")
	kit.OK(t, send(longMessage(mad.Send, 2, 605), 300*time.Millisecond, 1), "mads.Agent.Send")
	s.wants("a long message", data(1, 605))
	reply(2, ack(1, 3))
	s.wants("ACK of segment 1", data(2, 605), data(3, 605))
	s.advance(300*time.Millisecond - time.Nanosecond)
	s.wants("almost 300 ms")
	s.advance(time.Nanosecond)
	s.wants("300 ms", data(2, 605), data(3, 605))
	reply(2, ack(2, 3)) // progress: the retry counts again
	s.wants("ACK of segment 2")
	s.advance(300 * time.Millisecond)
	s.wants("300 ms", data(3, 605))
	reply(2, ack(3, 4))
	s.wants("ACK of segment 3", data(4, 605))
	reply(2, ack(4, 4))
	s.wants("ACK of segment 4")
	s.advance(time.Minute)
	s.wants("a minute after the end of the transfer")
	reply(2, ack(4, 4))
	reply(2, packet(mad.RMPPAbort, 0, 127, 0, 0))
	s.wants("packets of a transfer that has ended")

	t.Step("%s", "two with the same transaction ID")
	kit.OK(t, send(longMessage(mad.Send, 3, 605), time.Hour, 0), "mads.Agent.Send")
	kit.WantExactly(t, send(longMessage(mad.Send, 3, 405), time.Hour, 0),
		"mads.Agent.Send of a second message with the same transaction ID", ci.ResourceBusy)
	kit.OK(t, send(longMessage(mad.Set, 3, 5), time.Hour, 0), "mads.Agent.Send of another method")
	reply(3, packet(mad.RMPPAbort, 0, 127, 0, 0))
	s.wants("three messages", data(1, 605), data(1, 5))
	kit.OK(t, send(longMessage(mad.Send, 3, 405), time.Hour, 0), "mads.Agent.Send after the end of the first")
	s.wants("a message after the end of the first", data(1, 405))

	t.Step("%s", "as many as there is room for") // two are being sent
	for i := range uint64(maxTransfers - 2) {
		kit.OK(t, send(longMessage(mad.Send, 100+i, 5), time.Hour, 0), "mads.Agent.Send")
	}
	kit.WantExactly(t, send(longMessage(mad.Send, 200, 5), time.Hour, 0),
		fmt.Sprintf("mads.Agent.Send of long message %d", maxTransfers+1), ci.InsufficientResources)
	for i := range uint64(maxTransfers - 2) {
		reply(100+i, packet(mad.RMPPStop, 0, 1, 0, 0))
	}
	s.settle(1)
	s.sent()
	// 461 bytes of transaction 3, and 61 bytes of the method Set
	const rest = maxBytes - 405 - 5 - 2*mad.SAHeaderLen
	big := 14000
	kit.OK(t, send(longMessage(mad.Send, 300, big-mad.SAHeaderLen), time.Hour, 0), "mads.Agent.Send")
	kit.WantExactly(t, send(longMessage(mad.Send, 301, rest-big-mad.SAHeaderLen+1), time.Hour, 0),
		"mads.Agent.Send of one byte more than MaxReassembly", ci.InsufficientResources)
	kit.OK(t, send(longMessage(mad.Send, 302, rest-big-mad.SAHeaderLen), time.Hour, 0),
		"mads.Agent.Send of as many bytes as MaxReassembly")
	reply(300, packet(mad.RMPPAbort, 0, 127, 0, 0))
	reply(302, packet(mad.RMPPAbort, 0, 127, 0, 0))
	s.settle(1)
	s.sent()

	t.Step("%s", "responses to one peer")
	const resp = mad.Send | mad.ResponseMask
	for i := range uint64(maxTransfers / 4) {
		kit.OK(t, send(longMessage(resp, 400+i, 5), time.Hour, 0), "mads.Agent.Send of a long response")
	}
	kit.WantExactly(t, send(longMessage(resp, 410, 5), time.Hour, 0), "mads.Agent.Send of a third long response",
		ci.InsufficientResources)
	kit.OK(t, send(longMessage(mad.Send, 411, 5), time.Hour, 0), "mads.Agent.Send of a message that is no response")
	other := to
	if s.ca.Port.Link == ci.LinkInfiniBand {
		other.AV.DLID ^= 0x40
	} else {
		other.AV.GRH.DGID[15] ^= 0x40
	}
	kit.OK(t, s.agent.Send(&mads.Message{To: other, MAD: longMessage(resp, 412, 5), Timeout: time.Hour}),
		"mads.Agent.Send of a long response to another peer")
	s.settle(1)
	s.sent()
	m := longMessage(mad.Send, 400, mad.SADataLen)
	binary.BigEndian.PutUint64(m[8:], 400)
	p := ack(1, 1)
	p.Put(m[mad.HeaderLen:])
	s.deliver(1, m)
	s.wants("the ACK of a long response")
	kit.OK(t, send(longMessage(resp, 413, 5), time.Hour, 0), "mads.Agent.Send of a response after the end of another")
	s.settle(1)
	s.sent()
	kit.OK(t, s.agent.Close(), "mads.Agent.Close")
	got := s.replies()
	slices.Sort(got)
	got = slices.Compact(got)
	kit.True(t, slices.Equal(got, []string{"ABORT 127"}), "packets after Close", "an ABORT 127 for each transfer", "%q",
		got)

	t.Step("%s", "requests")
	asker := s.bench.agent(mads.AgentConfig{Name: "asker", Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true})
	ended := make(chan error, 1)
	err := asker.StartDo(t.Context(), &mads.Message{To: to, MAD: longMessage(mad.GetMulti, 7, 5), Timeout: time.Second,
		Retries: 2}, func(_ *mads.Received, err error) { ended <- err })
	kit.OK(t, err, "mads.Agent.StartDo")
	s.settle(1)
	first := s.sent()
	kit.True(t, len(first) == 1, "packets of a long request", "1", "%s", describeSent(first))
	m = slices.Clone(first[0].mad)
	m[3] = byte(mad.GetMultiResp)
	p.Put(m[mad.HeaderLen:])
	s.deliver(1, m)
	s.wants("the ACK of a double-sided request", "ACK 0 1")
	for range 2 { // the request is not sent again: the peer has it
		s.advance(time.Second - time.Nanosecond)
		s.wants("almost a second without a response")
		s.advance(time.Nanosecond)
		s.wants("a second without a response")
	}
	s.advance(time.Second - time.Nanosecond)
	select {
	case err := <-ended:
		t.Failf("long request before its last timeout", "it waits", "%v", err)
	default:
	}
	s.advance(time.Nanosecond)
	err = await(t, ended, "mads.Agent.StartDo without a response")
	kit.WantExactly(t, err, "mads.Agent.StartDo without a response", ci.Timeout)
	var e *mads.RMPPError
	kit.True(t, !errors.As(err, &e), "mads.Agent.StartDo without a response", "no *mads.RMPPError", "%v", err)
	s.wants("the end of a request")
}
