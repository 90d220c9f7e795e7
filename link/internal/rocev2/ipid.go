package rocev2

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"ciddk/clock"
)

// The ICRC covers the IPv4 identification, and a UDP socket does not show it (RFC 791; A17.3.3). It can be solved for,
// which uses up 16 of the ICRC's 32 bits: of packets damaged at random, one in 65,536 passes. Most of that is won back
// here, from what senders do with the field:
//
//   - This kit, and whatever else sends from an unconnected socket with DF, leaves it to the system, which writes 0, or the index of
//     the packet in its segmentation train.
//   - Linux's RoCE counts it up by one per packet (ip_select_ident): one counter for all QPs between two addresses. Where the counter
//     rested, the next number is ahead by up to one per clock tick of the rest, at most one a millisecond.
//   - Adapters do the one or the other, or count per QP, or draw it by chance.
//
// So a solved identification must be near the last good one between these two addresses, which is a window of 160
// numbers, wider by one for each millisecond since; or, for a sender of the first kind, be below 64. The others are
// refused and counted (drop_ipv4_id).
//
// The rules for what is not known yet:
//
//   - The first packet of an address is taken at its word. To wait for a second would cost the first datagram, which nobody repeats,
//     or a connection's timeout. The same for an address that was silent for so long (65 s) that its counter may be anywhere.
//   - A refused identification is kept as a candidate for 10 s, and the next one near it is accepted: two damaged packets agree once in
//     2^41 (2^34 if they are 10 s apart). So a jump (a sender that began anew, or a burst of losses longer than the window) costs one packet. The place that was
//     left becomes the candidate, so that two counters in turn cost one packet in all.
//   - An address of whose packets more than one in 17 would be refused has no idHistory. From then on all that can be solved is accepted
//     from it, until some 250 packets one after the other were near.
const (
	idAhead      = 95        // the window: ahead, and 1 per millisecond
	idBehind     = 64        // behind: with 16 QPs, up to 41 were seen on a busy machine
	idIndexes    = 64        // indexes of a segmentation train; udp_linux.go's maxSegments, UDP_MAX_SEGMENTS of the peer's kernel
	candidateFor = 10_000    // milliseconds
	doubtStep    = 16        // for a refusal; -1 for a fit
	doubtLimit   = 128       // beyond it, there is no idHistory
	idSpace      = 1 << 16   // different identifications
	tableSets    = 1 << 8    // of the table
	tableWays    = 4         // in each set
	keptFor      = 60 * 1000 // milliseconds of silence after which a proven idHistory may be forgotten for another address
)

// idHistory is what is known of the identifications between two addresses.
type idHistory struct {
	key    uint64 // source and destination; 0: free
	seen   uint32 // when it was used last, in milliseconds of the clock; they wrap
	nextAt uint32 // when the candidate came
	last   uint16 // the last good one that was solved for
	next   uint16 // candidate
	flags  idFlag
	doubt  uint8
}

type idFlag uint8

const (
	idIndexed   idFlag = 1 << iota // sends 0 or an index: seen with all 32 bits of the ICRC right
	idCounts                       // last is valid
	idCandidate                    // next is valid
	idProven                       // by a second packet
	idRandom                       // identifications follow no rule
)

// verdict on an identification.
type idVerdict uint8

const (
	idFits      idVerdict = iota
	idUnchecked           // accepted, though nothing is known to hold it against
	idRejected
)

// settled reports whether further packets would not change the history.
func (h *idHistory) settled() bool {
	return h.flags&(idIndexed|idProven) == idIndexed|idProven && h.doubt == 0
}

// exact takes note of a packet whose ICRC is right for identification 0 or its index.
func (h *idHistory) exact(id uint16, now uint32) {
	switch {
	case h.flags&idCounts != 0 && h.near(h.last, id, now-h.seen):
		h.fit()
		h.good(id, now) // a counter that passes 0
		return
	case h.flags&idIndexed != 0:
		h.fit()
		h.flags |= idProven
	default:
		h.flags = idIndexed
	}
	h.seen = now
}

