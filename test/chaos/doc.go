// Package chaos runs everything in the kit at once and checks that nothing breaks.
//
// A run is a series of rounds. A round builds several hosts with reference HCAs on a network in memory, and a pair of
// them on real UDP sockets. Then concurrent actors work until the round ends:
//
//   - connections by rdmacm, with streams of sends, writes, reads and atomics in both directions;
//   - random verbs on shared objects, with valid and invalid arguments, and destroys in every order;
//   - forged packets at the network, derived from packets that were sent, and forged datagrams at UDP sockets;
//   - hot removal of an HCA, opens and closes of others, verbs that fail by injection;
//   - management datagrams, RMPP transfers, multicast;
//   - queues in shared memory that are overwritten while the engine uses them (Linux).
//
// At the end of a round everything is closed, and the next round begins with nothing.
//
// # Invariants
//
// The run fails when one of these does not hold:
//
//   - No panic and, under the race detector, no data race.
//   - Every message of a connection arrives unchanged, once and in order. Reads return what the peer's memory holds.
//     Atomics take effect once.
//   - Connections that no actor ended do not end.
//   - Every signaled or failed work request completes exactly once, in order.
//   - Bytes around registered regions, regions without the right that an access needs, and regions that were
//     deregistered do not change. An access beyond its rights completes with a remote access error.
//   - Frames of an HCA contain only the keys and QP numbers that its consumers used, and never the content of memory
//     whose key no peer has.
//   - After everything is closed, each HCA counts zero objects, and goroutines, file descriptors and heap return to
//     what they were.
//   - No call hangs: every actor makes progress, or the run fails with the stacks of all goroutines.
//
// A connection that runs out of retries is not a failure while the machine is so busy that goroutines wait for seconds;
// the report counts these connections.
//
// # Running it
//
//	go test ./test/chaos                                               # a few seconds
//	go test -race ./test/chaos -run TestChaos -chaos.duration=2m       # what CI runs: go run ./tools/check chaos
//	go test -race ./test/chaos -run TestChaos -chaos.duration=1h -chaos.seed=7
//
// The run prints its seed. The seed fixes the choices of each actor, not how the goroutines interleave.
package chaos
