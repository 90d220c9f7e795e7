// Package queue has the work queues and completion queues of a ConnectX-3, in memory that a driver shares with the
// adapter.
//
// A SendRing, RecvRing, SharedRing or CompletionRing is one such queue. EncodeSend and EncodeRecv write work requests
// in the adapter's form, and DecodeCompletion reads a completion. Package prm has the layouts; the code of this package
// reads and writes the same bytes without its tables, since it is the data path.
//
//	slot := ring.Next()
//	opcode, units := queue.EncodeSend(slot, wr, nil)
//	ring.Commit(&wr, opcode, units)
//
// # Trust
//
// The adapter is not trusted. Complete methods report whether the index of a completion is that of an outstanding
// request, and change nothing if it is not. Fits methods report whether opcode and length of a completion can be those
// of its request.
//
// # Concurrency
//
// One goroutine at a time may post to a ring, and one at a time may complete its requests. The two may be different
// ones. The caller serialises everything else. No function allocates after the rings have been made.
package queue
