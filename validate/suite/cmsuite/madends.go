package cmsuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Requests that end in the middle of a transfer, and transfers whose timers and sends come late.

// longRequest begins a request with n bytes of data by RMPP, and returns its first packet.
func (s *sender) longRequest(ctx context.Context, a mads.Agent, n int, timeout time.Duration) (chan ended, *posted) {
	s.settle(1)
	s.sent()
	end := s.begin(ctx, a, &mads.Message{To: s.side.to(s.peer), MAD: longMessage(mad.GetTable, 5, n),
		Timeout: timeout})
	s.settle(1)
	list := s.sent()
	kit.True(s.t, len(list) == 1, "packets of a long request", "1", "%s", describeSent(list))
	return end, list[0]
}

// answer makes the peer send a packet of the transfer that begins with a packet, or of its response.
func (s *sender) answer(first *posted, p mad.RMPP, data []byte) {
	m := slices.Clone(first.mad)
	m[3] |= byte(mad.ResponseMask)
	clear(m[mad.HeaderLen:mad.RMPPEnd])
	if p.Active() {
		p.ResponseTime = mad.RMPPNoTime
		p.Put(m[mad.HeaderLen:])
	}
	copy(m[mad.SAHeaderLen:], data)
	s.deliver(1, m)
}

// release completes the sends that were kept back. change may change their completions.
func (s *sender) release(change func(w *ci.WC)) {
	q := s.driver()
	s.set(func() {
		s.hold = nil
		for i := range q.cq.kept {
			if change != nil {
				change(&q.cq.kept[i])
			}
		}
		q.cq.ready, q.cq.kept = append(q.cq.ready, q.cq.kept...), nil
	})
	s.settle(1)
}

// keep keeps the completions of the sends back.
func (s *sender) keep() {
	s.settle(1)
	s.caughtUp(s.agent)
	s.set(func() { s.hold = func(typ ci.QPType, w *ci.WC) bool { return typ == ci.QP1 && w.Op == ci.WCSend } })
}

// once expects that a request has ended once.
func once(t *validate.T, end chan ended, where string) error {
	e := await(t, end, where)
	kit.Equal(t, "further outcomes of the "+where, len(end), 0)
	return e.err
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.ends",
	Title: "long requests that end before their segments are acknowledged, and requests that end during the response",
	Run:   rmppEnds,
}, MADRMPP06)

