package frame

// A Carrier moves Ethernet frames, without frame check sequence. A carrier serves one port or hub, once.
type Carrier interface {
	// Start begins to receive. Frames that arrive together are passed to deliver together. It is called from one
	// goroutine, which holds no lock; frames are valid during the call. failed is called once if the carrier can
	// receive no more, other than by Close.
	Start(deliver func(frames [][]byte), failed func(error)) error
	// Send sends frames, in order. It does not wait for the other side, and keeps no frame. It returns how many frames
	// were dropped. Send may be called from several goroutines, after Start.
	Send(frames [][]byte) (dropped int)
	// Close ends the carrier. No delivery runs when it returns. It is idempotent.
	Close() error
}

// A LinkCarrier is a Carrier whose other side sees whether the link is up. A TAP device is one.
type LinkCarrier interface {
	Carrier
	// SetLink sets the state of the link that the other side sees. In the beginning it is up. Calls come one at a
	// time, and must not call the port or hub back.
	SetLink(up bool)
}

// MaxFrame is the longest frame in bytes, including the Ethernet header.
const MaxFrame = 65535
