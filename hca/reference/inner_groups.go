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
