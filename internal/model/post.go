package model

import (
	"cmp"
	"fmt"
	"slices"

	"ciddk/ci"
)

// operations has for each operation the services (RC, UC, UD) that have it, what it completes as, and the capability
// and the access right of the responder that it needs (docs/sas/opcodes.md).
var operations = map[ci.SendOp]struct {
	services [3]bool
	wc       ci.WCOp
	caps     ci.Caps   // one of them
	right    ci.Access // of the peer's region and QP
	local    ci.Access // of the segments
}{
	ci.OpSend:        {[3]bool{true, true, true}, ci.WCSend, 0, 0, 0},
	ci.OpWrite:       {[3]bool{true, true, false}, ci.WCWrite, 0, ci.RemoteWrite, 0},
	ci.OpRead:        {[3]bool{true, false, false}, ci.WCRead, 0, ci.RemoteRead, ci.LocalWrite},
	ci.OpCompareSwap: {[3]bool{true, false, false}, ci.WCCompareSwap, 0, ci.RemoteAtomic, ci.LocalWrite},
	ci.OpFetchAdd:    {[3]bool{true, false, false}, ci.WCFetchAdd, 0, ci.RemoteAtomic, ci.LocalWrite},
	ci.OpAtomicWrite: {[3]bool{true, false, false}, ci.WCAtomicWrite, ci.CapAtomicWrite, ci.RemoteWrite, 0},
	ci.OpNop:         {[3]bool{true, true, true}, ci.WCNop, 0, 0, 0},
	ci.OpLocalInv:    {[3]bool{true, true, false}, ci.WCLocalInv, ci.CapFastReg | ci.CapMW2, 0, 0},
	ci.OpFastReg:     {[3]bool{true, true, false}, ci.WCFastReg, ci.CapFastReg, 0, 0},
	ci.OpBindMW:      {[3]bool{true, true, false}, ci.WCBindMW, ci.CapMW2, 0, 0},
}

func isAtomic(op ci.SendOp) bool { return op == ci.OpCompareSwap || op == ci.OpFetchAdd }

// isWord reports whether an operation changes 8 aligned bytes at once.
func isWord(op ci.SendOp) bool { return isAtomic(op) || op == ci.OpAtomicWrite }