// solved judges an identification that was solved for.
func (h *idHistory) solved(id uint16, now uint32) idVerdict {
	counts, rest := h.flags&idCounts != 0, now-h.seen
	switch {
	case h.flags&(idIndexed|idCounts) == 0, counts && rest >= idSpace-idAhead-idBehind-1:
		h.flags &^= idCounts | idProven | idCandidate // nobody knows who has the address now
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

// near tells whether a counter that stood at from can stand at id after ms milliseconds.
func (h *idHistory) near(from, id uint16, ms uint32) bool {
	return uint32(id-from+idBehind) <= idBehind+idAhead+min(ms, idSpace)
}

// fit eases doubts.
func (h *idHistory) fit() {
	if h.doubt > 0 {
		h.doubt--
	}
	if h.doubt == 0 {
		h.flags &^= idRandom
	}
}

// good makes id the last good one.
func (h *idHistory) good(id uint16, now uint32) {
	if h.flags&idCounts != 0 {
		h.flags |= idProven
	}
	h.last, h.seen = id, now
	h.flags = h.flags&^idIndexed | idCounts
}

// idTable is a table of idTable, of fixed size: a flood of source addresses takes no memory. Nor does it drive out what
// is in use: an address gets a place in its set of four, drawn by a hash of this table's own, if one is free, or if an
// address there has sent but one packet, or nothing for a minute. Without a place, an address is always new. Not for
// concurrent use.
type idTable struct {
	salt uint64
	sets [tableSets][tableWays]idHistory
}

// newIDTable draws the hash from the system: who floods must not know it, and a replay does not depend on it.
func newIDTable() *idTable {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return &idTable{salt: binary.NativeEndian.Uint64(b[:]) | 1}
}

// addressKey is never 0: no packet comes from 0.0.0.0 to 0.0.0.0.
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

// find returns the idHistory of a pair of addresses, or nil.
func (t *idTable) find(key uint64) *idHistory {
	s := t.set(key)
	for i := range s {
		if s[i].key == key {
			return &s[i]
		}
	}
	return nil
}

// place gives a place for a new one, or nil.
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
		// Once in a set, an unproven one is worse than any proven one; among equals, the one silent for longer.
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

// sender is the idHistory of the flow that a Decoder is at.
type idChecker struct {
	table *idTable // nil: the identification is known, or there is none
	clock clock.Clock
	key   uint64
	h     *idHistory // in the table, or nil
	none  idHistory  // stands in for h where the table has no place
	now   uint32
	timed bool // now is of this batch
}

// guess is the identification that a sender that counts will take next, 0 for others.
func (s *idChecker) guess() uint16 {
	if s.h == nil || s.h.flags&idCounts == 0 {
		return 0
	}
	return s.h.last + 1
}

// settled reports whether packets with the expected identification need no check.
func (s *idChecker) settled() bool { return s.h != nil && s.h.settled() }

// set goes to another flow, whose addresses may be the same.
func (s *idChecker) set(src, dst netip.Addr) {
	key := addressKey(src, dst)
	if key == s.key {
		return
	}
	if s.h != nil && s.h.settled() {
		s.h.seen = s.time() // packets that teach nothing are not timed
	}
	if s.h == &s.none {
		s.none = idHistory{}
	}
	s.key, s.h = key, s.table.find(key)
}

// time is read once in a batch, and only where it is needed.
func (s *idChecker) time() uint32 {
	if !s.timed {
		s.now, s.timed = uint32(s.clock.Now().Milliseconds()), true
	}
	return s.now
}

// judge takes in the identification of a packet whose ICRC is right for it; solved says that this is what it was solved
// for.
func (s *idChecker) check(id uint16, solved bool) idVerdict {
	h, now := s.h, s.time()
	if h == nil {
		if h = s.table.place(s.key, now); h == nil {
			h = &s.none // what it learns is forgotten with the next change of address, and does no harm before
		}
		s.h = h
	}
	if !solved {
		h.exact(id, now)
		return idFits
	}
	return h.solved(id, now)
}
