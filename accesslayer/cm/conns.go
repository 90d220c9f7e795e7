package cm

import (
	"cmp"
	"slices"
)

// ConnInfo describes a connection for monitoring tools.
type ConnInfo struct {
	ID       uint32 // local communication ID
	RemoteID uint32 // the peer's communication ID; 0 if it is not known
	State    State
	Active   bool // this end sent the REQ
}

// Conns returns the current connections in any state except StateClosed, ordered by ID.
func (m *Manager) Conns() []ConnInfo {
	m.mu.Lock()
	all := make([]*conn, 0, len(m.conns))
	for _, c := range m.conns {
		all = append(all, c)
	}
	m.mu.Unlock() // the lock of a connection is taken before the manager's
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
