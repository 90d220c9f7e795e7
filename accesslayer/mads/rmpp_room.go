package mads

import "time"

// Transfers that peers begin have a limited number of places. When all are in use, a new transfer displaces one that
// makes no progress. A live peer sends its second segment within a round trip of the first. Therefore a transfer with
// one segment can be displaced after rmppSecondTime, and others after the time in which their sender would have sent
// again. The one to displace is of the source with the most transfers, and of these the one that has waited longest. So
// packets with forged addresses, which begin transfers and cannot continue them, occupy places only for a moment.

// rmppSecondTime is how long a transfer of one segment keeps its place when all are in use.
const rmppSecondTime = 10 * time.Millisecond

// displaceable reports whether a transfer may lose its place now.
func (i *incoming) displaceable(now time.Duration) bool {
	if i.next == 2 {
		return now-i.progressed >= rmppSecondTime
	}
	return now-i.progressed >= rmppAckTime
}

// makeRoom ends a transfer to free a place for one from a source, and reports whether it did. A source that has its
// share displaces only its own transfers. The endpoint's lock is held.
func (x *transfers) makeRoom(s Source, own bool) bool {
	now := x.e.p.m.al.Clock().Elapsed()
	var slowest *incoming
	most := 0
	for _, i := range x.begun {
		if own && i.source != s || !i.displaceable(now) {
			continue
		}
		n := x.shares[i.source].transfers
		if slowest == nil || n > most || n == most && i.progressed < slowest.progressed {
			slowest, most = i, n
		}
	}
	if slowest == nil {
		return false
	}
	x.e.p.count.drop(DropResources)
	x.dropIn(slowest)
	return true
}
