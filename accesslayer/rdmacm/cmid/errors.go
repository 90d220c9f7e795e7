package cmid

import (
	"errors"
	"fmt"
	"syscall"

	"ciddk/accesslayer/rdmacm/internal/failure"
)

// ErrAnyAddr is in the error of an address in use (EADDRINUSE) if it, or the one that has the port, is an unspecified
// address, which stands for others. Linux's rdma_cm reports EADDRNOTAVAIL then.
var ErrAnyAddr = errors.New("at an unspecified address")

// ErrEnded is the one error to test for the end of a connection: for every error that a call returns because the
// connection is over, errors.Is(err, ErrEnded) is true, whichever end ended it and for whatever reason. errors.Is also
// finds the reason:
//
//	ErrPeerDisconnected   the peer has closed or disconnected
//	ErrDisconnected       ID.Disconnect or ID.Close was called here
//	net.ErrClosed         Close was called here
//	ErrDeviceRemoved      the HCA was removed
//	ErrPeerLost           the peer does not reply to keepalive probes
//	ErrQPFailed           the queue pair failed; errors.As finds a ci.WCError if a work request of this end failed
//	cm.ErrTimeout, …      the peer has lost the connection, as the connection manager reports
var ErrEnded = failure.ErrEnded

// Causes of the end of a connection. errors.Is(err, ErrEnded) is true for each of them.
var (
	ErrPeerDisconnected error = failure.EndCause("the peer has disconnected")
	ErrDisconnected     error = failure.EndCause("disconnected here")
	ErrDeviceRemoved    error = failure.EndCause("the HCA was removed")
	// ErrPeerLost ends a connection with QPConfig.KeepAlive whose peer does not reply. It is a net.Error that is a
	// timeout.
	ErrPeerLost error = failure.Timeout{Err: failure.EndCause("the peer does not reply to keepalive probes")}
	// ErrQPFailed ends a connection whose QP went to Error by itself: a work request failed, or a request of the peer
	// was invalid (QPConfig.OnEvent receives the event). ID.Accept returns it if the QP failed before the connection
	// was established.
	ErrQPFailed error = failure.EndCause("the QP failed")
)

// addrInUse returns the error of a listener that the connection manager has rejected.
func addrInUse(err error) error { return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err) }
