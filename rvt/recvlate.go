package rvt

import "ciddk/wire"

// scatterLate is turn.scatter for a packet of r, whose message has taken a receive. Trains are stored at once, so that
// a failure is that of a packet.
func (r *responder) scatterLate(t *turn, off uint64, payload [][]byte, n uint32, isTrain bool) outcome {
	if !isTrain && !t.late.atOnce {
		t.late.by, t.late.owns = r, true
	}
	v := t.scatter(r.recvPD(), r.rw.SGL, off, payload, n)
	t.late.by = nil
	return v
}

// storeLate is turn.store for a packet of r.
func (r *responder) storeLate(t *turn, p *Packet) outcome {
	if p.N == 1 && r.service == wire.RC && !t.late.atOnce { // UC drops a message that cannot be stored, and goes on
		t.late.by, t.late.owns = r, p.End && p.HasImm
	}
	v := t.store(r.rkey, r.va, p.Payload, p.Len, p.End)
	t.late.by = nil
	return v
}
