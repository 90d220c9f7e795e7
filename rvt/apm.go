package rvt

import "ciddk/ci"

// Automatic path migration, IBTA volume 1, 17.2.8. A QP is Migrated at first. The consumer loads an alternate path and asks for
// Rearm; when packets with MigReq clear show that the peer is rearmed, too, the QP is Armed. An armed QP migrates when the consumer
// asks for Migrated, when retries on the primary path are used up, or when the peer's packets come with MigReq set.

// checkAPM judges a new alternate path and a requested migration state.
func (q *QP) checkAPM(verb string, set ci.QPField, a *ci.QPAttr, p *paths) error {
	if set&ci.QPFieldAlternate != 0 {
		p.altPort = q.hca.port(a.Alternate.AV.Port)
		if p.altPort == nil {
			return failf(verb, ci.InvalidPort, "Alternate.AV.Port")
		}
		if _, ok := p.altPort.pkey(a.Alternate.PKeyIndex); !ok {
			return failf(verb, ci.InvalidPKey, "Alternate.PKeyIndex")
		}
		if a.Alternate.AckTimeout > 31 {
			return failf(verb, ci.InvalidParameter, "Alternate.AckTimeout is above 31")
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
}

// migrate moves an armed QP to its alternate path.
func (q *QP) migrate() {
	q.attr.APM = ci.APMMigrated
	q.attr.Primary, q.attr.Alternate = q.attr.Alternate, ci.Path{}
	q.port, q.altPort = q.altPort, nil
	q.route, q.altRt = q.altRt, nil
	q.peer, q.altPeer = q.altPeer, Addr{}
	q.attr.Port = q.port.num
	q.openWindow()
	q.home.Store(q.port)
	q.home2.Store(nil)
	q.loadPKey()
	q.hca.count.add(CountMigrated, 1)
	q.notify.event(ci.EventQPAPM, 0, 0)
}

// seeMigReq reacts to the migration bit of a packet. It reports false for a packet that is not from the peer.
func (q *QP) seeMigReq(p *Packet) bool {
	fromPrimary := p.Src == q.peer
	fromAlt := q.altRt != nil && p.Src == q.altPeer
	switch q.attr.APM {
	case ci.APMRearm:
		if fromPrimary && !p.MigReq {
			q.attr.APM = ci.APMArmed
		}
	case ci.APMArmed:
		if fromAlt && p.MigReq {
			q.migrate()
			return true
		}
	}
	return fromPrimary
}
