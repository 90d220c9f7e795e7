package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// ackEvery bounds how many packets wait for one acknowledgement while acknowledgements are held back.
const ackEvery = 32

// setNak makes a NAK for the expected PSN due. It takes the place of a pending acknowledgement, which it implies.
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

// lastAck sends the acknowledgement that is due, for the last request executed. There is none while answers before it
// are to be sent.
func (r *responder) lastAck(t *turn) {
	if r.ackDue && len(r.out) == 0 {
		r.ackDue = false
		if r.ackWaits.Load() {
			r.ackWaits.Store(false)
		}
		r.sendAck(t, wire.ACK(wire.CreditsInvalid), psnAdd(r.psn, psnMask))
	}
}

// settle sends an acknowledgement that still waits for the consumer's next post, for there will be none: the consumer
// has its messages, and the peer must not time out over them. With the token held.
func (r *responder) settle() {
	if !r.ackDue {
		return
	}
	t := newTurn(r.endpoint)
	r.lastAck(t)
	t.send()
	t.free()
}
