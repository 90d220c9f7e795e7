package rdmacm

import (
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// Errors of connections, which are those of package cmid. ErrEnded is the one to test for: errors.Is(err, ErrEnded) is
// true for each of the others.
var (
	ErrEnded            = cmid.ErrEnded
	ErrPeerDisconnected = cmid.ErrPeerDisconnected
	ErrDisconnected     = cmid.ErrDisconnected
	ErrDeviceRemoved    = cmid.ErrDeviceRemoved
	ErrPeerLost         = cmid.ErrPeerLost
	ErrQPFailed         = cmid.ErrQPFailed
)

// notRC returns the error for a Conn that is not RC.
func notRC(verb string) error {
	detail := "a Conn is RC; use Manager.IDs for UC, ListenDatagram for UD"
	return &ci.Error{Verb: verb, Status: ci.InvalidServiceType, Detail: detail}
}
