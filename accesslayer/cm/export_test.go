package cm

// PendingTimers counts the connections and lookups that have something to wait for.
func PendingTimers(m *Manager) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns) + len(m.asking) + len(m.asked)
}
