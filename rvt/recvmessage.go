package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// isNext reports whether a packet of a SEND or WRITE continues the message in progress, or begins one if there is none.
func (r *responder) isNext(p *Packet, mtu uint32) bool {
	switch {
	case p.Start == r.in, !p.Start && p.Op != r.op:
		return false
	case !p.End:
		return p.Len == p.N*mtu
	case p.Len > p.N*mtu:
		return false
	}
	return p.N == 1 && p.Start || p.Len > (p.N-1)*mtu
}

// progress is how far the message in progress has come.
type progress struct {
	in     bool // inside a message
	op     wire.Op
	off    uint64 // bytes of the message placed
	va     uint64
	rkey   ci.Key
	remain uint32 // bytes of a WRITE to come
	total  uint32 // and of all of it
}

// messageRC stores packets of a SEND or WRITE of a reliable connection, and moves the expected PSN and the MSN over
// what is stored. If a packet of a train is refused, those before it are executed all the same, as if they had arrived
// one by one: the NAK names the refused packet (IBTA volume 1, 9.7.5.2.8), and how many packets a port joins to a train
// shows in no answer.
func (r *responder) messageRC(t *turn, p *Packet) outcome {
	before := r.progress
	v := r.message(t, p)
	if v == earlier {
		return v
	}
	if v != placed && p.N > 1 {
		r.progress = before
		t.late.atOnce = true
		for v = placed; v == placed && p.N > 1; p.trim(1) {
			first := *p
			first.head(1)
			if v = r.message(t, &first); v == placed {
				r.psn = psnAdd(r.psn, 1)
			}
		}
		if v == placed {
			v = r.message(t, p)
		}
		t.late.atOnce = false
	}
	if v != placed && v != notInvalidated {
		return v
	}
	r.psn = psnAdd(r.psn, p.N)
	if p.End {
		r.msn = (r.msn + 1) & psnMask
	}
	return v
}

// message stores packets of a SEND or WRITE, of RC and UC, single or in trains.
func (r *responder) message(t *turn, p *Packet) outcome {
	if !r.isNext(p, r.mtu) {
		return invalid
	}
	if p.Op == wire.OpSend {
		return r.messageSend(t, p)
	}
	return r.messageWrite(t, p)
}

func (r *responder) messageSend(t *turn, p *Packet) outcome {
	if p.Start {
		if v := r.takeRecv(); v != placed {
			return v
		}
		r.off = 0
	}
	if v := r.scatterLate(t, r.off, p.Payload, p.Len, p.N > 1); v != placed {
		return v
	}
	r.off += uint64(p.Len)
	if r.off > maxMessage {
		return invalid
	}
	r.in, r.op = !p.End, p.Op
	if p.End {
		if p.HasInv && !r.dev.keys.invalidate(r.endpoint, p.Inv) {
			return notInvalidated
		}
		wc := t.complete(r.recvCQ, p.SE)
		wc.ID, wc.Length, wc.Op = r.rw.ID, uint32(r.off), ci.WCRecv
		if p.HasImm {
			wc.Flags, wc.Imm = ci.WCImmediate, p.Imm
		}
		if p.HasInv {
			wc.Flags, wc.Imm = ci.WCInvalidated, uint32(p.Inv)
		}
		r.have = false
	}
	return placed
}

func (r *responder) messageWrite(t *turn, p *Packet) outcome {
	if p.Start {
		if r.attr.Access&ci.RemoteWrite == 0 {
			return unsupported
		}
		if p.DMALen > maxMessage {
			return invalid
		}
		if p.DMALen > 0 {
			if _, ok := t.holds.remote(&r.dev.keys, r.endpoint, p.RKey, p.VA, uint64(p.DMALen), ci.RemoteWrite); !ok {
				if p.N == 1 && p.End && p.HasImm && r.service == wire.RC {
					r.takeRecv() // it reports the violation (IBTA volume 1, 11.6.2), if there is one
				}
				return access
			}
		}
		r.va, r.rkey = p.VA, p.RKey
		r.remain, r.total = p.DMALen, p.DMALen
		r.op = p.Op
	}
	if p.Len > r.remain || p.End && p.Len != r.remain {
		r.in = true // the message is not complete
		return invalid
	}
	if p.End && p.HasImm && !r.have {
		if v := r.takeRecv(); v != placed {
			return v
		}
	}
	if p.Len > 0 {
		if v := r.storeLate(t, p); v != placed {
			return v
		}
	}
	r.va += uint64(p.Len)
	r.remain -= p.Len
	r.in = !p.End
	if p.End && p.HasImm {
		wc := t.complete(r.recvCQ, p.SE)
		wc.ID, wc.Length, wc.Op = r.rw.ID, r.total, ci.WCRecvWrite
		wc.Flags, wc.Imm = ci.WCImmediate, p.Imm
		r.have = false
	}
	if p.End {
		t.executes(CountWrites)
	}
	return placed
}
