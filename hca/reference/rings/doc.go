// Package rings keeps the work and completion queues of the reference HCA in the layout that Linux gives the shared
// queues of its software RoCE driver (user ABI of rdma_rxe, provider ABI 2), so that a stock user library can fill
// them. docs/abi has the layout as a table; layout.go has it as offsets.
//
// # A queue
//
// A queue is one run of bytes: a header of 384 bytes, in which the two indices have cache lines of their own, and 2^k
// elements of 2^log2_elem_size bytes. An index counts elements and is stored masked; a queue is empty when the indices
// are equal, full when the producer is one behind the consumer, so that 2^k - 1 elements fit. Each side publishes its
// index once per batch.
//
// # Trust
//
// The other side of a queue may be another process. Nothing read from the bytes is believed: each side keeps its own
// index apart and reads only that of the other, masked. A send queue's requests and a completion queue's entries have
// parts that are Go values, so both of their sides go by indices outside the bytes, and only publish them there.
// Counts, lengths and opcodes are checked after one read each; a request that makes no sense becomes rvt.Work.Bad, and
// the engine completes it with an error in its turn. What cannot do harm, payload and numbers that the engine checks
// anyway (keys, addresses), is passed on as it stands.
//
// # What the ABI lacks
//
//   - Opcodes from 0x80 on are ours, for requests that have no number there or none that a user may post: see the op… constants.
//   - Objects and page lists of in-process requests (address vectors, windows, regions) lie in a table beside the queue, by slot, and
//     never in bytes that another process could see. A queue that has used none has no table.
//   - A completion has 16 bytes behind the 48 of ib_uverbs_wc: the EE context's number, the EtherType. The consumer's context of the
//     QP, a Go value, lies in a table beside the queue.
package rings
