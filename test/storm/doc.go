// Package storm tests reliable connections over a network with many faults. It compares every completion and every
// packet with an oracle.
//
// # The storm
//
// Three HCAs of package reference are on a virtual network that drops, duplicates, reorders, delays and damages
// packets. By default, each of these happens to a tenth of the packets, so about half of all packets are affected.
// Everything runs in virtual time on one goroutine, and all random choices come from one seed. Two runs with the same
// seed are identical: Report.Hash covers every packet that was sent or arrived, with its time, and every completion.
//
// Many connected queue pairs send in both directions at once: SEND, SEND with immediate and with invalidate, WRITE,
// WRITE with immediate, READ, compare-swap and fetch-add. Their peers bind memory windows, and use fast registration
// and local invalidation. Path MTUs, windows, timeouts, retry counts from 0 to 7, receive queues and shared receive
// queues, late receives and invalid requests are mixed. A queue pair that fails is reset and connected again.
//
// # The oracle
//
// The oracle is a second implementation of the rules of IBTA (volume 1, release 1.4, 9.7.5 to 9.7.9). It shares no code
// with the engine, and does not use its state. Its inputs are the packets on the network with the network's verdicts,
// and the requests and receives that the consumers posted. From these it computes, for each queue pair, every
// completion with its status and its time in nanoseconds: when retries are exhausted, which request fails, which
// requests before it succeed, and which ones after it are flushed. It also decides whether each packet may be sent at
// its time, and which packets must be sent. The contents of messages follow a pattern and are compared in memory.
// Atomics must have the results of one execution each, in the order in which they arrived.
//
// Where IBTA leaves a choice, the oracle follows the documentation of package rvt:
//
//   - The acknowledgement timer runs for exactly the timeout (9.7.6.1.3 allows up to four times that).
//   - A response that arrives before an earlier one is a sequence error (9.7.5.2.8).
//   - Of several sequence errors of one kind (reported by a NAK, or by such a response), only the first one since the
//     last progress or timeout causes a retry.
//   - Progress resets the retry counts.
//   - After errorBurst sequence errors, and one more every errorEvery, an end reports a gap or acts on a NAK only if
//     the gap still exists after errorPatience.
//   - An acknowledgement of the packet that an RNR NAK named ends the wait.
//   - A retry count of 7 is seven retries after sequence errors and timeouts, and unlimited retries after RNR NAKs
//     (9.7.5.2.8, table 45).
//
// # Running it
//
//	go test ./test/storm                                   # tens of thousands of messages, both IP versions
//	go test ./test/storm -storm.messages=1000000           # tools/check sends half of them
//	go test ./test/storm -storm.seed=7                     # another seed
//
// A failure prints the violation, the state and the last packets of the queue pair, and the command that repeats the
// run.
package storm
