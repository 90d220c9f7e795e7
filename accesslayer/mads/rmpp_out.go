package mads

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// outgoing is a message that is sent in segments.
type outgoing struct {
	key   transferKey
	a     *agent
	t     *tx // of a request, the transaction
	to    Address
	msg   []byte // headers, then data
	seg   mad.Segmentation
	total uint32 // number of segments

	next   uint32 // number of the next segment to queue
	acked  uint32 // the peer has this segment and all before it
	window uint32 // number of the last segment that may be sent
	queued int    // number of segments that are queued or posted

	timeout       time.Duration
	retries, left int
	at            time.Duration // when the ACK is overdue; 0: no ACK is due
	timer         clock.Deadline
	late          lateness
	over          bool
	answer        bool // a response, counted in transfers.answers
}

// begin starts a transfer of a message that was checked, and keeps msg. e.mu is held.
func (x *transfers) begin(verb string, a *agent, to *Address, msg []byte, m *Message, t *tx) error {
	var h mad.Header
	h.Parse(msg)
	cfg := &x.e.p.m.cfg
	key := x.key(&h, &to.AV)
	answer := t == nil && isResponse(&h)
	switch {
	case len(x.out) >= cfg.MaxTransfers:
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: fmt.Sprintf("%d long messages are "+
			"being sent (wait, or raise Config.MaxTransfers)", len(x.out))}
	case x.outBytes+len(msg) > cfg.MaxReassembly:
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: fmt.Sprintf("long messages of %d "+
			"bytes are being sent (wait, or raise Config.MaxReassembly)", x.outBytes)}
	case answer && x.answers[key.peer] >= max(cfg.MaxTransfers/rmppPeerShare, 1):
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: fmt.Sprintf("%d long responses to "+
			"this peer are being sent, which is the limit of one peer", x.answers[key.peer])}
	case x.out[key] != nil:
		return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: "a message with this transaction ID, class and " +
			"method is being sent to this peer"}
	}
	seg, _ := mad.SegmentationOf(h.Class)
	o := &outgoing{key: key, a: a, t: t, to: *to, msg: msg, seg: seg,
		total: uint32(seg.Segments(len(msg) - seg.HeaderLen)), next: 1, window: 1,
		timeout: m.Timeout, retries: m.Retries}
	if o.timeout <= 0 {
		o.timeout = rmppAckTime
	}
	if o.retries <= 0 {
		o.retries = rmppRetries
	}
	o.left = o.retries
	o.timer.Fire = func() { x.overdue(o) }
	x.out[key] = o
	x.outBytes += len(msg)
	if o.answer = answer; answer {
		x.answers[key.peer]++
	}
	if t != nil {
		t.out = o
	}
	if err := x.queue(o); err != nil {
		x.dropOut(o)
		return err
	}
	return nil
}

// segment returns a segment.
func (o *outgoing) segment(n uint32) (c ci.MAD) {
	copy(c[:], o.msg[:o.seg.HeaderLen])
	data := o.msg[o.seg.HeaderLen:]
	r := mad.RMPP{Version: mad.RMPPVersion, Type: mad.RMPPData, ResponseTime: mad.RMPPNoTime,
		Flags: mad.RMPPActive, Data1: n}
	if n == 1 {
		r.Flags |= mad.RMPPFirst
		r.Data2 = o.seg.FirstPayloadLength(len(data))
	}
	if n == o.total {
		r.Flags |= mad.RMPPLast
		r.Data2 = o.seg.LastPayloadLength(len(data))
	}
	r.Put(c[mad.HeaderLen:])
	copy(c[o.seg.HeaderLen:], data[int(n-1)*o.seg.DataLen:])
	return c
}

// queue queues the segments that the window allows.
func (x *transfers) queue(o *outgoing) error {
	for o.next <= min(o.window, o.total) && o.queued < rmppBurst {
		c := o.segment(o.next)
		s, err := x.e.enqueue(&o.to, c[:])
		if err != nil {
			return err
		}
		s.seg = o
		o.queued++
		o.next++
	}
	return nil
}

// sent is called for each segment that was sent. When nothing is left to send, it starts the timer for the ACK.
func (x *transfers) sent(o *outgoing) {
	o.queued--
	if !o.over {
		x.proceed(o)
	}
}

