package mads

import (
	"encoding/binary"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// incoming is a message that is received in segments.
type incoming struct {
	key transferKey
	a   *agent
	t   *tx       // the request that it responds to; nil: none
	r   *Received // MAD is the headers of the first segment and the data before next; only the headers when done
	seg mad.Segmentation

	next   uint32            // number of the next segment in order
	last   uint32            // number of the last segment, once it has arrived; else 0
	window uint32            // number of the last segment that the sender may send
	early  map[uint32][]byte // data of segments after a gap, by number
	want   int               // bytes of data that the first segment announced
	known  bool              // want is valid
	source Source
	place  int // index in transfers.begun
	size   int // bytes held
	done   bool

	progressed time.Duration // when the last segment arrived in order
	at         time.Duration
	timer      clock.Deadline
	late       lateness
}

// data handles a DATA packet, or one of unknown type. It returns the message if it is complete and not a response.
func (x *transfers) data(a *agent, key transferKey, h *mad.Header, r *Received, seg mad.Segmentation,
	p *mad.RMPP) *Received {
	i := x.in[key]
	if f := p.Fault(); f != mad.RMPPOK {
		x.reject(i, r, seg, f)
		return nil
	}
	if i == nil {
		if p.Segment() != 1 {
			x.e.p.count.drop(DropUnmatched)
			return nil
		}
		if i = x.start(a, key, h, r, seg, p); i == nil {
			return nil
		}
	}
	return x.take(i, r, p)
}

// start begins a transfer, if there is room for it.
func (x *transfers) start(a *agent, key transferKey, h *mad.Header, r *Received, seg mad.Segmentation,
	p *mad.RMPP) *incoming {
	e := x.e
	cfg := &e.p.m.cfg
	var t *tx
	if isResponse(h) {
		if t = e.waiting(h, r); t == nil {
			e.p.count.drop(DropUnmatched)
			return nil
		}
	}
	want, known, err := seg.Total(p.PayloadLength())
	if err != nil {
		x.reject(nil, r, seg, mad.RMPPBadLength)
		return nil
	}
	if t.exceeds(seg.HeaderLen + want) {
		e.p.count.drop(DropResources)
		x.refuse(r, seg, mad.RMPPStop, mad.RMPPResourcesExhausted)
		e.finish(t, nil, t.tooLong())
		return nil
	}
	busy := want > cfg.MaxMessage
	source := SourceOf(&r.From.AV)
	if t == nil && !busy {
		had := x.shares[source]
		if had != nil && had.transfers >= max(cfg.MaxTransfers/rmppPeerShare, 1) {
			busy = !x.makeRoom(source, true)
		} else if len(x.begun) >= cfg.MaxTransfers {
			busy = !x.makeRoom(source, false)
		}
	}
	if busy {
		e.p.count.drop(DropResources)
		x.refuse(r, seg, mad.RMPPStop, mad.RMPPResourcesExhausted)
		return nil
	}
	first := *r
	first.MAD = append(make([]byte, 0, mad.Size), r.MAD[:seg.HeaderLen]...)
	i := &incoming{key: key, a: a, t: t, r: &first, seg: seg, next: 1, window: 1, want: want,
		known: known, source: source}
	i.timer.Fire = func() { x.overdueIn(i) }
	x.in[key] = i
	if t == nil {
		i.place = len(x.begun)
		x.begun = append(x.begun, i)
		if x.shares[source] == nil {
			x.shares[source] = &share{}
		}
		x.shares[source].transfers++
	} else { // from now on, the time of the transfer counts
		t.at = 0
		if t.out != nil {
			x.dropOut(t.out)
		}
	}
	x.hold(i, transferBytes)
	return i
}

// uncount removes a transfer from those that peers began.
func (x *transfers) uncount(i *incoming) {
	last := len(x.begun) - 1
	x.begun[i.place] = x.begun[last]
	x.begun[i.place].place = i.place
	x.begun[last] = nil
	x.begun = x.begun[:last]
	s := x.shares[i.source]
	if s.transfers--; s.transfers == 0 {
		delete(x.shares, i.source)
	}
}

func (x *transfers) hold(i *incoming, n int) {
	i.size += n
	x.inBytes += n
	if i.t == nil {
		x.shares[i.source].bytes += n
	}
}

// hasRoom reports whether a transfer may hold n bytes more. Transfers that one source began have a share of the memory,
// which is large enough for the longest message.
func (x *transfers) hasRoom(i *incoming, n int) bool {
	cfg := &x.e.p.m.cfg
	most := cfg.MaxMessage + transferBytes + 2*segmentBytes
	return x.inBytes+n <= cfg.MaxReassembly && i.size+n <= most &&
		(i.t != nil || x.shares[i.source].bytes+n <= max(cfg.MaxReassembly/rmppPeerShare, most))
}

func (x *transfers) await(i *incoming, d time.Duration) {
	i.at = x.e.p.m.al.Clock().Elapsed() + d
	x.e.p.m.wheel.Set(&i.timer, i.at)
}

// take handles a segment of a transfer.
func (x *transfers) take(i *incoming, r *Received, p *mad.RMPP) *Received {
	n := p.Segment()
	isLast := p.Flags&mad.RMPPLast != 0
	if i.t != nil && i.t.over && !i.done { // the request has ended
		x.refuse(r, i.seg, mad.RMPPAbort, mad.RMPPUnspecified)
		x.dropIn(i)
		return nil
	}
	switch {
	case i.done || n < i.next:
		if !i.done || x.e.canReply(&i.r.From) {
			x.acknowledge(i)
		}
		return nil
	case n > i.window:
		x.e.p.count.drop(DropRMPP)
		return nil
	case i.last != 0 && (n > i.last || isLast && n != i.last):
		x.reject(i, r, i.seg, mad.RMPPBadSegment)
		return nil
	}
	size := i.seg.DataLen
	if isLast {
		var err error
		if size, err = i.seg.Last(p.PayloadLength()); err != nil {
			x.reject(i, r, i.seg, mad.RMPPBadLength)
			return nil
		}
		for early := range i.early {
			if early > n {
				x.reject(i, r, i.seg, mad.RMPPBadSegment)
				return nil
			}
		}
		i.last = n
	}
	data := r.MAD[i.seg.HeaderLen : i.seg.HeaderLen+size]
	if i.t.exceeds(len(i.r.MAD) + size) {
		t := i.t
		x.e.p.count.drop(DropResources)
		x.refuse(r, i.seg, mad.RMPPStop, mad.RMPPResourcesExhausted)
		x.dropIn(i)
		x.e.finish(t, nil, t.tooLong())
		return nil
	}
	if !x.hasRoom(i, size) {
		x.e.p.count.drop(DropResources)
		x.refuse(r, i.seg, mad.RMPPStop, mad.RMPPResourcesExhausted)
		x.endIn(i, &RMPPError{Status: mad.RMPPResourcesExhausted})
		return nil
	}
	if n != i.next {
		if i.early == nil {
			i.early = make(map[uint32][]byte)
		}
		if _, twice := i.early[n]; !twice {
			i.early[n] = data // r.MAD is not used again, so its data need not be copied
			x.hold(i, segmentBytes)
		}
		return nil
	}
	x.add(i, data)
	for data, ok := i.early[i.next]; ok; data, ok = i.early[i.next] {
		delete(i.early, i.next)
		x.hold(i, -segmentBytes)
		x.add(i, data)
	}
	if i.last != 0 && i.next > i.last {
		return x.complete(i, r)
	}
	if i.next > i.window {
		i.window += x.window()
		x.acknowledge(i)
	}
	x.await(i, rmppSegmentTime)
	return nil
}

func (x *transfers) add(i *incoming, data []byte) {
	i.r.MAD = append(i.r.MAD, data...)
	x.hold(i, len(data))
	i.next++
	i.progressed = x.e.p.m.al.Clock().Elapsed()
}

// acknowledge sends an ACK with the segments received and the window.
func (x *transfers) acknowledge(i *incoming) {
	x.control(&i.r.From, i.r.MAD, i.seg, i.key.method^mad.ResponseMask, mad.RMPP{Type: mad.RMPPAck, Data1: i.next - 1,
		Data2: max(i.window, i.next-1)})
}

// complete ends a transfer whose segments have all arrived.
func (x *transfers) complete(i *incoming, r *Received) *Received {
	if i.known && i.want != len(i.r.MAD)-i.seg.HeaderLen {
		x.reject(i, r, i.seg, mad.RMPPBadLength)
		return nil
	}
	x.acknowledge(i)
	msg := i.r
	i.r = &Received{From: msg.From, MAD: append([]byte(nil), msg.MAD[:i.seg.HeaderLen]...)}
	i.done, i.early = true, nil
	x.hold(i, -i.size)
	x.done = append(x.done, i)
	if len(x.done) > rmppPeerShare*x.e.p.m.cfg.MaxTransfers {
		x.dropIn(x.done[0])
	}
	x.e.p.m.wheel.Cancel(&i.timer)
	x.await(i, rmppDoneTime)
	t := i.t
	if t == nil {
		x.uncount(i)
		return msg
	}
	i.t = nil
	binary.BigEndian.PutUint64(msg.MAD[8:], t.userID)
	x.e.finish(t, msg, nil)
	return nil
}

// overdueIn is called by the timer of a transfer, in progress or finished.
func (x *transfers) overdueIn(i *incoming) {
	e := x.e
	e.mu.Lock()
	defer e.unlock()
	switch {
	case x.in[i.key] != i:
	case i.at > e.p.m.al.Clock().Elapsed():
		e.p.m.wheel.Set(&i.timer, i.at)
	case i.done:
		x.dropIn(i)
	case !e.isLate(&i.late, &i.timer, i.at, rmppSegmentTime):
	default:
		e.p.count.drop(DropRMPP)
		x.refuse(i.r, i.seg, mad.RMPPAbort, mad.RMPPTotalTimeout)
		x.endIn(i, &RMPPError{Status: mad.RMPPTotalTimeout})
	}
}

// reject replies to a packet that violates the protocol, and ends its transfer if there is one.
func (x *transfers) reject(i *incoming, r *Received, seg mad.Segmentation, s mad.RMPPStatus) {
	x.e.p.count.drop(DropRMPP)
	x.refuse(r, seg, mad.RMPPAbort, s)
	if i != nil && !i.done {
		x.endIn(i, &RMPPError{Status: s})
	}
}

// Memory of a transfer, and of a segment after a gap, in addition to the data of the message, in bytes.
const (
	transferBytes = 1024
	segmentBytes  = 512
)

// refuse replies to DATA with STOP or ABORT, within the limit of replies.
func (x *transfers) refuse(r *Received, seg mad.Segmentation, typ mad.RMPPType, s mad.RMPPStatus) {
	if !x.e.canReply(&r.From) {
		return
	}
	x.control(&r.From, r.MAD, seg, mad.Method(r.MAD[3])^mad.ResponseMask, mad.RMPP{Type: typ, Status: s})
}

// endIn ends a transfer that has failed, and the request that it responds to.
func (x *transfers) endIn(i *incoming, cause *RMPPError) {
	x.dropIn(i)
	if i.t == nil {
		return
	}
	err := &ci.Error{Verb: verbDo, Status: ci.ErrorStatus, Detail: "the response could not be received", Err: cause}
	if cause.Status == mad.RMPPTotalTimeout {
		err.Status = ci.Timeout
	}
	x.e.finish(i.t, nil, err)
}

func (x *transfers) dropIn(i *incoming) {
	if x.in[i.key] != i {
		return
	}
	delete(x.in, i.key)
	x.e.p.m.wheel.Cancel(&i.timer)
	if i.done {
		for k, d := range x.done {
			if d == i {
				x.done = append(x.done[:k], x.done[k+1:]...)
				break
			}
		}
		return
	}
	x.hold(i, -i.size)
	if i.t == nil {
		x.uncount(i)
	}
}
