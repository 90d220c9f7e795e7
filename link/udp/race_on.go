//go:build race

package udp

import "sync/atomic"

// ioSync tells the race detector what the system's sockets order: what happened before a send happened before the
// receive of it. Package syscall does so for reads and writes.
var ioSync atomic.Uint64

func raceSent()     { ioSync.Add(1) }
func raceReceived() { ioSync.Load() }
