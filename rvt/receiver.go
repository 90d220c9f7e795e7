package rvt

import (
	"slices"

	"ciddk/ci"
)

// receiver delivers what comes in at one port. It implements Receiver.
type receiver struct {
	*port
}

// Deliver implements Receiver. The QPs of a batch share one quantum for what they send in answer.
func (v *receiver) Deliver(pkts []Packet, wait, polled bool) {
	v.received(pkts)
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
			v.deliverMcast(run, wait, polled, &b)
			continue
		}
		q := v.find(dest)
		if q == nil {
			v.dev.count.add(DropNoQP, wirePackets(run))
			continue
		}
		q.deliver(run, wait, polled, &b)
	}
}

// find returns the QP that a packet with this number is for, or nil. A QP number is one CA's, but a packet must come in
// at the QP's port.
func (v *receiver) find(num ci.QPN) *QP {
	if num < 2 {
		return v.dev.qps.special(v.num, num).Load()
	}
	q := v.dev.qps.byNum.get(uint32(num))
	if q == nil || !q.receivesAt(v.port) {
		return nil
	}
	return q
}

// deliverMcast delivers packets for a group to its members; a QP that has attached twice gets one copy.
func (v *receiver) deliverMcast(pkts []Packet, wait, polled bool, b *quantum) {
	for i := range pkts {
		list := v.dev.groups.members(pkts[i].Dst.GID)
		n := 0
		for k, q := range list {
			if q.receivesAt(v.port) && !slices.Contains(list[:k], q) {
				q.deliver(pkts[i:i+1], wait, polled, b)
				n++
			}
		}
		if n == 0 {
			v.dev.count.add(DropNoQP, 1)
		}
	}
}

// FlushAcks implements Receiver.
func (v *receiver) FlushAcks() { v.acks.flush() }

// PortEvent implements Receiver.
func (v *receiver) PortEvent(t ci.EventType) {
	v.dev.refreshPort(v.port)
	if t == 0 {
		return
	}
	v.raise(ci.Event{Type: t, Port: v.num})
}

// Count implements Receiver.
func (v *receiver) Count(c Counter, n int) {
	if c >= numCounters {
		return
	}
	v.dev.count.add(c, n)
	switch c {
	case DropMalformed, DropICRC, DropIPv4ID:
		v.traffic.rcvErrors.Add(uint64(n))
	case DropSendFailed:
		v.traffic.xmitDiscards.Add(uint64(n))
	}
}

// refreshPort renews the cache of a port's attributes, and has its QPs take over what has changed.
func (d *device) refreshPort(p *port) {
	if !p.refresh() {
		return
	}
	d.qps.each(func(q *QP) {
		if q.receivesAt(p) {
			q.renew.Store(true)
			q.kick()
		}
	})
}
