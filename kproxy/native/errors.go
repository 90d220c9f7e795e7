package native

import "errors"

var (
	// ErrMessage is wrapped by the error of a message that no end of the protocol sends: too long, or with too many
	// descriptors.
	ErrMessage = errors.New("native: message exceeds the limits of the protocol")

	// ErrDescriptors is the error of a message whose descriptors were not all received, usually because the process
	// has as many as RLIMIT_NOFILE permits. The message itself has been received.
	ErrDescriptors = errors.New("native: the descriptors of a message were not received: the process has as many as " +
		"it may have (RLIMIT_NOFILE)")
)
