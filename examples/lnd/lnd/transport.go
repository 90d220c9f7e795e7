package lnd

import (
	"context"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// transport makes connections: rdmacm.go has the one for IP addresses. It is all that the rest of the package knows of connection managers.
type transport interface {
	// pd is where the node's objects come from.
	pd() *accesslayer.PD
	// dial finds the way to a peer. It sends nothing to it yet.
	dial(ctx context.Context, to netip.Addr) (link, error)
	// accept waits for a request.
	accept(ctx context.Context) (link, error)
	close() error
}

// link is one end of a connection, from when it is wanted until it is over.
type link interface {
	// createQP makes the queue pair, in Init.
	createQP(c ci.QPCreate) (ci.QP, error)
	// connect asks the peer, with private data, and returns that of the answer: both ends may send. Errors: *Reject.
	connect(ctx context.Context, private []byte) (reply []byte, err error)
	// request is the private data of a peer's request.
	request() []byte
	// confirm agrees to a request, and waits until both ends may send.
	confirm(ctx context.Context, private []byte) error
	reject(private []byte) error
	// done is closed when the connection is over, whoever ended it; err says why.
	done() <-chan struct{}
	err() error
	// close ends the connection and destroys the queue pair. It is idempotent.
	close() error
}
