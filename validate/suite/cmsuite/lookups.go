package cmsuite

import (
	"context"
	"errors"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Lookups beyond the straight path: copies, limits, listeners that close, and lookups that end.

// sidrStage is a manager on side a that receives the lookups of a script.
type sidrStage struct {
	*rig
	qp *end // the manager of a daemon checks whose QP an answer names
}

func newSIDRStage(t *validate.T) *sidrStage {
	a, b := sides(t)
	y, _ := newEnds(a, b, kit.Type(ci.RC))
	return &sidrStage{&rig{script: newScript(t, b, a), m: a.manager()}, y}
}

// lookup returns a new SIDR_REQ.
func (s *sidrStage) lookup(private string) *mad.SIDRREQ {
	q := &mad.SIDRREQ{RequestID: s.id(), PKey: uint16(partition(s.here.ca.Port)), ServiceID: service}
	copy(q.PrivateData[:], private)
	return q
}

// taken waits for a lookup at the listener.
func (s *sidrStage) taken(l cm.Listener, want *mad.SIDRREQ) cm.LookupRequest {
	ctx, cancel := wait(s.t)
	defer cancel()
	r, err := l.AcceptLookup(ctx)
	kit.OK(s.t, err, "cm.Listener.AcceptLookup")
	kit.Equal(s.t, "SIDR_REQ at the listener", *r.Request(), *want)
	return r
}

// answered waits for the answer to a lookup.
func (s *sidrStage) answered(q *mad.SIDRREQ, tid uint64, want mad.SIDRStatus, where string) *mad.SIDRREP {
	r, m := expectSIDR(s.script)
	kit.Equal(s.t, where+": status", r.Status, want)
	kit.Equal(s.t, where+": request ID", r.RequestID, q.RequestID)
	kit.Equal(s.t, where+": service ID", r.ServiceID, q.ServiceID)
	kit.Equal(s.t, where+": transaction ID", m.TID, tid)
	return r
}

// ignored expects that a message has no answer.
func (s *sidrStage) ignored(where string) {
	kit.Equal(s.t, "messages after "+where, texts(s.sync("after "+where)), nothing)
}

var CMSidr04 = lookups.Must("CM-Sidr-04", "IBTA 12.11.2", "cm, Listener.AcceptLookup, LookupRequest",
	"A SIDR_REQ reaches the consumer once. Copies have no answer until the consumer answers, and then the same "+
		"answer. It is answered once. Requests that cannot be served are answered with the status of the cause.")

var _ = lookups.Case(validate.Case{
	ID:    "cm.sidr.copies",
	Title: "copies before and after the answer, and wrong answers",
	Run:   lookupCopies,
}, CMSidr04)

func lookupCopies(t *validate.T) {
	s := newSIDRStage(t)
	l := listen(t, s.m, cm.ListenConfig{Datagram: true})
	first, other := s.lookup("first"), s.lookup("other")
	s.send(1, first)
	s.send(2, other)
	s.send(1, first)
	r, o := s.taken(l, first), s.taken(l, other)
	s.ignored("a copy of a SIDR_REQ that is not answered")
	kit.Equal(t, "P_Key of the path", r.Path().PKey&^memberBit, ci.PKey(first.PKey)&^memberBit)
	kit.Equal(t, "port of the path", r.Path().Port, s.there.port)
	kit.Equal(t, "source QP of the lookup", r.From().QPN, 1)

	changed := *first
	changed.PrivateData[0]++
	s.send(3, &changed)
	s.answered(&changed, 3, mad.SIDRNoQP, "another SIDR_REQ with the ID of a pending one")

	info := make([]byte, mad.CMInfoLen+1)
	kit.WantExactly(t, r.Reject(mad.SIDRValid, nil, nil), "cm.LookupRequest.Reject with status valid",
		ci.InvalidParameter)
	kit.WantExactly(t, r.Reject(mad.SIDRRejected, info, nil), "cm.LookupRequest.Reject with too much information",
		ci.InvalidParameter)
	kit.WantExactly(t, r.Reject(mad.SIDRRejected, nil, make([]byte, mad.SIDRREPPrivateLen+1)),
		"cm.LookupRequest.Reject with too much private data", ci.InvalidParameter)
	s.ignored("answers that failed")

	kit.OK(t, o.Reject(mad.SIDRNoQP, info[:mad.CMInfoLen], nil), "cm.LookupRequest.Reject")
	rej := s.answered(other, 2, mad.SIDRNoQP, "rejected SIDR_REQ")
	kit.Equal(t, "length of the additional information", rej.InfoLength, mad.CMInfoLen)
	kit.OK(t, r.Accept(s.qp.Num(), 0x7654321, private('p', mad.SIDRREPPrivateLen)), "cm.LookupRequest.Accept")
	rep := s.answered(first, 1, mad.SIDRValid, "accepted SIDR_REQ")
	kit.Equal(t, "QP number and Q_Key", [2]uint32{rep.QPN, rep.QKey}, [2]uint32{uint32(s.qp.Num()), 0x7654321})
	kit.SameBytes(t, "private data", rep.PrivateData[:], private('p', mad.SIDRREPPrivateLen))
	for _, again := range []error{r.Accept(s.qp.Num(), 1, nil), r.Reject(mad.SIDRRejected, nil, nil),
		o.Reject(mad.SIDRRejected, nil, nil)} {
		kit.WantExactly(t, again, "second answer to a SIDR_REQ", ci.InvalidState)
	}
	for range 2 {
		s.send(1, first)
		copied := s.answered(first, 1, mad.SIDRValid, "copy of an answered SIDR_REQ")
		kit.Equal(t, "answer to a copy", *copied, *rep)
	}
	s.send(2, other)
	kit.Equal(t, "answer to a copy", *s.answered(other, 2, mad.SIDRNoQP, "copy of a rejected SIDR_REQ"), *rej)

	absent := s.lookup("partition")
	absent.PKey = uint16(s.there.absentPKey())
	s.send(4, absent)
	s.answered(absent, 4, mad.SIDRRejected, "SIDR_REQ of a partition that the port does not have")
	nobody := s.lookup("service")
	nobody.ServiceID++
	s.send(5, nobody)
	s.answered(nobody, 5, mad.SIDRUnsupportedService, "SIDR_REQ without a listener")
}

var CMSidr05 = lookups.Must("CM-Sidr-05", "IBTA 12.11.2", "cm, ListenConfig.Backlog, Listener.Close",
	"A listener has room for as many SIDR_REQs as its backlog, and further ones are answered with status no QP. When "+
		"it closes, those that wait are answered as unsupported, and those that were taken can still be answered.")

var _ = lookups.Case(validate.Case{
	ID:    "cm.sidr.backlog",
	Title: "more lookups than the backlog, and a listener that closes",
	Run:   lookupBacklog,
}, CMSidr05)

func lookupBacklog(t *validate.T) {
	const room = 3
	s := newSIDRStage(t)
	l := listen(t, s.m, cm.ListenConfig{Datagram: true, Backlog: room})
	var sent []*mad.SIDRREQ
	request := func() *mad.SIDRREQ {
		q := s.lookup("lookup")
		s.send(uint64(q.RequestID), q)
		sent = append(sent, q)
		return q
	}
	for range room {
		request()
	}
	s.ignored("as many SIDR_REQs as the backlog")
	for range 3 {
		q := request()
		s.answered(q, uint64(q.RequestID), mad.SIDRNoQP, "SIDR_REQ beyond the backlog")
	}
	taken := s.taken(l, sent[0])
	q := request() // takes the place
	s.ignored("a SIDR_REQ with room for it")
	kit.OK(t, l.Close(), "cm.Listener.Close")
	waiting := map[uint32]bool{sent[1].RequestID: true, sent[2].RequestID: true, q.RequestID: true}
	for range room {
		r, _ := expectSIDR(s.script)
		kit.Equal(t, "status of a SIDR_REQ whose listener was closed", r.Status, mad.SIDRUnsupportedService)
		kit.True(t, waiting[r.RequestID], "request ID of a SIDR_REP", "that of a SIDR_REQ that waits", "%#x",
			r.RequestID)
		delete(waiting, r.RequestID)
	}
	late := request()
	s.answered(late, uint64(late.RequestID), mad.SIDRUnsupportedService, "SIDR_REQ after Close")
	kit.OK(t, taken.Accept(s.qp.Num(), 5, nil), "cm.LookupRequest.Accept after Close of the listener")
	s.answered(sent[0], uint64(sent[0].RequestID), mad.SIDRValid, "SIDR_REQ that was taken before Close")
	_, err := l.AcceptLookup(t.Context())
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Listener.AcceptLookup of a closed listener", "cm.ErrClosed",
		"%v", err)
}