// refuseSend returns the statuses with which a send is rejected, or nil. maybe is true if it may also be accepted.
func (q *QP) refuseSend(wr *ci.SendWR, ref Ref) (rule Rule, want []ci.Status, maybe bool) {
	type statuses = []ci.Status
	av := ref.AV
	op, ok := operations[wr.Op]
	caps := q.CA.Attr.Caps
	switch q.State {
	case ci.QPReset, ci.QPInit, ci.QPRTR:
		return "CI-PostState-01", statuses{ci.InvalidQPState}, false
	}
	switch {
	case !ok || !op.services[serviceIndex(q.Type)]:
		return "CI-Opcode-02", statuses{ci.InvalidWRType}, false
	case op.caps != 0 && caps&op.caps == 0, isAtomic(wr.Op) && q.CA.Attr.Atomicity == ci.AtomicNone:
		return "CI-Opcode-03", statuses{ci.Unsupported}, false
	case wr.Op == ci.OpNop: // libibverbs has no such request; opcode.*.nop tests whether the adapter has
		return "CI-Opcode-01", statuses{ci.Unsupported}, true
	case isAtomic(wr.Op) && wr.Remote.Addr%8 != 0: // it cannot succeed: the peer rejects it, or the driver does
		return "IBTA-9.4-13", statuses{ci.InvalidParameter, ci.InvalidMaxSGE}, true // several errors: any of them
	case wr.Op == ci.OpBindMW:
		rule, want, must := q.refuse(ref.bindOf(wr), true)
		return rule, want, !must
	case wr.Op == ci.OpFastReg:
		if rule, bad := ref.Fast.cannotMap(q); bad { // which may be found out when it is executed
			return rule, statuses{ci.InvalidParameter, ci.InvalidMRHandle, ci.InvalidRKey, ci.InvalidPermission}, true
		}
		return "", nil, false
	case wr.Op == ci.OpLocalInv && !q.canInvalidate(wr.Inv):
		return "CI-LocalInv-03", statuses{ci.InvalidParameter, ci.InvalidRKey}, true
	case wr.Op == ci.OpLocalInv:
		return "", nil, false
	case wr.Flags&ci.SendInvalidate != 0 && wr.Op == ci.OpSend && q.Type != ci.RC:
		return "CI-Opcode-02", statuses{ci.InvalidWRType}, false
	case wr.Flags&ci.SendInvalidate != 0 && wr.Op == ci.OpSend && !caps.Has(ci.CapSendInvalidate):
		return "CI-Opcode-03", statuses{ci.Unsupported}, false
	case wr.Flags&ci.SendInvalidate != 0 && wr.Op == ci.OpSend && wr.Flags&ci.SendImmediate != 0:
		return "CI-Opcode-04", statuses{ci.InvalidParameter}, false
	case q.Type == ci.UD && (av == nil || av.Dead || av.CA != q.CA):
		return "CI-PostSend-07", statuses{ci.InvalidAVHandle}, false
	case q.Type == ci.UD && wr.To.QPN > 0xffffff:
		return "CI-Opcode-01", statuses{ci.InvalidParameter}, false
	case q.Type == ci.UD && av.PD != q.PD && (len(wr.Inline) > q.MaxInline || len(wr.SGL) > q.SendSGE):
		// of several errors, any may be found first
		return "CI-PostSend-08", statuses{ci.InvalidAVHandle, ci.InvalidMaxSGE, ci.InvalidParameter}, false
	case wr.Inline != nil && wr.Op == ci.OpAtomicWrite:
		if len(wr.Inline) != ci.AtomicWriteSize {
			return "CI-AtomicWrite-03", statuses{ci.InvalidParameter}, false
		}
	case wr.Inline != nil && (wr.Op == ci.OpRead || isAtomic(wr.Op) || len(wr.Inline) > q.MaxInline):
		return "CI-Inline-02", statuses{ci.InvalidParameter}, false
	case wr.Inline == nil && (len(wr.SGL) > q.SendSGE || wr.Op == ci.OpRead && len(wr.SGL) > q.CA.Attr.MaxReadSGEs):
		return "CI-PostSend-04", statuses{ci.InvalidMaxSGE}, false
	case q.Type == ci.UD && av.PD != q.PD:
		return "CI-PostSend-08", statuses{ci.InvalidAVHandle}, true
	}
	if n, mtu := lengthOf(wr), q.CA.Port.MTU.Bytes(); q.Type == ci.UD && n > mtu { // D-92
		return "IBTA-9.8-16", statuses{ci.InvalidParameter, ci.InvalidMaxSGE, ci.InvalidSetting}, true
	}
	return "", nil, false
}

// lengthOf returns the number of bytes of a request.
func lengthOf(wr *ci.SendWR) (n int) {
	if wr.Inline != nil {
		return len(wr.Inline)
	}
	for _, s := range wr.SGL {
		n += int(s.Length)
	}
	return n
}

// room returns whether a queue must accept one more request, and whether it may. An entry is free for the consumer when
// a completion of it or of a later request has been polled; a driver may free it earlier, when the request is executed.
func room(posted, retired, waiting, depth int) (must, may bool) {
	return posted-retired < depth, waiting < depth
}

// took observes the result of a post of count requests. refuse returns how the i-th is rejected; take accepts it.
func took(verb string, count, n int, err error, refuse func(i int) (Rule, []ci.Status, bool),
	room func() (must, may bool), take func(i int)) *Violation {
	if n < 0 || n > count || n == count && err != nil || n < count && err == nil {
		return violation("SAS-2.1-23", verb, "the number of requests accepted, and an error exactly if not all are",
			"%d of %d, %v", n, count, err)
	}
	for i := range count {
		rule, want, maybe := refuse(i)
		must, may := room()
		full := Rule("CI-PostSend-03")
		if i < n {
			switch {
			case want != nil && !maybe:
				return violation(rule, verb, fmt.Sprintf("request %d of %d rejected with %v", i+1, count, want[0]),
					"accepted")
			case !may:
				return violation(full, verb, "InsufficientResources from a full queue", "request %d of %d accepted",
					i+1, count)
			}
			take(i)
			continue
		}
		if want == nil && must {
			if rule = "SAS-2.3-19"; ci.StatusOf(err) == ci.InsufficientResources {
				rule = full
			}
			return wantStatus(fmt.Sprintf("%s: request %d of %d", verb, i+1, count), err, rule, ci.Success)
		}
		if !must {
			want, rule = append(want, ci.InsufficientResources), full
		}
		return wantStatus(fmt.Sprintf("%s: request %d of %d", verb, i+1, count), err, rule, want...)
	}
	return nil
}

