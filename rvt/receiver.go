package rvt

import (
	"slices"

	"ciddk/ci"
)

// PortEvent takes a change of the port from its driver.
func (p *port) PortEvent(t ci.EventType) {
	p.refresh()
	if ca := p.hca.open.Load(); ca != nil {
		ca.handlers.event(t, p.num)
	}
}

// Count takes a driver's count.
func (p *port) Count(c Counter, n int) {
	if c >= numCounters {
		return
	}
	p.hca.count.add(c, n)
	switch c {
	case DropMalformed, DropICRC, DropIPv4ID:
		p.traffic.rcvErrors.Add(uint64(n))
	case DropSendFailed:
		p.traffic.xmitDiscards.Add(uint64(n))
	}
}

// Deliver implements Receiver. The QPs of a batch share one quantum for what they send in answer.
func (p *port) Deliver(pkts []Packet, wait, polled bool) {
	p.received(pkts)
	b := newQuantum()
	if !wait {
		b = nestedQuantum()
	}
	for i := 0; i < len(pkts); {
		dest := pkts[i].DestQP
		j := i + 1
		for j < len(pkts) && pkts[j].DestQP == dest {
			j++
		}
		run := pkts[i:j]
		i = j
		if dest == mcastQPN {
			p.deliverMcast(run, wait, polled, &b)
			continue
		}
		q := p.find(dest)
		if q == nil {
			p.hca.count.add(DropNoQP, wirePackets(run))
			continue
		}
		q.deliver(run, wait, polled, &b)
	}
}

// find is the QP that a packet with this number is for. A QP number is one CA's, but a packet must come in at the QP's port.
func (p *port) find(num ci.QPN) *QP {
	if num < 2 {
		return p.special[num].Load()
	}
	q := p.hca.qps.get(uint32(num))
	if q == nil || !q.receivesAt(p) {
		return nil
	}
	return q
}

// FlushAcks implements Receiver.
func (p *port) FlushAcks() {
	if p.nacks.Load() == 0 { // the rule, for a consumer that spins
		return
	}
	p.ackMu.Lock()
	list := p.acks
	p.nacks.Store(0)
	p.acks, p.spare = p.spare[:0], nil
	p.ackMu.Unlock()
	b := newQuantum()
	for i, q := range list {
		q.ackQueued.Store(false)
		if q.ackWaits.Load() { // else it went out behind the consumer's post
			q.kickWith(&b)
		}
		list[i] = nil
	}
	p.ackMu.Lock()
	p.spare = list[:0]
	p.ackMu.Unlock()
}

// deliverMcast hands packets for a group to its members; a QP that has attached twice gets one copy.
func (p *port) deliverMcast(pkts []Packet, wait, polled bool, b *quantum) {
	t := &p.hca.mcast
	for i := range pkts {
		t.mu.RLock()
		list := t.groups[pkts[i].Dst.GID]
		t.mu.RUnlock()
		n := 0
		for k, q := range list {
			if q.receivesAt(p) && !slices.Contains(list[:k], q) {
				q.deliver(pkts[i:i+1], wait, polled, b)
				n++
			}
		}
		if n == 0 {
			p.hca.count.add(DropNoQP, 1)
		}
	}
}