var CMSidr06 = lookups.Must("CM-Sidr-06", "IBTA 12.11.1", "cm, Service.Lookup, LookupConfig",
	"A lookup without an answer is repeated as often as Retries says, and then fails with ErrTimeout. It also ends "+
		"with its context. An answer that names another request, or comes later, has no effect.")

var _ = lookups.Case(validate.Case{
	ID:    "cm.sidr.ends",
	Title: "lookups that end without an answer",
	Run:   lookupEnds,
}, CMSidr06)

func lookupEnds(t *validate.T) {
	const retries = 2
	s := newSIDRStage(t)
	begin := func(timeout time.Duration, retries int) (await func() (*cm.LookupReply, error), stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		return result(t, "cm.Service.Lookup", func(context.Context) (*cm.LookupReply, error) {
			return s.m.Lookup(ctx, cm.LookupConfig{Service: service, Path: s.there.path(s.here), Timeout: timeout,
				Retries: retries, Private: []byte("lookup")})
		}), cancel
	}
	await, _ := begin(10*time.Millisecond, retries)
	first, m := expect[*mad.SIDRREQ](s.script, "SIDR_REQ")
	for range retries {
		again, m2 := expect[*mad.SIDRREQ](s.script, "retransmission of the SIDR_REQ")
		kit.Equal(t, "retransmitted SIDR_REQ", *again, *first)
		kit.Equal(t, "transaction ID of the retransmitted SIDR_REQ", m2.TID, m.TID)
	}
	_, err := await()
	kit.True(t, errors.Is(err, cm.ErrTimeout), "cm.Service.Lookup without an answer", "cm.ErrTimeout", "%v", err)
	s.quiet("after the last SIDR_REQ", nil)

	await, stop := begin(time.Hour, 1)
	stopped, m := expect[*mad.SIDRREQ](s.script, "SIDR_REQ")
	stop()
	_, err = await()
	kit.True(t, errors.Is(err, context.Canceled), "cm.Service.Lookup whose context has ended", "context.Canceled", "%v",
		err)
	await, _ = begin(time.Hour, 1)
	last, m2 := expect[*mad.SIDRREQ](s.script, "SIDR_REQ")
	kit.True(t, last.RequestID != stopped.RequestID, "request ID of the next lookup", "another one", "%#x",
		last.RequestID)
	for _, late := range []*mad.SIDRREP{
		{RequestID: first.RequestID, QPN: 2, ServiceID: service},
		{RequestID: stopped.RequestID, QPN: 3, ServiceID: service},
		{RequestID: last.RequestID ^ 0x80000000, QPN: 4, ServiceID: service},
	} {
		s.send(m.TID, late)
	}
	s.ignored("answers to lookups that have ended")
	s.send(m2.TID, &mad.SIDRREP{RequestID: last.RequestID, QPN: 0xabcdef, QKey: 0x80000001, ServiceID: service})
	got, err := await()
	kit.OK(t, err, "cm.Service.Lookup")
	kit.Equal(t, "QP number and Q_Key", [2]uint32{uint32(got.QPN), uint32(got.QKey)}, [2]uint32{0xabcdef, 0x80000001})
	kit.Equal(t, "source QP of the answer", got.From.QPN, 1)
	_, err = s.m.Lookup(t.Context(), cm.LookupConfig{Service: service, Path: s.there.path(s.here), Retries: -1})
	kit.WantExactly(t, err, "cm.Service.Lookup with -1 retries", ci.InvalidParameter)
	_, err = s.m.Lookup(t.Context(), cm.LookupConfig{Service: service, Path: s.there.path(s.here), Timeout: -1})
	kit.WantExactly(t, err, "cm.Service.Lookup with a negative timeout", ci.InvalidParameter)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.m.Lookup(ended, cm.LookupConfig{Service: service, Path: s.there.path(s.here)})
	kit.True(t, errors.Is(err, context.Canceled), "cm.Service.Lookup with a context that has ended",
		"context.Canceled", "%v", err)
	s.ignored("lookups that failed")
}
