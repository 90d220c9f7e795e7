package rdmacm

import (
	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
)

// Types of package cmid that programs of this package use.
type (
	Addr       = cmid.Addr
	Peer       = cmid.Peer
	Group      = cmid.Group
	JoinConfig = cmid.JoinConfig
)

// Manager creates connections, listeners and datagram endpoints. All methods may be called concurrently.
type Manager struct {
	ids *cmid.Manager
	// memoryAddr is OpenConfig.MemoryAddr.
	memoryAddr func(n uint64) uint64
}

// New returns a Manager for connections of the IDs of another one. Close closes that one, too.
func New(ids *cmid.Manager) *Manager { return &Manager{ids: ids} }

// IDs returns the Manager of the IDs, for programs that take the steps of a connection one by one, or that create QPs
// of their own. It belongs to the Manager.
func (m *Manager) IDs() *cmid.Manager { return m.ids }

// AL returns the access layer, for programs that create objects of their own.
func (m *Manager) AL() *accesslayer.AL { return m.ids.AL() }

// Close closes all connections, listeners and IDs, and the services if Open created them. It is idempotent. Do not call
// it from a callback.
func (m *Manager) Close() error { return m.ids.Close() }