func (x *transfers) proceed(o *outgoing) {
	if err := x.queue(o); err != nil {
		x.endOut(o, err)
		return
	}
	if o.queued == 0 {
		o.at = x.e.p.m.al.Clock().Elapsed() + o.timeout
		x.e.p.m.wheel.Set(&o.timer, o.at)
	}
}

// sendFailed is called for a segment that the HCA could not send.
func (x *transfers) sendFailed(o *outgoing, err error) {
	o.queued--
	x.endOut(o, err)
}

// overdue is called by the timer when an ACK is overdue. It sends the segments after the last acknowledged one again.
func (x *transfers) overdue(o *outgoing) {
	e := x.e
	e.mu.Lock()
	defer e.unlock()
	switch {
	case o.over || o.at == 0:
		return
	case o.at > e.p.m.al.Clock().Elapsed():
		e.p.m.wheel.Set(&o.timer, o.at)
		return
	case !e.isLate(&o.late, &o.timer, o.at, o.timeout):
		return
	case o.left == 0:
		e.p.count.timedOut.Add(1)
		x.abort(o, mad.RMPPTooManyRetries)
		return
	}
	o.left--
	o.at = 0
	e.p.count.retried.Add(1)
	o.next = o.acked + 1
	x.proceed(o)
}

// ack handles an ACK (13.6.6.2). The checks and their order are those of Linux.
func (x *transfers) ack(o *outgoing, p *mad.RMPP) {
	if f := p.Fault(); f != mad.RMPPOK {
		x.e.p.count.drop(DropRMPP)
		x.abort(o, f)
		return
	}
	seg, window := p.Segment(), p.NewWindowLast()
	switch {
	case seg > min(o.total, o.window):
		x.e.p.count.drop(DropRMPP)
		x.abort(o, mad.RMPPSegmentTooBig)
		return
	case seg < o.acked || window < o.window: // a later ACK arrived before it
		return
	}
	if seg > o.acked {
		o.acked, o.left = seg, o.retries
		o.next = max(o.next, seg+1)
	}
	o.window = window
	if o.acked < o.total {
		o.at = 0
		x.proceed(o)
		return
	}
	t := o.t
	x.dropOut(o)
	if t != nil {
		if o.key.class == mad.ClassSubnetAdmin && o.key.method == mad.GetMulti {
			// The response is a transfer in the other direction; this ACK reverses the direction (13.6.6.5).
			x.control(&o.to, o.msg, o.seg, o.key.method, mad.RMPP{Type: mad.RMPPAck, Data2: 1})
		}
		x.e.sent(t)
	}
}

// abort ends a transfer and notifies the peer.
func (x *transfers) abort(o *outgoing, s mad.RMPPStatus) {
	x.control(&o.to, o.msg, o.seg, o.key.method, mad.RMPP{Type: mad.RMPPAbort, Status: s})
	var err error = &RMPPError{Status: s}
	if s == mad.RMPPTooManyRetries {
		err = &ci.Error{Verb: verbDo, Status: ci.Timeout, Detail: fmt.Sprintf("no ACK of segment %d of %d in %v",
			o.acked+1, o.total, o.timeout), Err: err}
	}
	x.endOut(o, err)
}

// endOut ends a transfer that has failed.
func (x *transfers) endOut(o *outgoing, err error) {
	if o.over {
		return
	}
	x.dropOut(o)
	if o.t == nil {
		x.e.p.count.drop(DropTransfer)
		return
	}
	if ci.StatusOf(err) != ci.Timeout {
		err = &ci.Error{Verb: verbDo, Status: ci.ErrorStatus, Detail: "the request could not be sent", Err: err}
	}
	x.e.finish(o.t, nil, err)
}

func (x *transfers) dropOut(o *outgoing) {
	if o.over {
		return
	}
	o.over = true
	delete(x.out, o.key)
	x.outBytes -= len(o.msg)
	if o.answer {
		if x.answers[o.key.peer]--; x.answers[o.key.peer] == 0 {
			delete(x.answers, o.key.peer)
		}
	}
	x.e.p.m.wheel.Cancel(&o.timer)
}
