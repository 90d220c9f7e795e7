package rocev2

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"ciddk/clock"
)

// The ICRC covers the IPv4 identification, which a UDP socket does not show (RFC 791; A17.3.3). The receiver can
// compute the identification from the ICRC. That uses 16 of the ICRC's 32 bits, so one in 65,536 randomly damaged
// packets passes. The rules below recover most of the lost protection from the way in which senders use the field:
//
//   - This kit, and every sender on an unconnected socket with DF, leaves the field to the system, which writes 0 or
//     the index of the packet in its segmentation train.
//   - Linux Soft-RoCE increments it by one per packet (ip_select_ident), with one counter for all QPs between two
//     addresses. After a pause, the next number is larger by up to one per clock tick of the pause, at most one per
//     millisecond.
//   - Adapters do one or the other, count per QP, or choose it at random.
//
// A computed identification must therefore be near the last good one between the two addresses, within a window of 160
// numbers that grows by one for each millisecond since; or, for a sender of the first kind, below 64. Other packets are
// dropped and counted (drop_ipv4_id).
//
// Rules for unknown senders and changes:
//
//   - The first packet of an address is accepted. Waiting for a second one would lose the first datagram, which nobody
//     retransmits, or cost a connection a timeout. The same holds for an address that was silent for so long (65 s)
//     that its counter may have any value.
//   - A rejected identification is kept as a candidate for 10 s, and the next one near it is accepted. Two damaged
//     packets agree once in 2^41 (2^34 if they are 10 s apart). A jump (a restarted sender, or a burst of losses longer
//     than the window) therefore costs one packet. The previous position becomes the candidate, so two alternating
//     counters cost one packet in all.
//   - If more than one in 17 packets of an address would be rejected, the address has no history. From then on every
//     computed identification is accepted from it, until some 250 consecutive packets were near.
const (
	idAhead      = 95        // window forward, plus 1 per millisecond
	idBehind     = 64        // window backward; with 16 QPs, up to 41 were observed on a busy machine, and 71 once
	idIndexes    = 64        // indexes of a segmentation train: UDP_MAX_SEGMENTS of the peer's kernel
	candidateFor = 10_000    // milliseconds
	doubtStep    = 16        // added per rejection; 1 is subtracted per match
	doubtLimit   = 128       // above it, the address has no history
	idSpace      = 1 << 16   // number of identifications
	tableSets    = 1 << 8    // sets of the table
	tableWays    = 4         // entries of a set
	keptFor      = 60 * 1000 // milliseconds of silence after which a proven history may be replaced
)

// An idHistory records the identifications between two addresses.
type idHistory struct {
	key    uint64 // hash of source and destination; 0: free
	seen   uint32 // time of the last use, in milliseconds of the clock, modulo 2^32
	nextAt uint32 // time of the candidate
	last   uint16 // the last good computed identification
	next   uint16 // the candidate
	flags  idFlag
	doubt  uint8
}

type idFlag uint8

const (
	idIndexed   idFlag = 1 << iota // sends 0 or an index: verified with all 32 bits of the ICRC
	idCounts                       // last is valid
	idCandidate                    // next is valid
	idProven                       // confirmed by a second packet
	idRandom                       // identifications follow no rule
)

// An idVerdict is the result of a check of an identification.
type idVerdict uint8

const (
	idFits      idVerdict = iota
	idUnchecked           // accepted, but not compared with anything
	idRejected
)

// settled reports whether further packets would not change the history.
func (h *idHistory) settled() bool {
	return h.flags&(idIndexed|idProven) == idIndexed|idProven && h.doubt == 0
}

// exact records a packet whose ICRC is right for identification 0 or its index.
func (h *idHistory) exact(id uint16, now uint32) {
	switch {
	case h.flags&idCounts != 0 && h.near(h.last, id, now-h.seen):
		h.fit()
		h.good(id, now) // a counter passed 0
		return
	case h.flags&idIndexed != 0:
		h.fit()
		h.flags |= idProven
	default:
		h.flags = idIndexed
	}
	h.seen = now
}

// solved checks a computed identification and records it.
func (h *idHistory) solved(id uint16, now uint32) idVerdict {
	counts, rest := h.flags&idCounts != 0, now-h.seen
	switch {
	case h.flags&(idIndexed|idCounts) == 0, counts && rest >= idSpace-idAhead-idBehind-1:
		h.flags &^= idCounts | idProven | idCandidate // the address may have another owner now
		h.good(id, now)
		return idUnchecked
	case counts && h.near(h.last, id, rest):
		h.fit()
		h.good(id, now)
	case !counts && id < idIndexes:
		h.fit()
		h.flags |= idProven
		h.seen = now
	case h.flags&idCandidate != 0 && now-h.nextAt <= candidateFor && h.near(h.next, id, now-h.nextAt):
		h.fit()
		h.next, h.nextAt = h.last, h.seen
		if !counts {
			h.flags &^= idCandidate
		}
		h.good(id, now)
	default:
		if h.doubt = min(h.doubt, 255-doubtStep) + doubtStep; h.doubt > doubtLimit {
			h.flags |= idRandom
		}
		if h.flags&idRandom != 0 {
			h.good(id, now)
			return idUnchecked
		}
		h.next, h.nextAt = id, now
		h.flags |= idCandidate
		return idRejected
	}
	if h.flags&idRandom != 0 {
		return idUnchecked
	}
	return idFits
}

