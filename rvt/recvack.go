package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// ackEvery is the most packets that wait for one acknowledgement while acknowledgements are deferred.
const ackEvery = 32

// setNak makes a NAK for the expected PSN due. It replaces an acknowledgement that is due, which it implies.
func (r *responder) setNak(syn wire.Syndrome) {
	r.nak, r.nakPSN, r.nakDue = syn, r.psn, true
	r.ackDue = false
}

func (r *responder) sendAck(t *turn, syn wire.Syndrome, psn ci.PSN) {
	p := t.packet()
	p.Op, p.Start, p.End = wire.OpAcknowledge, true, true
	p.Syndrome, p.MSN, p.PSN = syn, r.msn, psn
	r.unack = 0
}

// lastAck sends the acknowledgement that is due, for the last request executed. It sends none while answers before it
// wait.
func (r *responder) lastAck(t *turn) {
	if r.ackDue && len(r.out) == 0 {
		r.ackDue = false
		if r.ackWaits.Load() {
			r.ackWaits.Store(false)
		}
		r.sendAck(t, wire.ACK(wire.CreditsInvalid), psnAdd(r.psn, psnMask))
	}
}

// settle sends an acknowledgement that waits for the next post of the consumer, because there will be none. The
// consumer has its messages, and the peer must not time out over them.
func (r *responder) settle() {
	if !r.ackDue {
		return
	}
	t := newTurn(r.endpoint)
	r.lastAck(t)
	t.send()
	t.free()
}