func rmppEnds(t *validate.T) {
	s := newSender(t, mads.Config{MaxRepliesPeer: 1000, MaxReplies: 1000})
	cfg := mads.AgentConfig{Name: "asker", Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin,
		RMPP: true}
	asker := s.bench.agent(cfg)
	const total = 2*mad.SADataLen + 5
	const only = mad.RMPPFirst | mad.RMPPLast
	w := uint32(s.window())

	t.Step("%s", "a context that ends")
	ctx, cancel := context.WithCancel(t.Context())
	end, first := s.longRequest(ctx, asker, total, time.Second)
	cancel()
	err := once(t, end, "long request whose context ends")
	kit.True(t, errors.Is(err, context.Canceled), "long request whose context ends", "context.Canceled", "%v", err)
	s.wants("the end of a context", "ABORT 127")
	s.answer(first, ack(1, 3), nil)
	s.wants("an ACK after the end")
	s.advance(time.Minute)
	s.wants("a minute after the end")

	t.Step("%s", "a response in one datagram before the ACK")
	end, first = s.longRequest(t.Context(), asker, total, time.Second)
	s.answer(first, mad.RMPP{}, nil)
	kit.OK(t, once(t, end, "long request with a response before its ACK"), "long request with an early response")
	s.wants("a response before the ACK")
	s.advance(time.Minute)
	s.wants("a minute after the response")

	t.Step("%s", "an agent that is closed")
	end, _ = s.longRequest(t.Context(), asker, total, time.Second)
	kit.OK(t, asker.Close(), "mads.Agent.Close")
	err = once(t, end, "long request of an agent that is closed")
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "long request of an agent that is closed", "ErrClosed", "%v",
		err)
	s.wants("the end of an agent", "ABORT 127")
	asker = s.bench.agent(cfg)

	t.Step("%s", "requests that end during their response")
	ctx, cancel = context.WithCancel(t.Context())
	end, first = s.longRequest(ctx, asker, 5, time.Second)
	s.answer(first, part(1, mad.RMPPFirst, 0), segmentData(1))
	s.wants("segment 1 of the response", fmt.Sprintf("ACK 1 %d", 1+w))
	cancel()
	err = once(t, end, "request whose context ends during the response")
	kit.True(t, errors.Is(err, context.Canceled), "request whose context ends", "context.Canceled", "%v", err)
	s.wants("the end of the context")
	s.answer(first, part(2, 0, 0), segmentData(2))
	s.wants("segment 2 after the end", "ABORT 127")
	s.answer(first, part(3, mad.RMPPLast, lastPayload), segmentData(3))
	s.wants("segment 3 after the end")
	s.answer(first, part(1, only, lastPayload), segmentData(1))
	s.wants("a response after the end")
	s.noMessage("responses after the end")

	t.Step("%s", "a timer that was set before the last ACK")
	const timeout = 300 * time.Millisecond
	end, first = s.longRequest(t.Context(), asker, total, timeout)
	s.advance(timeout / 3)
	s.answer(first, ack(1, 3), nil)
	two, three := "DATA 2 0", fmt.Sprintf("DATA 3 %d", lastPayload)
	s.wants("ACK of segment 1", two, three)
	s.advance(timeout - time.Nanosecond)
	s.wants("almost 300 ms after the last segment")
	s.advance(time.Nanosecond)
	s.wants("300 ms after the last segment", two, three)

	t.Step("%s", "segments that the adapter still sends when the timer of earlier ones expires")
	s.keep()
	s.answer(first, ack(2, 3), nil)
	s.settle(1)
	s.sent()
	s.release(nil)
	s.advance(timeout)
	s.wants("300 ms after the ACK of segment 2", three)
	s.answer(first, ack(3, 3), nil)
	s.answer(first, mad.RMPP{}, nil)
	kit.OK(t, once(t, end, "long request"), "long request")
	s.sent()
	end, first = s.longRequest(t.Context(), asker, total, timeout)
	s.keep()
	s.answer(first, ack(1, 3), nil)
	s.wants("ACK of segment 1", two, three)
	s.advance(timeout)
	s.wants("300 ms, with segments that are being sent")
	s.release(nil)
	s.advance(timeout - time.Nanosecond)
	s.wants("almost 300 ms after they were sent")
	s.advance(time.Nanosecond)
	s.wants("300 ms after they were sent", two, three)
	s.answer(first, packet(mad.RMPPAbort, 0, 127, 0, 0), nil)
	kit.WantExactly(t, once(t, end, "long request that is aborted"), "long request that is aborted", ci.ErrorStatus)

	t.Step("%s", "sends that fail after the end of their request")
	for _, n := range []int{5, 0} {
		ctx, cancel := context.WithCancel(t.Context())
		s.keep()
		m := &mads.Message{To: s.side.to(s.peer), MAD: longMessage(mad.GetTable, 5, n), Timeout: time.Hour}
		if n == 0 {
			m.MAD = append(m.MAD, make([]byte, mad.Size-len(m.MAD))...)
		}
		end := s.begin(ctx, asker, m)
		s.settle(1)
		cancel()
		err := once(t, end, "request whose context ends")
		kit.True(t, errors.Is(err, context.Canceled), "request whose context ends", "context.Canceled", "%v", err)
		isFirst := true
		s.release(func(w *ci.WC) {
			if isFirst {
				w.Status = ci.WCLocalProtErr
			}
			isFirst = false
		})
		kit.Equal(t, "outcomes of a request whose send fails after its end", len(end), 0)
	}
	s.settle(1)
	s.sent()
}

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.segment",
	Title: "a segment of a long message that cannot be sent",
	Run:   faultSegment,
}, MADFault02)

