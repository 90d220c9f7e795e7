package rvt

import (
	"time"

	"ciddk/ci"
)

// origin is what a connected QP remembers of the packets that came under its peer's name. The token guards it.
type origin struct {
	entropy uint16 // of the packet from the peer's address that was admitted last; 0: none since the path was set
	fixed   bool   // a packet with that value was accepted, or the port's configuration names it
	count   QPCounters
	odd     *oddities // nil until there is something to report
}

// QPCounters counts packets of a connected QP. The counts begin when the QP is created.
type QPCounters struct {
	// Accepted counts requests that were executed, and responses that acknowledged something: it grows as long as the peer is heard.
	Accepted uint64
	// WrongAddress counts packets that were dropped because they came from another address than the peer's.
	WrongAddress uint64
	// EntropyChanges counts packets from the peer's address that were admitted, and whose Packet.Entropy differed from that of the
	// packet before. On RoCEv2 these are changes of the UDP source port.
	EntropyChanges uint64
	// WrongEntropy counts packets from the peer's address that Hints.StrictSource dropped.
	WrongEntropy uint64
	// FarPSN counts packets from the peer's address whose PSN was more than 65,536 away from the PSNs that the QP could expect.
	FarPSN uint64
}

// QPCounters returns the counters of a QP, and whether there is a QP of that number.
func (h *HCA) QPCounters(num ci.QPN) (QPCounters, bool) {
	q := h.qps.get(uint32(num))
	if q == nil {
		return QPCounters{}, false
	}
	q.mu.Lock()
	defer q.unlock()
	return q.origin.count, true
}

// farPSN is a distance of PSNs that lost, reordered and repeated packets of a peer do not reach: an adapter at 100 Gb/s that learns of a
// loss after a millisecond has sent fewer packets meanwhile, even at the smallest MTU.
const farPSN = 1 << 16

// heard notes n packets of the peer that were in sequence.
func (q *QP) heard(n uint32) {
	q.origin.count.Accepted += uint64(n)
	q.origin.fixed = q.origin.entropy != 0
}

// resetEntropy forgets the peer's entropy: the path has changed. What the port's configuration says of all peers applies again.
func (q *QP) resetEntropy() {
	q.origin.entropy, q.origin.fixed = 0, false
	if q.port != nil && q.port.hints.PeerEntropy != 0 {
		q.origin.entropy, q.origin.fixed = q.port.hints.PeerEntropy, true
	}
}

// admitEntropy reports whether to take a packet from the peer's address whose entropy is another one than before. RoCEv2 leaves the source
// port to the sender (IBTA annex A17, 17.3.1.2), so a change is counted and reported, and a reason to drop the packet with StrictSource only.
// A packet fixes the value for StrictSource when it turns out to be in sequence, which an attacker who does not see the connection
// has to guess.
func (q *QP) admitEntropy(p *Packet) bool {
	o := &q.origin
	if o.fixed && q.port.hints.StrictSource {
		o.count.WrongEntropy += uint64(p.N)
		q.hca.count.add(DropEntropy, int(p.N))
		q.suspect(SuspectEntropy, p)
		return false
	}
	if o.entropy != 0 {
		o.count.EntropyChanges++
		q.hca.count.add(CountEntropyChange, 1)
		q.suspect(SuspectEntropy, p)
	}
	o.entropy = p.Entropy
	return true
}

// dropAddress counts a packet that came from another address than the peer's.
func (q *QP) dropAddress(p *Packet) {
	q.hca.count.add(DropSource, int(p.N))
	q.origin.count.WrongAddress += uint64(p.N)
	q.suspect(SuspectAddress, p)
}

// seeFarPSN counts a packet of the peer's address whose PSN is far off. A sweep over all PSNs, by somebody who does not see the
// connection, consists of these. One alone may be left over from an earlier connection.
func (q *QP) seeFarPSN(p *Packet) {
	q.origin.count.FarPSN += uint64(p.N)
	odd := q.oddities()
	now := q.hca.clock.Now()
	if odd.burst == 0 || now-odd.burstAt > burstSpan {
		odd.burst, odd.burstAt = 0, now
	}
	if odd.burst++; odd.burst >= burstSize {
		q.suspect(SuspectPSN, p)
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

func (q *QP) oddities() *oddities {
	if q.origin.odd == nil {
		q.origin.odd = &oddities{}
	}
	return q.origin.odd
}

// suspect reports a packet, at most once in suspectEvery for each kind.
func (q *QP) suspect(kind SuspectKind, p *Packet) {
	if q.hca.suspects.report == nil {
		return
	}
	odd := q.oddities()
	odd.pending[kind] += uint64(p.N)
	now := q.hca.clock.Now()
	if odd.reported[kind] != 0 && now-odd.reported[kind] < suspectEvery {
		return
	}
	s := Suspicion{Kind: kind, QPN: q.num, Peer: q.peer, Source: p.Src, Entropy: p.Entropy, PSN: p.PSN, Packets: odd.pending[kind],
		Counters: q.origin.count}
	odd.reported[kind], odd.pending[kind] = max(now, 1), 0
	q.hca.suspects.push(s)
}

// PeerActivity implements ci.PeerActivity.
func (q *QP) PeerActivity() uint64 {
	q.mu.Lock()
	defer q.unlock()
	return q.origin.count.Accepted
}
