package cli

import "ciddk/rvt"

// Interfaces of an HCA that ddkd uses for its status and its metrics, found by ci.As. The reference HCA has all of
// them.
type (
	// portCounter counts the traffic of a port, which is counted from 1.
	portCounter interface {
		PortCount(num uint8) rvt.PortCount
	}
	// counter has further counters by name. Those whose names begin with drop_ count dropped packets.
	counter interface{ Counters() map[string]uint64 }
	// doorbellCounter counts how often clients have woken the engine.
	doorbellCounter interface{ Doorbells() uint64 }
	// queueCounter returns the bytes of all queues and their limit.
	queueCounter interface{ QueueMemory() (used, limit int64) }
)
