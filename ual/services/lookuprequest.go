package services

import (
	"slices"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/mad"
)

// lookupRequest implements cm.LookupRequest.
type lookupRequest struct {
	s      *Services
	handle schema.Handle
	req    mad.SIDRREQ
	notice *schema.Notice

	isAnswered bool // guarded by s.mu
}

var _ cm.LookupRequest = (*lookupRequest)(nil)

func (s *Services) newLookupRequest(n *schema.Notice) *lookupRequest {
	r := &lookupRequest{s: s, handle: n.Object, notice: n}
	var b [mad.CMDataLen]byte
	copy(b[:], n.Message)
	r.req.Parse(b[:])
	s.await(r.handle)
	return r
}

// maxUnanswered is the number of lookup requests that may wait for an answer. Beyond it, the oldest is forgotten.
const maxUnanswered = 1024

// await records a lookup request, so that Close can destroy it.
func (s *Services) await(h schema.Handle) {
	var oldest schema.Handle
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.unanswered = append(s.unanswered, h)
		if len(s.unanswered) > maxUnanswered {
			oldest, s.unanswered = s.unanswered[0], s.unanswered[1:]
		}
	}
	s.mu.Unlock()
	if closed {
		oldest = h
	}
	if oldest != 0 {
		_ = s.destroy(oldest) // the daemon may have forgotten it
	}
}

// answer answers the request, once. After InvalidParameter and InvalidQPHandle, which a QP of another process causes,
// it can be answered again.
func (r *lookupRequest) answer(verb string, q *schema.CMAnswerLookup) error {
	r.s.mu.Lock()
	isAnswered := r.isAnswered
	r.s.mu.Unlock()
	if isAnswered {
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the request has been answered"}
	}
	q.Request = r.handle
	err := r.s.do(schema.CmdCMAnswerLookup, q)
	if s := ci.StatusOf(err); s == ci.InvalidParameter || s == ci.InvalidQPHandle {
		return err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.isAnswered = true
	r.s.unanswered = slices.DeleteFunc(r.s.unanswered, func(h schema.Handle) bool { return h == r.handle })
	return err
}

// Request implements cm.LookupRequest.
func (r *lookupRequest) Request() *mad.SIDRREQ { q := r.req; return &q }

// From implements cm.LookupRequest.
func (r *lookupRequest) From() mads.Address { return convert.Address(&r.notice.From) }

// Path implements cm.LookupRequest.
func (r *lookupRequest) Path() cm.Path { return convert.Path(&r.notice.Path) }

// Accept implements cm.LookupRequest.
func (r *lookupRequest) Accept(qpn ci.QPN, qkey ci.QKey, private []byte) error {
	const verb = "LookupRequest.Accept"
	if err := checkLen(verb, "private", private, maxPrivate); err != nil {
		return err
	}
	return r.answer(verb, &schema.CMAnswerLookup{QPN: qpn, QKey: qkey, Private: private})
}

// Reject implements cm.LookupRequest.
func (r *lookupRequest) Reject(status mad.SIDRStatus, info, private []byte) error {
	const verb = "LookupRequest.Reject"
	if status == mad.SIDRValid {
		return invalid(verb, "the status is %v, which is not a rejection", status)
	}
	if err := checkLen(verb, "private", private, maxPrivate); err != nil {
		return err
	}
	if err := checkLen(verb, "info", info, maxInfo); err != nil {
		return err
	}
	return r.answer(verb, &schema.CMAnswerLookup{Status: uint32(status), Info: info, Private: private})
}
