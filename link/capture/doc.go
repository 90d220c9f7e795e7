// Package capture shows the packets that pass a port: every packet sent, trains cut into packets, and every packet
// received, those that the port dropped included. Package pcapng, below this one, writes them to files for Wireshark.
//
//	tap := new(capture.Tap)
//	port, err = capture.New(port, tap)
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//	…
//	err = tap.Start(func(frames []capture.Frame) { … })
//	…
//	tap.Stop()
//
// While the tap is off, a batch of packets costs one load more than without a capture.
//
// # What is shown
//
// Packets are encoded from what engine and port pass to each other (rvt.EncoderPort). Where the port is UDP, the
// identification of an IPv4 packet is therefore 0, with the ICRC that belongs to it: a kernel numbers the segments of a
// train, and the ICRC covers the number. TTL and TOS of a received packet are those that package udp sends. Packets
// with a wrong ICRC and bytes that are no packets are shown as they came.
//
// # Why a packet was dropped
//
// Ports report what they drop: put the capture on top of an impair.Port to see its losses. What the engine drops
// follows from its counters, train by train. "perhaps" means that other packets were handled at the same time. A packet
// that waited in the backlog of a busy QP has no reason.
package capture
