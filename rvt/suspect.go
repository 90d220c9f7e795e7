package rvt

import (
	"sync"
	"time"

	"ciddk/ci"
)

// A Suspicion reports packets that the peer of a connected QP would hardly send. They may come from an attacker, from
// an earlier connection, or from an adapter with unusual behavior. The report does not affect the QP.
//
// A QP causes at most one report of each kind in ten seconds. At most 64 reports wait for Ops.Suspect. Further ones are
// lost.
type Suspicion struct {
	Kind SuspectKind
	QPN  ci.QPN // the QP that the packets were sent to
	Peer Addr   // its peer's address
	// Source, Entropy and PSN are those of the last packet. Entropy is the UDP source port on RoCEv2.
	Source  Addr
	Entropy uint16
	PSN     ci.PSN
	// Packets is the number of packets of this kind since the last report of the QP.
	Packets uint64
	// Counters are the QP's, at the time of the report.
	Counters QPCounters
	// Lost is the number of reports of the HCA that were lost before this one.
	Lost uint64
}

// SuspectKind is the reason of a Suspicion.
type SuspectKind uint8

// The reasons of a Suspicion.
const (
	SuspectAddress SuspectKind = iota // packets from another address than the peer's, or to another GID: dropped
	SuspectEntropy                    // the source port changed: accepted, or with Hints.StrictSource dropped
	// a burst of packets with PSNs far from those expected, such as a search for the right one
	SuspectPSN
	numSuspects
)

var suspectNames = [numSuspects]string{
	"packets from another address", "change of the source port", "burst of wrong PSNs",
}

func (k SuspectKind) String() string {
	if k < numSuspects {
		return suspectNames[k]
	}
	return "unknown suspicion"
}

const (
	suspectEvery = 10 * time.Second // least time between two reports of a kind from a QP
	suspectQueue = 64               // most reports that wait
)

// suspects passes reports to the driver, one at a time, on a goroutine that exists only while there are any.
type suspects struct {
	report func(Suspicion) // nil: nobody listens

	mu      sync.Mutex
	idle    sync.Cond
	queue   []Suspicion
	lost    uint64
	running bool
	closed  bool
}

// push queues a report without waiting.
func (s *suspects) push(r Suspicion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case len(s.queue) == suspectQueue:
		s.lost++
	default:
		r.Lost, s.lost = s.lost, 0
		s.queue = append(s.queue, r)
		if !s.running {
			s.running = true
			go s.serve()
		}
	}
}

func (s *suspects) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && !s.closed {
		r := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		s.report(r)
		s.mu.Lock()
	}
	s.running, s.queue = false, nil
	if s.idle.L != nil {
		s.idle.Broadcast()
	}
}

// close returns when no report is being passed. It may not be called from Ops.Suspect.
func (s *suspects) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.idle.L == nil {
		s.idle.L = &s.mu
	}
	for s.running {
		s.idle.Wait()
	}
}
