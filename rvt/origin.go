package rvt

import (
	"time"
)

// origin is what a connected QP keeps about the packets that came from its peer's address, or claimed to. The token
// guards it.
type origin struct {
	entropy uint16 // of the packet from the peer's address that was admitted last; 0: none since the path was set
	fixed   bool   // a packet with that value was accepted, or the port's configuration names it
	count   QPCounters
	odd     *oddities // nil until there is something to report
}

// QPCounters counts packets of a connected QP. The counts begin when the QP is created.
type QPCounters struct {
	// Accepted counts requests that were executed and responses that acknowledged something. It grows as long as
	// packets of the peer arrive.
	Accepted uint64
	// WrongAddress counts packets that were dropped because they came from another address than the peer's, or were
	// addressed to another GID than that of the QP's path.
	WrongAddress uint64
	// EntropyChanges counts packets from the peer's address that were admitted, and whose Packet.Entropy differed from
	// that of the packet before. On RoCEv2 these are changes of the UDP source port.
	EntropyChanges uint64
	// WrongEntropy counts packets from the peer's address that Hints.StrictSource dropped.
	WrongEntropy uint64
	// FarPSN counts packets from the peer's address whose PSN was more than 65,536 away from the PSNs that the QP could
	// expect.
	FarPSN uint64
	// Marked counts packets of the peer that the network has marked because it is congested (ECN), and Notified the
	// congestion notifications that the peer has sent because packets of this QP were marked.
	Marked, Notified uint64
}

// farPSN is a distance of PSNs that lost, reordered and repeated packets do not reach. An adapter at 100 Gb/s that
// learns of a loss after a millisecond has sent fewer packets meanwhile, even at the smallest MTU.
const farPSN = 1 << 16

// heard counts n packets of the peer that were in sequence.
func (e *endpoint) heard(n uint32) {
	e.origin.count.Accepted += uint64(n)
	e.origin.fixed = e.origin.entropy != 0
}

// resetEntropy forgets the entropy of the peer, because the path has changed. The value of the port's configuration
// applies again.
func (e *endpoint) resetEntropy() {
	e.origin.entropy, e.origin.fixed = 0, false
	if e.port != nil && e.port.hints.PeerEntropy != 0 {
		e.origin.entropy, e.origin.fixed = e.port.hints.PeerEntropy, true
	}
}

// admitEntropy reports whether to accept a packet from the peer's address whose entropy differs from that of the packet
// before. RoCEv2 leaves the source port to the sender (IBTA annex A17, 17.3.1.2), so a change is counted and reported,
// and the packet is dropped only with StrictSource. A packet fixes the value for StrictSource when it turns out to be
// in sequence. An attacker who does not see the connection must guess that.
func (e *endpoint) admitEntropy(p *Packet) bool {
	o := &e.origin
	if o.fixed && e.port.hints.StrictSource {
		o.count.WrongEntropy += uint64(p.N)
		e.dev.count.add(DropEntropy, int(p.N))
		e.suspect(SuspectEntropy, p)
		return false
	}
	if o.entropy != 0 {
		o.count.EntropyChanges++
		e.dev.count.add(CountEntropyChange, 1)
		e.suspect(SuspectEntropy, p)
	}
	o.entropy = p.Entropy
	return true
}

// dropAddress counts a packet that came from another address than the peer's, or was addressed to another GID.
func (e *endpoint) dropAddress(p *Packet) {
	e.dev.count.add(DropSource, int(p.N))
	e.origin.count.WrongAddress += uint64(p.N)
	e.suspect(SuspectAddress, p)
}

// countFarPSN counts a packet from the peer's address whose PSN is far off. A search over all PSNs by an attacker who
// does not see the connection consists of such packets. A single one may be left over from an earlier connection.
func (e *endpoint) countFarPSN(p *Packet) {
	e.origin.count.FarPSN += uint64(p.N)
	odd := e.oddities()
	now := e.dev.clock.Elapsed()
	if odd.burst == 0 || now-odd.burstAt > burstSpan {
		odd.burst, odd.burstAt = 0, now
	}
	if odd.burst++; odd.burst >= burstSize {
		e.suspect(SuspectPSN, p)
	}
}

// A burst of far PSNs is burstSize packets or trains within burstSpan.
const (
	burstSize = 16
	burstSpan = time.Second
)

// oddities limits the reports of a QP.
type oddities struct {
	burst    int           // far PSNs since burstAt
	burstAt  time.Duration // when the first of them came
	reported [numSuspects]time.Duration
	pending  [numSuspects]uint64 // packets since the last report
}

func (e *endpoint) oddities() *oddities {
	if e.origin.odd == nil {
		e.origin.odd = &oddities{}
	}
	return e.origin.odd
}

// suspect reports a packet, at most once in suspectEvery for each kind.
func (e *endpoint) suspect(kind SuspectKind, p *Packet) {
	if e.dev.suspects.report == nil {
		return
	}
	odd := e.oddities()
	odd.pending[kind] += uint64(p.N)
	now := e.dev.clock.Elapsed()
	if odd.reported[kind] != 0 && now-odd.reported[kind] < suspectEvery {
		return
	}
	s := Suspicion{Kind: kind, QPN: e.num, Peer: e.peer, Source: p.Src, Entropy: p.Entropy, PSN: p.PSN,
		Packets: odd.pending[kind], Counters: e.origin.count}
	odd.reported[kind], odd.pending[kind] = max(now, 1), 0
	e.dev.suspects.push(s)
}