func faultSegment(t *validate.T) {
	s := newSender(t, mads.Config{})
	asker := s.bench.agent(mads.AgentConfig{Name: "asker", Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true})
	to := s.side.to(s.peer)
	// breaks has the send of a segment fail.
	breaks := func(segment uint32) {
		s.set(func() {
			s.hook = func(typ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error) {
				s.mu.Lock()
				wrs = slices.Clone(wrs)
				for i := range wrs {
					b := make([]byte, mad.Size)
					var p mad.RMPP
					if s.bytes(wrs[i].SGL[0], b, false) {
						p.Parse(b[mad.HeaderLen:])
					}
					if b[1] == byte(mad.ClassSubnetAdmin) && p.Type == mad.RMPPData && p.Segment() == segment {
						wrs[i].SGL = slices.Clone(wrs[i].SGL)
						wrs[i].SGL[0].LKey ^= 1 << 30
					}
				}
				s.mu.Unlock()
				return q.PostSend(wrs)
			}
		})
	}
	end, first := s.longRequest(t.Context(), asker, 3*mad.SADataLen, time.Hour)
	breaks(2)
	s.answer(first, ack(1, 3), nil)
	err := once(t, end, "long request with a segment that cannot be sent")
	kit.WantExactly(t, err, "long request with a segment that cannot be sent", ci.ErrorStatus)
	var wc ci.WCError
	kit.True(t, errors.As(err, &wc), "cause in the error of the request", "a ci.WCError", "%v", err)
	s.settle(1)
	s.sent()
	breaks(1)
	m := longMessage(mad.Send, 77, mad.SADataLen+5)
	kit.OK(t, s.agent.Send(&mads.Message{To: to, MAD: m, Timeout: time.Hour}), "mads.Agent.Send")
	s.settle(1)
	s.set(func() { s.hook = nil })
	s.settle(1)
	s.sent()
	kit.OK(t, s.agent.Send(&mads.Message{To: to, MAD: m, Timeout: time.Hour}),
		"mads.Agent.Send of the message whose segment was not sent")
	s.wants("the message again", fmt.Sprintf("DATA 1 %d", mad.SADataLen+5+2*20))
}

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.steps",
	Title: "QP1 in Error, whose recovery fails at each of its steps",
	Run:   faultSteps,
}, MADFault05)

func faultSteps(t *validate.T) {
	b := newBench(t, benchSetting{virtual: true})
	here, there := b.agent(vendor(mad.Send)), b.peer.agent(vendor(mad.Send))
	words := func(list []ci.QPState) (text string) {
		for _, s := range list {
			text += s.String() + "; "
		}
		return text
	}
	steps := []ci.QPState{ci.QPError, ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS}
	for i, failing := range steps {
		b.passes(here, there, "before the fault")
		var log []ci.QPState
		isFirst := true
		b.set(func() {
			b.modify = func(typ ci.QPType, q ci.QP, set ci.QPField, a ci.QPAttr) error {
				b.mu.Lock()
				log = append(log, a.State)
				fails := a.State == failing && isFirst
				isFirst = isFirst && !fails
				b.mu.Unlock()
				if fails {
					return &ci.Error{Verb: "QP.Modify", Status: ci.InsufficientResources}
				}
				return q.Modify(set, a)
			}
		})
		q := b.driver()
		kit.OK(t, q.QP.Modify(ci.ToError()), "QP.Modify of QP1, below the services")
		b.until("the failure of a step", func() bool { return !isFirst })
		b.nextIn(retryTime, "until the next attempt")
		want := slices.Clone(steps[:i+1])
		if i > 2 { // what moves a QP from Reset to RTS takes back what it has done
			want = append(want, ci.QPReset)
		}
		b.set(func() {
			kit.Equal(t, "states of QP1 until the next attempt", words(log), words(want))
			log = nil
		})
		b.time.Advance(retryTime)
		b.until("the end of the recovery", func() bool { return slices.Contains(log, ci.QPRTS) })
		b.set(func() {
			kit.Equal(t, "states of QP1 in the next attempt", words(log), words(steps))
			b.modify = nil
		})
	}
	b.passes(here, there, "after the last fault")
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.limit.busy-vectors",
	Title: "datagrams to more addresses than vectors are kept, at the same time, and vectors that are refused later",
	Run:   limitBusyVectors,
}, MADLimit02)

