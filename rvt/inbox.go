package rvt

import "sync"

// inbox holds copies of packets for a QP whose token is held by another goroutine, or by a caller further up the stack.
type inbox struct {
	mu      sync.Mutex
	packets []Packet
	bytes   int64 // taken from the budget
}

const (
	// inboxLimit is the most packets in an inbox. A transport recovers from the loss of those beyond it.
	inboxLimit = 1024
	// inboxShare is the part of Config.InboxMemory that one QP may hold.
	inboxShare = 4
	// inboxKept is the most packets for which an inbox keeps its storage when it is empty, so that control packets cost
	// nothing.
	inboxKept = 16
)

// put appends copies of packets, and returns the number of those that it has no room for.
func (x *inbox) put(pkts []Packet, memory *budget) (dropped int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range pkts {
		p := pkts[i]
		if n := len(x.packets); n > 0 && p.supersedes(&x.packets[n-1]) {
			x.packets[n-1] = p
			continue
		}
		size := inboxSize(&p)
		if len(x.packets) >= inboxLimit || x.bytes+size > memory.limit/inboxShare || !memory.take(size) {
			dropped++
			continue
		}
		x.bytes += size
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
		x.packets = append(x.packets, p)
	}
	return dropped
}

// inboxSize is the number of bytes that a packet takes in an inbox.
func inboxSize(p *Packet) int64 { return packetBytes + int64(p.Len) + int64(len(p.GRH)) }

// take removes and returns a quantum of packets, and reports whether more are left. Without more, the caller returns
// the slice with keep.
func (x *inbox) take(memory *budget) (list []Packet, more bool) {
	b := newQuantum()
	x.mu.Lock()
	defer x.mu.Unlock()
	n, size := 0, int64(0)
	for ; n < len(x.packets) && !b.isSpent(); n++ {
		b.spend(1, x.packets[n].Len)
		size += inboxSize(&x.packets[n])
	}
	if n == 0 {
		return nil, false
	}
	list, rest := x.packets[:n], x.packets[n:]
	x.packets = nil
	if more = len(rest) > 0; more {
		x.packets = rest
	}
	x.bytes -= size
	memory.give(size)
	return list, more
}

// keep reuses the storage of packets that take returned.
func (x *inbox) keep(list []Packet) {
	if cap(list) > inboxKept {
		return
	}
	clear(list)
	x.mu.Lock()
	if x.packets == nil {
		x.packets = list[:0]
	}
	x.mu.Unlock()
}

// reset drops all packets.
func (x *inbox) reset(memory *budget) {
	x.mu.Lock()
	x.packets = nil
	if x.bytes > 0 {
		memory.give(x.bytes)
		x.bytes = 0
	}
	x.mu.Unlock()
}

// isEmpty reports whether no packets wait.
func (x *inbox) isEmpty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.packets) == 0
}