// PostSend observes QP.PostSend. refs are the model's objects of the requests.
func (q *QP) PostSend(wrs []ci.SendWR, refs []Ref, n int, err error) *Violation {
	const verb = "QP.PostSend"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	at := func(i int) (r Ref) {
		if i < len(refs) {
			r = refs[i]
		}
		return r
	}
	if q.Loose {
		for i := range n {
			q.takeSend(wrs[i], at(i))
		}
		return nil
	}
	v := took(verb, len(wrs), n, err,
		func(i int) (Rule, []ci.Status, bool) {
			rule, want, maybe := q.refuseSend(&wrs[i], at(i))
			if q.hasFailedEarly {
				maybe = maybe || want == nil
				rule, want = cmp.Or(rule, "CI-PostState-01"), append(want, ci.InvalidQPState)
			}
			return rule, want, maybe
		},
		func() (bool, bool) { return room(q.posted[0], q.retired[0], len(q.sq), q.SendDepth) },
		func(i int) { q.takeSend(wrs[i], at(i)) })
	q.CA.w.settle()
	return v
}

func (q *QP) takeSend(wr ci.SendWR, ref Ref) {
	r := &request{SendWR: wr, sgl: slices.Clone(wr.SGL), to: wr.To, seq: q.posted[0], life: q.life,
		bind: ref.bindOf(&wr), fast: ref.Fast}
	if r.bind != nil {
		r.bind.w.isUsed = true
	}
	if wr.Inline != nil {
		r.inline = known(wr.Inline)
	}
	if av := ref.AV; av != nil {
		r.av, r.avBad = av.Attr, av.PD != q.PD
	}
	q.posted[0]++
	q.sq = append(q.sq, r)
}

// PostRecv observes QP.PostRecv.
func (q *QP) PostRecv(wrs []ci.RecvWR, n int, err error) *Violation {
	const verb = "QP.PostRecv"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	refuse := func(i int) (Rule, []ci.Status, bool) {
		switch {
		case q.SRQ != nil:
			return "CI-PostRecv-02", []ci.Status{ci.InvalidWRType}, false
		case q.State == ci.QPReset:
			return "CI-PostState-02", []ci.Status{ci.InvalidQPState}, false
		case len(wrs[i].SGL) > q.RecvSGE:
			return "CI-PostSend-04", []ci.Status{ci.InvalidMaxSGE}, false
		}
		return "", nil, false
	}
	v := took(verb, len(wrs), n, err, refuse,
		func() (bool, bool) { return room(q.posted[1], q.retired[1], len(q.rq)-q.torn, q.RecvDepth) },
		func(i int) { q.rq = append(q.rq, receive(&q.posted[1], q.life, wrs[i])) })
	q.CA.w.settle()
	return v
}

// PostRecv observes SRQ.PostRecv.
func (s *SRQ) PostRecv(wrs []ci.RecvWR, n int, err error) *Violation {
	const verb = "SRQ.PostRecv"
	if v, ok := s.stale(verb, err); ok {
		return v
	}
	refuse := func(i int) (Rule, []ci.Status, bool) {
		if len(wrs[i].SGL) > s.MaxSGE {
			return "CI-PostSRQRecv-01", []ci.Status{ci.InvalidMaxSGE}, false
		}
		return "", nil, false
	}
	v := took(verb, len(wrs), n, err, refuse,
		func() (bool, bool) { return room(s.posted, s.retired, len(s.rq)-s.torn, s.MaxWR) },
		func(i int) { s.rq = append(s.rq, receive(&s.posted, 0, wrs[i])) })
	s.CA.w.settle()
	return v
}

func receive(posted *int, life int, wr ci.RecvWR) *request {
	r := &request{SendWR: ci.SendWR{ID: wr.ID}, sgl: slices.Clone(wr.SGL), seq: *posted, life: life}
	*posted++
	return r
}

// retire frees the entries of a queue up to that of a completion that has been polled (CI-Signal-02).
func (q *QP) retire(c *Completion) {
	switch {
	case !c.recv:
		q.retired[0] = max(q.retired[0], c.seq+1)
	case q.SRQ != nil:
		q.SRQ.retired++
	default:
		q.retired[1] = max(q.retired[1], c.seq+1)
	}
}
