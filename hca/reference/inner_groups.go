package reference

import (
	"ciddk/ci"
	"ciddk/rvt"
)

// innerGroups is what a port in front of one with groups leaves to that: multicast, and its share of the work of whoever drives it.
type innerGroups struct{ in rvt.Port }

func (p innerGroups) Drive() int {
	if d, ok := p.in.(rvt.Driver); ok {
		return d.Drive()
	}
	return 0
}

func (p innerGroups) Attend() {
	if d, ok := p.in.(rvt.Driver); ok {
		d.Attend()
	}
}

func (p innerGroups) JoinGroup(g ci.GID) error  { return p.in.(rvt.GroupPort).JoinGroup(g) }
func (p innerGroups) LeaveGroup(g ci.GID) error { return p.in.(rvt.GroupPort).LeaveGroup(g) }

// catchUp is the CatchUp of a port that may have none.
func catchUp(p rvt.Port, mark uint64) (next uint64, done bool) {
	if b, ok := p.(rvt.BacklogPort); ok {
		return b.CatchUp(mark)
	}
	return 0, true
}
