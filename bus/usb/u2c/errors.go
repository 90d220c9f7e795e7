package u2c

import "errors"

// Errors that those of an Adapter wrap.
var (
	// ErrNoTarget is returned if no target acknowledges the I2C address.
	ErrNoTarget = errors.New("no target acknowledges the I2C address")
	// ErrNACK is returned if the target does not acknowledge a byte after its address.
	ErrNACK = errors.New("the target did not acknowledge a byte")
	// ErrTimeout is returned if the adapter does not answer in time, or reports a timeout on the I2C bus.
	ErrTimeout = errors.New("timeout")
	// ErrReply is returned if an answer of the adapter has the wrong length.
	ErrReply = errors.New("wrong length of an answer")
	// ErrStatus is returned if the adapter reports any other failure.
	ErrStatus = errors.New("the adapter reports a failure")
	// ErrUnplugged is returned if the adapter is no longer on the USB. A Pipe returns it, too.
	ErrUnplugged = errors.New("the adapter is unplugged")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the adapter is closed")
	// ErrBus is returned by Recover if the data line stays low.
	ErrBus = errors.New("a target holds the data line low")
)
