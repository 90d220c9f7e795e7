package rvt

// A quantum limits what one turn of the engine sends and executes, so that no QP delays another for long. A QP with
// work left at the end of its quantum goes to the back of its port's run queue.
type quantum struct {
	packets int // packets to send, requests to execute and entries to flush
	bytes   int // payload bytes to send
}

const (
	turnPackets = 256
	turnBytes   = 1 << 20
	// sliceBytes is the most payload of one turn of a QP whose consumer is another process. The consumer sees the
	// completions of a turn at its end, and posts more while the next turn runs. Source and target of a slice together
	// leave room for the engine's own data in a second-level cache of 512 KiB.
	sliceBytes = turnBytes / 8

	// serveTurns is the most turns that one goroutine runs for marks that others leave while it holds the token: a
	// quantum of slices, and the acknowledgement of the last.
	serveTurns = turnBytes/sliceBytes + 2

	// settleTurns is the most quanta that a verb runs for what its process has posted before: a full queue of 16,384
	// requests.
	settleTurns = 16384 / turnPackets
)

// newQuantum returns a full quantum.
func newQuantum() quantum { return quantum{turnPackets, turnBytes} }

// nestedQuantum returns the quantum of a delivery inside a Send. The sender may make many Sends in a turn of its own.
func nestedQuantum() quantum { return quantum{turnPackets / 4, turnBytes / 4} }

// slice returns what one turn may use of the quantum: all of it, or sliceBytes at most.
func (b *quantum) slice(small bool) quantum {
	if small {
		return quantum{b.packets, min(b.bytes, sliceBytes)}
	}
	return *b
}

// isSpent reports whether nothing is left.
func (b *quantum) isSpent() bool { return b.packets <= 0 || b.bytes <= 0 }

// spend takes packets and bytes away. The last packet may exceed the quantum.
func (b *quantum) spend(packets, bytes uint32) {
	b.packets -= int(packets)
	b.bytes -= int(bytes)
}

// train returns how many packets of mtu bytes the quantum allows, at least one and at most n.
func (b *quantum) train(n, mtu uint32) uint32 {
	return uint32(max(min(int(n), b.packets, b.bytes/int(mtu)), 1))
}

// half takes away half of the quantum and returns it.
func (b *quantum) half() quantum {
	h := quantum{b.packets / 2, b.bytes / 2}
	b.packets -= h.packets
	b.bytes -= h.bytes
	return h
}

// join adds what is left of another quantum.
func (b *quantum) join(h quantum) {
	b.packets += h.packets
	b.bytes += h.bytes
}
