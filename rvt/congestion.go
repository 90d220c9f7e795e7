package rvt

import (
	"time"

	"ciddk/wire"
)

// Congestion management of RoCEv2 (IBTA annex A17, 17.9.3). A connected QP answers packets of its peer that the network
// has marked with congestion notification packets (CNP). Datagrams are not answered.

// DefaultCNPInterval is the default of Config.CNPInterval: that of common adapters.
const DefaultCNPInterval = 4 * time.Microsecond

// cnpPayload is the reserved field after the BTH of a CNP.
var cnpPayload = [][]byte{make([]byte, wire.CNPLen)}

// marked counts a marked packet of the peer, and sends a CNP unless the last one was a moment ago.
func (q *QP) marked(t *turn, p *Packet) {
	q.dev.count.add(CountMarked, int(p.N))
	q.origin.count.Marked += uint64(p.N)
	now := q.dev.clock.Elapsed()
	if q.dev.cfg.CNPInterval < 0 || now < q.notifyAt {
		return
	}
	q.notifyAt = now + q.dev.cfg.CNPInterval
	q.dev.count.add(CountCNPSent, 1)
	c := t.packet()
	c.Service, c.Op = wire.Congestion, wire.OpCNP
	c.Start, c.End = true, true
	c.Payload, c.Len = cnpPayload, wire.CNPLen
}

// notified handles a CNP. One of another sender than the peer changes nothing.
func (q *QP) notified(p *Packet) {
	switch {
	case q.service != wire.RC && q.service != wire.UC:
		q.dev.count.add(CountCNPIgnored, 1)
	case !q.isFromPeer(p):
		q.dropAddress(p)
	case !pkeyMatch(p.PKey, q.pkey):
		q.dev.count.add(DropPKey, 1)
		q.port.badPKey(p)
	default:
		q.dev.count.add(CountCNP, 1)
		q.req.congested()
	}
}
