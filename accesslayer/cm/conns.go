package cm

import (
	"cmp"
	"slices"
)

// ConnInfo is what a connection looks like from outside, for tools that show them.
type ConnInfo struct {
	ID, RemoteID uint32 // communication IDs; RemoteID is 0 as long as it is not known
	State        State
	Active       bool // this end has asked
}

// Conns lists the connections that there are now, of any state but StateClosed, by ID.
func (m *Manager) Conns() []ConnInfo {
	m.mu.Lock()
	all := make([]*conn, 0, len(m.conns))
	for _, c := range m.conns {
		all = append(all, c)
	}
	m.mu.Unlock() // a connection's lock comes before the manager's
	list := make([]ConnInfo, 0, len(all))
	for _, c := range all {
		c.mu.Lock()
		i := ConnInfo{ID: c.id, RemoteID: c.remoteID, State: c.state, Active: c.active}
		c.mu.Unlock()
		if i.State != StateClosed {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b ConnInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
