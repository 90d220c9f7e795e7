package mads

import "time"

// Transfers that peers begin have a limited number of places. When all are taken, a new transfer displaces one that does not progress. A peer that is
// there sends its second segment within a round trip of the first, so a transfer of which only the first segment has come is given up
// after rmppSecondTime, and others after the time in which their sender would have sent again. Of several, it is one of the source that has the most,
// and of these the one that has waited longest. So packets from forged addresses, which begin transfers and cannot continue them, take places
// for a moment only.

// rmppSecondTime is how long a transfer of one segment keeps its place when all are taken.
const rmppSecondTime = 10 * time.Millisecond

// displaceable reports whether a transfer may lose its place now.
func (i *incoming) displaceable(now time.Duration) bool {
	if i.next == 2 {
		return now-i.progressed >= rmppSecondTime
	}
	return now-i.progressed >= rmppAckTime
}

// makeRoom ends a transfer to make a place for one from a source, and reports whether it did. A source that has its share displaces transfers of
// its own only. The endpoint's lock is held.
func (x *transfers) makeRoom(s Source, own bool) bool {
	now := x.e.p.m.al.Clock().Now()
	var victim *incoming
	most := 0
	for _, i := range x.begun {
		if own && i.source != s || !i.displaceable(now) {
			continue
		}
		n := x.askedBy[i.source].transfers
		if victim == nil || n > most || n == most && i.progressed < victim.progressed {
			victim, most = i, n
		}
	}
	if victim == nil {
		return false
	}
	x.e.p.count.drop(DropResources)
	x.dropIn(victim)
	return true
}
