package rvt

import (
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// port is the engine's side of a Port.
type port struct {
	Port
	hca    *HCA
	num    uint8
	hints  Hints
	driver Driver      // or nil
	group  GroupPort   // or nil
	inbox  BacklogPort // or nil
	attr   atomic.Pointer[ci.PortAttr]

	refreshMu sync.Mutex

	traffic portCount
	turns   runQueue

	pkeyErrors, qkeyErrors atomic.Uint32 // saturate at 16 bits (PortInfo, IBTA volume 1, 14.2.5.6)

	special [2]atomic.Pointer[QP] // QP0, QP1

	ackMu sync.Mutex
	nacks atomic.Int32 // length of acks, for a look without the lock
	acks  []*QP        // whose acknowledgement waits for FlushAcks
	spare []*QP
}

func newPort(h *HCA, num uint8, p Port) *port {
	t := &port{Port: p, hca: h, num: num, hints: p.Hints()}
	t.turns.clock = h.clock
	t.driver, _ = p.(Driver)
	t.group, _ = p.(GroupPort)
	t.inbox, _ = p.(BacklogPort)
	t.refresh()
	return t
}

// port finds port n, counted from 1.
func (h *HCA) port(n uint8) *port {
	if n == 0 || int(n) > len(h.ports) {
		return nil
	}
	return h.ports[n-1]
}

// noPort is the answer to a port number that does not exist.
func (h *HCA) noPort(verb string, n uint8) error {
	return outside(verb, ci.InvalidPort, "port", int(n), 1, len(h.ports))
}

// refresh renews the cache of attributes.
func (p *port) refresh() {
	p.refreshMu.Lock() // a snapshot never takes the place of a younger one
	a := p.Port.Attr()
	a.Num = p.num
	if a.GUID == 0 {
		a.GUID = p.hca.cfg.Info.GUID + ci.GUID(p.num)
	}
	old := p.attr.Swap(&a)
	p.refreshMu.Unlock()
	if old == nil || slices.Equal(old.PKeys, a.PKeys) && old.MTU == a.MTU {
		return
	}
	p.hca.eachQP(func(q *QP) {
		if q.receivesAt(p) {
			q.renew.Store(true)
			q.kick()
		}
	})
}

// pkey gives the entry at index i of the port's table.
func (p *port) pkey(i uint16) (ci.PKey, bool) {
	t := p.attr.Load().PKeys
	if int(i) >= len(t) || t[i]&0x7fff == 0 {
		return 0, false
	}
	return t[i], true
}

// deferAck queues q until FlushAcks.
func (p *port) deferAck(q *QP) {
	p.ackMu.Lock()
	p.acks = append(p.acks, q)
	p.nacks.Store(int32(len(p.acks)))
	p.ackMu.Unlock()
}

// catchUp is BacklogPort.CatchUp; a port without backlog has always caught up.
func (p *port) catchUp(mark uint64) (next uint64, done bool) {
	if p.inbox == nil {
		return 0, true
	}
	return p.inbox.CatchUp(mark)
}