// near reports whether a counter with the value from can have the value id after ms milliseconds.
func (h *idHistory) near(from, id uint16, ms uint32) bool {
	return uint32(id-from+idBehind) <= idBehind+idAhead+min(ms, idSpace)
}

// fit reduces the doubt.
func (h *idHistory) fit() {
	if h.doubt > 0 {
		h.doubt--
	}
	if h.doubt == 0 {
		h.flags &^= idRandom
	}
}

// good records id as the last good identification.
func (h *idHistory) good(id uint16, now uint32) {
	if h.flags&idCounts != 0 {
		h.flags |= idProven
	}
	h.last, h.seen = id, now
	h.flags = h.flags&^idIndexed | idCounts
}

// An idTable is a table of histories of fixed size, so a flood of source addresses takes no memory. A flood does not
// displace active addresses either: an address gets an entry in its set of four, chosen by a hash with a random seed,
// if an entry is free, or if its present owner has sent only one packet or nothing for a minute. An address without an
// entry is treated as new each time. An idTable is not safe for concurrent use.
type idTable struct {
	salt uint64
	sets [tableSets][tableWays]idHistory
}

// newIDTable seeds the hash from crypto/rand: attackers must not be able to predict it, and replays do not depend on
// it.
func newIDTable() *idTable {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return &idTable{salt: binary.NativeEndian.Uint64(b[:]) | 1}
}

// addressKey is never 0, because no packet has both addresses 0.0.0.0.
func addressKey(src, dst netip.Addr) uint64 {
	s, d := src.As4(), dst.As4()
	return uint64(binary.BigEndian.Uint32(s[:]))<<32 | uint64(binary.BigEndian.Uint32(d[:]))
}

func (t *idTable) set(key uint64) *[tableWays]idHistory {
	h := key * t.salt
	h ^= h >> 29
	h *= 0x9e3779b97f4a7c15
	return &t.sets[h>>56]
}

// find returns the history of a pair of addresses, or nil.
func (t *idTable) find(key uint64) *idHistory {
	s := t.set(key)
	for i := range s {
		if s[i].key == key {
			return &s[i]
		}
	}
	return nil
}

// place returns an entry for a new history, or nil.
func (t *idTable) place(key uint64, now uint32) *idHistory {
	s := t.set(key)
	var worst *idHistory
	for i := range s {
		h := &s[i]
		if h.key == 0 {
			worst = h
			break
		}
		if h.flags&idProven != 0 && now-h.seen < keptFor {
			continue
		}
		// Unproven entries are replaced before proven ones, and among equals the one that has been silent longest.
		if worst == nil || h.flags&idProven < worst.flags&idProven || h.flags&idProven == worst.flags&idProven &&
			now-h.seen > now-worst.seen {
			worst = h
		}
	}
	if worst != nil {
		*worst = idHistory{key: key, seen: now}
	}
	return worst
}

// An idChecker checks the identifications of the flow that a Decoder is receiving.
type idChecker struct {
	table *idTable // nil: the identification is known, or the flow has none
	clock clock.Clock
	key   uint64
	h     *idHistory // entry of the table, or nil
	none  idHistory  // used as h if the table has no entry for the flow
	now   uint32
	timed bool // now is valid for this batch
}

// guess returns the identification that a counting sender will use next, or 0 for others.
func (s *idChecker) guess() uint16 {
	if s.h == nil || s.h.flags&idCounts == 0 {
		return 0
	}
	return s.h.last + 1
}

// settled reports whether packets with the expected identification need no check.
func (s *idChecker) settled() bool { return s.h != nil && s.h.settled() }

// set selects the flow, which may be the present one.
func (s *idChecker) set(src, dst netip.Addr) {
	key := addressKey(src, dst)
	if key == s.key {
		return
	}
	if s.h != nil && s.h.settled() {
		s.h.seen = s.time() // settled packets are not timed individually
	}
	if s.h == &s.none {
		s.none = idHistory{}
	}
	s.key, s.h = key, s.table.find(key)
}

// time reads the clock once per batch, and only if it is needed.
func (s *idChecker) time() uint32 {
	if !s.timed {
		s.now, s.timed = uint32(s.clock.Elapsed().Milliseconds()), true
	}
	return s.now
}

// check records and checks the identification of a packet whose ICRC is right for it. solved reports that the
// identification was computed from the ICRC.
func (s *idChecker) check(id uint16, solved bool) idVerdict {
	h, now := s.h, s.time()
	if h == nil {
		if h = s.table.place(s.key, now); h == nil {
			h = &s.none // its content is lost at the next change of addresses, which is harmless
		}
		s.h = h
	}
	if !solved {
		h.exact(id, now)
		return idFits
	}
	return h.solved(id, now)
}
