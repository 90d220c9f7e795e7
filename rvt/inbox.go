package rvt

// inboxLimit bounds what waits for a busy QP; a transport recovers from what is dropped beyond it.
const inboxLimit = 1024

// enqueue copies packets for the holder of the token.
func (q *QP) enqueue(pkts []Packet) {
	q.inMu.Lock()
	defer q.inMu.Unlock()
	for i := range pkts {
		p := pkts[i]
		if n := len(q.inbox); n > 0 && p.supersedes(&q.inbox[n-1]) {
			q.inbox[n-1] = p
			continue
		}
		size := inboxSize(&p)
		if len(q.inbox) >= inboxLimit || q.inBytes+size > q.hca.inboxes.limit/inboxShare || !q.hca.inboxes.take(size) {
			q.hca.count.add(DropBusy, 1)
			continue
		}
		q.inBytes += size
		if p.Len > 0 {
			b := make([]byte, 0, p.Len)
			for _, s := range p.Payload {
				b = append(b, s...)
			}
			p.Payload = [][]byte{b[:p.Len]}
		}
		if p.GRH != nil {
			p.GRH = append([]byte(nil), p.GRH...)
		}
		q.inbox = append(q.inbox, p)
	}
}

// inboxSize is the number of bytes that a packet takes in an inbox.
func inboxSize(p *Packet) int64 { return packetBytes + int64(p.Len) + int64(len(p.GRH)) }

// emptyInbox takes the bytes of the inbox out of the count. q.inMu is held.
func (q *QP) emptyInbox() {
	if q.inBytes > 0 {
		q.hca.inboxes.give(q.inBytes)
		q.inBytes = 0
	}
}

// readInbox takes a quantum of packets from the inbox. What is left waits for the next turn.
func (q *QP) readInbox(r *run) {
	b := newQuantum()
	q.inMu.Lock()
	n, size := 0, int64(0)
	for ; n < len(q.inbox) && !b.isSpent(); n++ {
		b.spend(1, q.inbox[n].Len)
		size += inboxSize(&q.inbox[n])
	}
	if n == 0 {
		q.inMu.Unlock()
		return
	}
	list, rest := q.inbox[:n], q.inbox[n:]
	q.inbox = nil
	if len(rest) > 0 {
		q.inbox = rest
		q.pending.Store(true)
	}
	q.inBytes -= size
	q.hca.inboxes.give(size)
	q.inMu.Unlock()
	for i := range list {
		q.receive(r, &list[i])
	}
	if len(rest) > 0 || cap(list) > 16 {
		return
	}
	clear(list)
	q.inMu.Lock()
	if q.inbox == nil { // keep a small one, so that control packets cost nothing
		q.inbox = list[:0]
	}
	q.inMu.Unlock()
}

// hasInbox reports whether packets wait in the inbox.
func (q *QP) hasInbox() bool {
	q.inMu.Lock()
	defer q.inMu.Unlock()
	return len(q.inbox) > 0
}
