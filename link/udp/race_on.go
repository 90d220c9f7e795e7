//go:build race

package udp

import "sync/atomic"

// ioSync represents for the race detector the order that sockets establish: a send happens before the receive of the
// packet. Package syscall does the same for reads and writes.
var ioSync atomic.Uint64

func raceSent()     { ioSync.Add(1) }
func raceReceived() { ioSync.Load() }
