package rdmacm

import (
	"context"

	"ciddk/ci"
)

// Listener receives requests. All methods may be called concurrently.
type Listener struct{}

// Accept waits for a request. The ID it returns has its addresses, port and path, and the peer's terms: see ID.Request. Give it a QP and
// Accept it, or Reject it; the peer waits for some seconds. Requests whose IP header is wrong are refused and not seen here.
// Errors: the context's; net.ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*ID, error) { return nil, ci.Unsupported }

// Addr is what the Listener listens on, with the port chosen.
func (l *Listener) Addr() Addr { return Addr{} }

// Close ends listening: requests that wait are refused, IDs live on. It is idempotent.
func (l *Listener) Close() error { return ci.Unsupported }
