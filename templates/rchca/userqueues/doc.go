// Package userqueues has the layout of the queues that the driver shares with the user library: send queues and
// completion queues, in memory that the driver makes for each process. Replace the elements by those of your hardware.
//
// The memory begins with a header of HeaderSize bytes. Its first word is not 0 while the driver sleeps; see Awaken. The
// queues follow at the offsets in userabi.Answer. Numbers have the byte order of the machine. A queue begins with two
// indices, at 0 and 64, which count elements and wrap at 2^32. The elements begin at 128. Their number is rounded up to
// a power of two; no more are used than the queue has.
//
//	queue        index at 0              index at 64               elements
//	send         posted, by the library  completed, by the driver  32 bytes; then segments or inline data
//	completions  added, by the driver    polled, by the library    32 bytes
//
// Each side keeps its own index in memory of its own, and reads only that of the other one. The other side may be a
// process that is not trusted, so elements are decoded once, into memory of the reader, and checked there.
//
// # Send element
//
//	0  uint64  ID            16  uint32  remote key        28  uint8   operation
//	8  uint64  remote addr.  20  uint32  flags             29  uint8   segments
//	                         24  uint32  immediate data    30  uint16  bytes of inline data
//
// A segment has 16 bytes: address, length, key.
//
// # Completion
//
//	0  uint64  ID            12  uint32  length            20  uint16  flags
//	8  uint32  QP number     16  uint32  immediate data    22  uint8   status, and at 23 the operation
//	24 uint32  source QP     28  uint16  source LID        30  uint8   service level, and at 31 the path bits
package userqueues
