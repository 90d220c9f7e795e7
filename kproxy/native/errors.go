package native

import (
	"errors"
	"net"
	"os"
	"syscall"
)

var (
	// ErrMessage is wrapped by the error of a message that no end of the protocol sends: too long, or with too many
	// descriptors.
	ErrMessage = errors.New("native: message exceeds the limits of the protocol")

	// ErrDescriptors is the error of a message whose descriptors were not all received, usually because the process
	// has as many as RLIMIT_NOFILE permits. The message itself has been received.
	ErrDescriptors = errors.New("native: the descriptors of a message were not received: the process has as many as " +
		"it may have (RLIMIT_NOFILE)")

	// ErrInFlight is wrapped by the error of a message that was not sent, because descriptors of earlier messages have
	// not been received. It names the limit.
	ErrInFlight = errors.New("native: too many descriptors that processes have not received")
)

// IsConnectionError reports whether an error of Send means that the connection has ended, and not that this message
// cannot be sent.
func IsConnectionError(err error) bool {
	for _, e := range []error{syscall.EPIPE, syscall.ECONNRESET, syscall.ENOTCONN, net.ErrClosed,
		os.ErrDeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// CloseFiles closes descriptors that came from a process that is trusted, or that were never sent.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
