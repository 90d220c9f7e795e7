package fw

import (
	"time"

	"ciddk/clock"
)

// Config configures a device. The zero value is usable.
type Config struct {
	// Clock is the source of time; nil is the machine's.
	Clock clock.Clock
	// Polling turns interrupts off: event queues are polled each PollInterval.
	Polling bool
	// PollInterval is the interval of polling; 0 is one millisecond.
	PollInterval time.Duration
	// PolledCommands makes the driver wait for each command at the command register, one at a time.
	PolledCommands bool
	// CompletionEQs is the number of event queues for completions; 0 is 4, or fewer if the function has fewer
	// interrupt vectors.
	CompletionEQs int
	// LogEQSize is the logarithm of the number of entries of an event queue; 0 is 12.
	LogEQSize uint8
	// CommandTimeout limits each command whose context has no earlier deadline. A device that exceeds it has failed. 0
	// is 10 seconds.
	CommandTimeout time.Duration
	// ResetDelay is the time for which the adapter is left alone after a reset; 0 is one second.
	ResetDelay time.Duration
	// WatchInterval is the interval of the checks for catastrophic errors, a function that has gone, and lost
	// interrupts; 0 is one second.
	WatchInterval time.Duration
	// MaxMemory limits the DMA memory of the device in bytes: firmware, ICM, event queues, mailboxes and the buffers of
	// AllocBuffer and AllocQueue. 0 is 4 GiB.
	MaxMemory int64
	// Profile has the sizes of the tables.
	Profile Profile
}

// Profile has the sizes of the adapter's tables, as logarithms. They are limited to what the adapter has. 0 is the
// default.
type Profile struct {
	LogQPs   uint8 // default 16
	LogSRQs  uint8 // default 14
	LogCQs   uint8 // default 16
	LogMPTs  uint8 // default 17: memory regions and windows
	LogMTTs  uint8 // default 22: pages of all regions and queues
	LogMCGs  uint8 // default 10: multicast groups
	LogReads uint8 // default 4: RDMA READs and atomics per QP as the responder
}
