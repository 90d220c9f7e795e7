package rdmacm

import (
	"context"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// Manager makes IDs and listeners. All methods may be called concurrently.
type Manager struct{}

// New makes a Manager that uses HCAs through client, and services as cfg says. What it opens and makes belongs to the client, too.
// Status: InvalidParameter (no CM), ErrClosed (of client).
func New(client *accesslayer.Client, cfg Config) (*Manager, error) { return nil, ci.Unsupported }

// Open makes a Manager with everything of its own: a client of the access layer, MAD services and a connection manager. There can be one
// of these per access layer, for QP1 can be had once.
func Open(al *accesslayer.AL) (*Manager, error) { return nil, ci.Unsupported }

// Close closes all listeners and IDs, and with Open the services. It is idempotent.
func (m *Manager) Close() error { return ci.Unsupported }

// NewID makes an ID. Close it when done.
// Errors: InvalidParameter (a combination of port space, type and service that cannot be), net.ErrClosed.
func (m *Manager) NewID(cfg IDConfig) (*ID, error) { return nil, ci.Unsupported }

// Dial connects to an address, and gives the ID of an established connection, or of datagrams, with its QP: all steps in one. If it
// fails, nothing is left.
func (m *Manager) Dial(ctx context.Context, remote netip.AddrPort, cfg DialConfig) (*ID, error) {
	return nil, ci.Unsupported
}

// Listen begins to receive requests for an address and port. The zero address and :: stand for all addresses of all HCAs, those that come
// later included, 0.0.0.0 for all of IPv4. Port 0 takes a free one, see Listener.Addr.
// Errors: EADDRINUSE, EADDRNOTAVAIL (no HCA has the address), net.ErrClosed.
func (m *Manager) Listen(local netip.AddrPort, cfg ListenConfig) (*Listener, error) {
	return nil, ci.Unsupported
}

// Device gives the Manager's open of an HCA, and the PD that IDs share if they are given no other. Both live until the Manager is closed
// or the HCA goes. Status: InvalidGUID, ErrClosed.
func (m *Manager) Device(guid ci.GUID) (*accesslayer.CA, *accesslayer.PD, error) {
	return nil, nil, ci.Unsupported
}
