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
	if v := t.scatter(r.recvPD(), r.rw.SGL, r.off, p.Payload, p.Len); v != placed {
		return v
	}
	r.off += uint64(p.Len)
	if r.off > maxMessage {
		return invalid
	}
	r.in, r.op = !p.End, p.Op
	if p.End {
		if p.HasInv && !r.dev.keys.invalidate(r.endpoint, p.Inv) {
			return access
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
				return access
			}
		}
		r.va, r.rkey, r.remain, r.total = p.VA, p.RKey, p.DMALen, p.DMALen
		r.op = p.Op
	}
	if p.Len > r.remain || p.End && p.Len != r.remain {
		r.in = true // the message is not complete
		return invalid
	}
	if p.End && p.HasImm && !r.have {
		if v := r.takeRecv(); v != placed {
			return r.writeBut(t, p, v)
		}
	}
	if p.Len > 0 {
		if v := t.store(r.rkey, r.va, p.Payload, p.Len, p.End); v != placed {
			return v
		}
	}
	r.va += uint64(p.Len)
	r.remain -= p.Len
	r.in = !p.End
	if p.End && p.HasImm {
		wc := t.complete(r.recvCQ, p.SE)
		wc.ID, wc.Length, wc.Op, wc.Flags, wc.Imm = r.rw.ID, r.total, ci.WCRecvWrite, ci.WCImmediate, p.Imm
		r.have = false
	}
	return placed
}

// writeBut stores all packets of a WRITE train but the last, which needs a receive buffer that is not there.
func (r *responder) writeBut(t *turn, p *Packet, v outcome) outcome {
	if v != notReady || p.N == 1 {
		return v
	}
	k := p.N - 1
	p.head(k)
	if v := t.store(r.rkey, r.va, p.Payload, p.Len, false); v != placed {
		return v
	}
	r.va += uint64(p.Len)
	r.remain -= p.Len
	r.in = true
	r.psn = psnAdd(r.psn, k)
	return notReady
}
