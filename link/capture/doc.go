// Package capture passes the packets of a port to a function: every packet sent, with trains cut into packets, and
// every packet received, including those that the port dropped. Its subpackage pcapng writes them to files for
// Wireshark.
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
// # What is captured
//
// Packets are encoded from the data that the engine and the port exchange (rvt.EncoderPort), not copied from the wire.
// On a UDP port, an IPv4 packet therefore has identification 0 and the corresponding ICRC. On the wire, the kernel
// numbers the segments of a train, and the ICRC covers the number. A received packet has the TTL and TOS that package
// udp sends. Packets with a wrong ICRC, and bytes that are not a packet, are captured as they were received.
//
// # Why a packet was dropped
//
// Ports report the packets that they drop. To capture the losses of an impair.Port, wrap that port with the capture.
// The reason for which the engine drops a packet is derived from its counters, train by train. "perhaps" means that
// other packets were handled at the same time. A packet that waited in the backlog of a busy QP has no reason.
package capture
