// Package storm runs reliable connections over a network that does all the harm it can, and holds every single outcome against an
// oracle.
//
// # The storm
//
// Three HCAs of package reference stand on a virtual network (reference.NewNetwork) that loses, duplicates, reorders, delays and damages
// packets, by default a tenth of them each, so that half of all packets are hit. Everything runs in virtual time on one goroutine, and
// all choices come from one seed: the same seed gives the same run, packet for packet (Report.Hash covers every bit that was sent or
// arrived, its time, and every completion). Many connected queue pairs, in both directions at once, carry SEND, SEND with immediate
// and with invalidate, WRITE, WRITE with immediate, READ, compare-swap and fetch-add; the targets also bind windows, register fast and
// invalidate locally. Path MTUs, windows, timeouts, retry counts of 0 to 7, receive queues and shared ones, late receives and
// requests that are wrong on purpose are mixed. A queue pair that has died is reset and connected anew.
//
// # The oracle
//
// The oracle is a second reading of the IBTA (volume 1, release 1.4, 9.7.5 to 9.7.9), which shares no code with the engine. It sees what a
// tap on the wire sees, with the fate of each packet, and what the consumers posted; from that it computes, for each queue pair, each
// completion: which request, which status, at which nanosecond. It says when retries are exhausted and which request dies of it,
// and that those before it have succeeded and those behind it are flushed. It also says of each packet whether it may be sent
// there and then, and which ones must be. It looks at no state of the engine. The contents of messages come from a pattern and are
// compared in memory; atomics must have returned and left what they do when executed once each, in the order in which they
// arrived.
//
// Where the IBTA leaves a choice, the oracle takes what package rvt documents: the acknowledgement timer runs for exactly the timeout
// (9.7.6.1.3 allows up to four times that); an answer that overtakes another one is a sequence error (9.7.5.2.8); of several sequence
// errors of a kind (told by a NAK, or by such an answer) without progress or a timeout between them, one counts; what has been retried counts anew with each progress. Beyond errorBurst sequence errors, and one more every
// errorEvery, a gap is reported and a NAK is acted on only if it still holds after errorPatience. An acknowledgement of the packet that an RNR
// NAK has named ends the wait. A retry count of 7 is
// seven retries for the transport, and no limit for a receiver that is not ready (9.7.5.2.8, table 45).
//
// # Running it
//
//	go test ./test/storm                                   # tens of thousands of messages, both IP versions
//	go test ./test/storm -storm.messages=1000000           # the whole; also: go run ./internal/check storm
//	go test ./test/storm -storm.seed=7                     # another one
//
// A failure says what was expected of which queue pair, shows the last packets of it, and ends with the command that repeats the run.
package storm
