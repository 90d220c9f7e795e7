package rvt

import (
	"fmt"

	"ciddk/ci"
	"ciddk/wire"
)

// Automatic path migration (IBTA volume 1, 17.2.8). A new QP is Migrated. The consumer loads an alternate path and asks
// for Rearm. When packets with MigReq clear show that the peer is rearmed as well, the QP is Armed. An armed QP
// migrates when the consumer asks for Migrated, when its retries on the primary path are used up, or when packets of
// the peer have MigReq set.

// checkAPM validates a new alternate path and a requested migration state.
func (q *QP) checkAPM(verb string, set ci.QPField, a *ci.QPAttr, p *paths) error {
	if set&ci.QPFieldAlternate != 0 {
		p.altPort = q.dev.port(a.Alternate.AV.Port)
		if p.altPort == nil {
			return failf(verb, ci.InvalidPort, "Alternate.AV.Port")
		}
		if _, ok := p.altPort.pkey(a.Alternate.PKeyIndex); !ok {
			return failf(verb, ci.InvalidPKey, "Alternate.PKeyIndex")
		}
		if a.Alternate.AckTimeout > 31 {
			return failf(verb, ci.InvalidParameter, "Alternate.AckTimeout is above 31")
		}
		if most := p.altPort.attr.Load().MTUOf(a.Alternate.AV.SL); q.pathMTU(set, a) > most {
			return failf(verb, ci.InvalidParameter, fmt.Sprintf("the QP's MTU code is %d: the alternate path takes at "+
				"most %d", q.pathMTU(set, a), most))
		}
		dest := q.attr.DestNum
		if set&ci.QPFieldDestNum != 0 {
			dest = a.DestNum
		}
		r, err := p.altPort.Route(&a.Alternate.AV, Flow{Local: q.num, Remote: dest})
		if err != nil {
			return failErr(verb, ci.InvalidParameter, err)
		}
		p.altRt = r
	}
	if set&ci.QPFieldAPM == 0 {
		return nil
	}
	cur := q.attr.APM
	switch a.APM {
	case ci.APMRearm:
		if p.altRt == nil {
			return failf(verb, ci.InvalidAPMState, "no alternate path is loaded")
		}
		if cur == ci.APMArmed {
			return failf(verb, ci.InvalidAPMState, "armed already")
		}
	case ci.APMMigrated:
		if cur != ci.APMArmed {
			return failf(verb, ci.InvalidAPMState, "only an armed QP can be told to migrate")
		}
	default:
		return failf(verb, ci.InvalidAPMState, "a consumer asks for Rearm or Migrated")
	}
	return nil
}

func (q *QP) setAPM(s ci.APMState) {
	if s == ci.APMMigrated {
		q.migrate()
		return
	}
	q.attr.APM = s
	q.apm = migration{}
}

// migrate moves an armed QP to its alternate path.
func (q *QP) migrate() {
	q.moveToAlternate()
	q.req.openWindow()
}

// checkMigReq acts on the migration bit of a packet. It reports whether to accept the packet: false for one that is not
// from the peer, or that requests a migration which the QP refuses.
//
// MigReq set is a request to migrate when this end is Armed, because the peer has shown then that it is rearmed (IBTA
// volume 1, 17.2.8.1). The request is accepted if the packet comes by the loaded alternate path (9.6.1.5). Before this
// end is Armed, packets of the primary path have the bit set as long as the peer has not rearmed, and packets of
// another path show that the peer has migrated alone. A QP without an alternate path does not take part and raises no
// event.
func (q *QP) checkMigReq(p *Packet) bool {
	fromPrimary := q.isFromPeer(p)
	fromAlt := q.altRt != nil && p.Src == q.altPeer && p.isFor(q.altGID)
	switch {
	case !p.MigReq:
		if q.attr.APM == ci.APMRearm && fromPrimary && pkeyMatch(p.PKey, q.pkey) {
			q.attr.APM = ci.APMArmed
			q.apm.psn, q.apm.response = p.PSN, isResponse(p.Op)
		}
	case q.attr.APM == ci.APMArmed && fromPrimary && q.apm.response == isResponse(p.Op) &&
		psnDiff(p.PSN, q.apm.psn) < 0:
		// On a link that reorders, it was sent before the peer rearmed.
	case q.attr.APM == ci.APMArmed && fromAlt && pkeyMatch(p.PKey, q.altPKey()):
		q.migrate()
		return true
	case q.attr.APM == ci.APMArmed && !fromAlt, !fromPrimary && (q.attr.APM == ci.APMRearm || fromAlt):
		if pkeyMatch(p.PKey, q.pkey) || fromAlt && pkeyMatch(p.PKey, q.altPKey()) {
			q.refuseMigration()
		}
		return false
	}
	return fromPrimary
}

// refuseMigration raises the event of a path migration request error (IBTA volume 1, 11.6.3): the peer has migrated and
// this end does not follow. It raises it once for each Rearm, however many packets come. The QP keeps its state. The
// packets are dropped like all others of a wrong path, so the retries of the peer run out.
func (q *QP) refuseMigration() {
	if !q.apm.refused {
		q.apm.refused = true
		q.notify.Event(ci.Event{Type: ci.EventQPAPMError})
	}
}

// isFromPeer reports whether a packet has the addresses of the primary path.
func (q *QP) isFromPeer(p *Packet) bool { return p.Src == q.peer && p.isFor(q.local) }

func isResponse(op wire.Op) bool {
	return op == wire.OpAcknowledge || op == wire.OpReadResponse || op == wire.OpAtomicAcknowledge
}