func limitBusyVectors(t *validate.T) {
	s := newSender(t, mads.Config{AVs: 1})
	asker := s.bench.agent(mads.AgentConfig{Name: "asker", Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true})
	address := func(i byte) mads.Address {
		d := s.side.to(s.peer)
		if s.ca.Port.Link == ci.LinkInfiniBand {
			d.AV.DLID ^= ci.LID(i) << 4
		} else {
			d.AV.GRH.HopLimit -= i
		}
		return d
	}
	plain := longMessage(mad.Send, 9, 0)
	plain = append(plain, make([]byte, mad.Size-len(plain))...)
	s.keep()
	for i := range byte(4) {
		kit.OK(t, s.agent.Send(&mads.Message{To: address(i + 1), MAD: plain}), "mads.Agent.Send")
	}
	s.set(func() { kit.True(t, len(s.avs) >= 4, "vectors in use", "at least 4", "%d", len(s.avs)) })
	s.release(nil)
	s.until("one vector is left after its use", func() bool { return len(s.avs) == 1 })

	// evict removes the vector of the requests, which have another address, and has later ones refused.
	evict := func() {
		kit.OK(t, s.agent.Send(&mads.Message{To: address(5), MAD: plain}), "mads.Agent.Send")
		s.until("the vector of another address alone", func() bool {
			for v := range s.avs {
				if v.attr.DLID != address(5).AV.DLID || v.attr.GRH.HopLimit != address(5).AV.GRH.HopLimit {
					return false
				}
			}
			return len(s.avs) == 1
		})
		s.caughtUp(s.agent)
		s.set(func() { s.refuse = &ci.Error{Verb: "PD.CreateAV", Status: ci.InsufficientMemory} })
	}
	request := bytes.Clone(plain)
	request[3] = byte(mad.GetTable)
	s.settle(1)
	end := s.begin(t.Context(), asker, &mads.Message{To: address(0), MAD: request, Timeout: time.Second, Retries: 3})
	s.settle(1)
	evict()
	s.time.Advance(time.Second)
	kit.WantExactly(t, once(t, end, "request whose repetition has no vector"),
		"request whose repetition has no vector", ci.InsufficientMemory)
	s.set(func() { s.refuse = nil })
	end, first := s.longRequest(t.Context(), asker, mad.SADataLen+5, time.Hour)
	evict()
	s.answer(first, ack(1, 2), nil)
	err := once(t, end, "long request whose second segment has no vector")
	kit.WantExactly(t, err, "long request whose second segment has no vector", ci.ErrorStatus)
	kit.True(t, errors.Is(err, ci.InsufficientMemory), "cause of the error", "InsufficientMemory", "%v", err)
	s.set(func() { s.refuse = nil })
	s.settle(1)
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.smi.alone",
	Title: "a trap that is a request, and requests to an own port whose agent cannot be asked",
	Needs: ibOnly,
	Run:   smiAlone,
}, MADSMI02)

func smiAlone(t *validate.T) {
	alone(t)
	isMute := false
	b := newBench(t, benchSetting{virtual: true, query: func(a *ci.CAAttr) {
		if isMute {
			a.Caps = a.Caps&^ci.CapLocalMAD | ci.CapHardwareSMA
		}
	}})
	b.onQP0()
	plain := b.agent(mads.AgentConfig{SubnetManagement: true})
	to := b.side.to(b.peer)
	to.QPN = 0
	end := b.begin(t.Context(), plain, &mads.Message{To: to, MAD: subnetMAD(mad.Trap, mad.AttrNotice, 77, nil),
		Timeout: time.Hour})
	var trap *posted
	b.settle(0)
	for _, p := range b.sent() {
		if p.qp == ci.QP0 && p.header().Method == mad.Trap {
			trap = p
		}
	}
	kit.True(t, trap != nil, "trap on QP0", "one", "none")
	m := bytes.Clone(trap.mad)
	m[3] = byte(mad.TrapRepress)
	b.deliver(0, m)
	e := await(t, end, "trap that is a request")
	kit.OK(t, e.err, "mads.Agent.StartDo of a trap that is repressed")
	h := e.r.Header()
	kit.Equal(t, "method and transaction ID of the answer", [2]uint64{uint64(h.Method), h.TID},
		[2]uint64{uint64(mad.TrapRepress), 77})

	b.set(func() { isMute = true })
	adapter, err := b.al.Adapter(b.port.CA)
	kit.OK(t, err, "AL.Adapter")
	adapter.Poll()
	b.until("the access layer has the attributes", func() bool { return !adapter.Attr().Caps.Has(ci.CapLocalMAD) })
	end = b.begin(t.Context(), plain, &mads.Message{To: permissive, MAD: directedMAD(mad.Get, mad.AttrNodeInfo, 5),
		Timeout: time.Second})
	b.settle(0)
	pending(t, end, "request to an agent below the driver that cannot be asked")
	b.time.Advance(time.Second)
	kit.WantExactly(t, await(t, end, "request to an agent below the driver").err,
		"request to an agent below the driver that cannot be asked", ci.Timeout)
}
