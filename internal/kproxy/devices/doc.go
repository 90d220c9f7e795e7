// Package devices serves the device files of Linux's RDMA subsystem, such as /dev/infiniband/uverbs0, to programs that
// were not written for the kit. The files exist in no file system: a front end, such as package internal/kproxy/uverbs,
// implements what they do, and a carrier, such as the library that ddkrun preloads, sends the calls of a program to it.
//
//	s := devices.New(u, core.MaxClients(), clk)        // u is a FrontEnd
//	go s.Serve(l)                                      // l is a SOCK_SEQPACKET listener
//	…
//	l.Close()
//	s.Close()
//
// # Roles
//
// A FrontEnd supplies the tree of files in /sys and /dev that programs look for, and opens device files. A File
// executes calls. Neither contains anything about carriers: a call is a Request with bytes, and its Reply consists of
// an errno, bytes to store at addresses of the program, and descriptors. The carrier stores the bytes, installs the
// descriptors and stores their numbers.
//
// # Connections
//
// The program's descriptor of an open device file is a socket that is connected to the daemon. So the file is open as
// long as the kernel considers the descriptor open, whatever the program does with it: dup, fork, exec, close_range or
// exit. Package kproxy closes everything that the client has when the socket is closed by all processes that have it,
// or when the process that opened it ends.
//
// A process only sends on that socket. Each message with a reply carries the socket for the reply. Therefore threads,
// and processes that have the descriptor since a fork, need no lock, and none receives the reply of another.
//
// # Messages
//
// Integers are in the machine's byte order. A request is
//
//	offset  type  field
//	0       u32   operation: open, write, ioctl, bell, tree, read or
//	              content, in this order from 1 on
//	4       u32   number of descriptors that follow the reply socket: 0 or 1; open: a pidfd of the program's process,
//	              if that is not the process that connected; write: see flag 1, or the memory that the call is
//	              about, which the program has mapped
//	8       u64   open: inode of the socket; ioctl: request number, and in the upper half the number that the
//	              following descriptor has in the program; tree: offset; write: that number; read: size
//	16      u64   tree: version of the protocol; ioctl: argument; read: address; write: offset of the memory in the
//	              file that follows, or, without a file, the carrier's number of the memory that the call is about, by
//	              which it copies it
//	24      …     open and content: path; write: bytes; ioctl: memory of the program, as often as necessary:
//	              u64 address, u64 size, the bytes
//
// A reply is
//
//	0       u32   errno, 0 for success
//	4       u32   flags: 1 the program's descriptor is needed, 2 a bell is set, 4 a bell is removed, 8 the first
//	              descriptor is memory to map, 16 the call would block, 32 the descriptor is no longer readable,
//	              64 the program's descriptor that came with the call is no longer readable, 128 memory of the
//	              program is needed, 256 the first descriptor is a socket by which the carrier copies memory
//	8       s64   result of the call; tree: size of the whole tree
//	16      u32   with flag 1: number of the descriptor in the program; the carrier repeats the call with it
//	20      u32   with flags 2 and 4: handle of a QP
//	24      u32   with flag 2: index of its bell
//	28      u32   number of descriptors
//	32      u32   number of stores
//	36      u32   with flag 128: number of ranges
//	40      …     a u64 for each descriptor: address at which its number is stored, or 0
//	…       …     for each store: u64 address, u64 size, the bytes, zeros up to a multiple of 8
//	…       …     for each range: u64 address, u64 size; the carrier repeats the call with exactly these
//
// The reply to open has one store with address 0: u32 major and minor number of the device, u32 process id of the
// daemon, u32 version of the protocol. The reply to tree has one with a part of the tree. The reply to content has one
// with the bytes of a file of the tree as it is now, so that carriers read ports' states, tables and counters when the
// program does; errnos: ENOENT, EISDIR (files are below the path), EFBIG.
//
// The parts of a tree that a connection reads, from offset 0 on, are parts of one snapshot.
//
// # Datagrams
//
// After the open of a Dialog, such as a netlink socket, messages are datagrams of the program and of the reply, without
// headers.
//
// # Bells
//
// A bell is a place in memory that is shared with the adapter, by which a program starts a send queue without a system
// call. Its layout is the adapter's. A bell message wakes an adapter that sleeps; it has no reply.
//
// # Polling
//
// The daemon makes the program's descriptor readable by a message of one byte on the socket. With flags 32 and 64 the
// carrier receives and discards one message. With flag 16 and the errno EAGAIN, if the descriptor blocks, the carrier
// waits until it is readable, and repeats the call.
//
// # Copies
//
// Where the system does not let the daemon copy memory of the program, the carrier copies, on a thread of the program
// or in ddkrun. The daemon then replies to the first call that registers such memory with flag 256, and a socket for
// messages of package internal/kproxy/schema: Copy and CopyReply. The carrier serves the socket until the daemon closes
// it, and repeats the call with its number of the memory. It copies memory that the program has registered, and no
// other, whatever the daemon requests. A carrier that cannot serve the socket closes it; the call then fails with the
// errno of the reply.
//
// # Bad input
//
// A message that is not of the protocol ends the connection. Everything else is answered with the errno that Linux
// returns. Messages have at most schema.MaxMessage bytes.
package devices
