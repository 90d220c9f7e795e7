// Package rings implements the work and completion queues of the reference HCA. The queues have the layout of the
// shared queues of Linux Soft-RoCE (user ABI of rdma_rxe, provider ABI 2), so that an unmodified user library can fill
// them. docs/abi has the layout as a table; layout.go has the offsets.
//
// # A queue
//
// A queue is one block of bytes: a header of 384 bytes, in which the two indices have cache lines of their own, and
// 2^k elements of 2^log2_elem_size bytes. An index counts elements and is stored masked. A queue is empty when the
// indices are equal, and full when the producer is one behind the consumer, so 2^k - 1 elements fit. Each side
// publishes its index once per batch.
//
// # Trust
//
// The other side of a queue may be another process, so nothing in the shared bytes is trusted. Each side keeps its own
// index elsewhere and reads only that of the other side, masked. The requests of a send queue and the entries of a
// completion queue have parts that are Go values. If both sides of such a queue are in this process, they therefore use
// indices outside of the shared bytes, and only publish them there. Counts, lengths and opcodes are read once and then
// checked. An invalid request sets rvt.Work.Bad, and the engine completes it with an error in its turn. Payload, and
// numbers that the engine checks anyway (keys, addresses), are passed on unchecked.
//
// # Extensions of the ABI
//
//   - Opcodes from 0x80 on are ours. They are for requests that have no number in the ABI, or none that a user may
//     post: see the op… constants.
//   - Objects and page lists of in-process requests (address vectors, windows, regions) are in a side table, by slot,
//     and never in bytes that another process could see. The table is allocated when the first request needs it.
//   - A completion has 16 bytes after the 48 of ib_uverbs_wc: the number of the EE context, and the EtherType. The
//     consumer's context of the QP, a Go value, is in a side table.
package rings
