// Package vfiouser speaks vfio-user, the protocol by which a PCI function in one process serves a driver in another one
// over a Unix socket. QEMU's device vfio-user-pci is such a driver's side, so a model that Serve serves is a device of
// a virtual machine.
//
//	l, err := vfiouser.Listen("/run/model0")
//	err = vfiouser.Serve(ctx, l, model, vfiouser.Config{})
//
// and, in a driver's process:
//
//	f, err := vfiouser.Dial(ctx, "/run/model0")
//
// Dial returns a bus.Function over the same socket, so that a driver in user space runs on a model in another process.
//
// # Protocol
//
// A message has a header of 16 bytes in little-endian order: identifier, command, size, flags, errno; file
// descriptors travel with the header. The other side's memory is mapped from descriptors (DMA_MAP). Memory without a
// descriptor is reached by messages (DMA_READ, DMA_WRITE) on a second socket, if the client offers it (capability
// twin_socket); otherwise it is known and cannot be reached. QEMU does not offer it. Atomic operations on memory
// that is reached by messages are atomic to those of the device only. Accesses to BARs that are posted have no
// reply. The server implements protocol version 0.0 with the commands of function Serve; others are answered with
// ENOTSUP.
//
// # Trust
//
// The guest's driver is not trusted: it reaches registers only, and memory that the map has. Nor is the process at the
// other end of the socket (QEMU), which can end its own connection only:
//
//   - Memory is mapped from memfds and files of tmpfs, hugetlbfs and local disks; other files, whose system calls could
//     wait for a process (FUSE), are rejected. A memfd with F_SEAL_SHRINK, as QEMU's memory-backend-memfd makes it, is
//
// accessed in place. Other files can be truncated, or lack room for a page: they are accessed by guarded copies, and
//
//	  the connection ends at an access to a page that is missing.
//	- Interrupts are eventfds. One that blocks holds up its own device, until the connection or the server ends.
//	- An access by messages has 10 seconds in all. A client with a twin socket transfers at least 4096 bytes at once.
//	- All clients of a process map at most 16384 ranges and 16 TiB, or a quarter of what RLIMIT_AS leaves.
//
// Sources: the vfio-user specification (libvfio-user, QEMU docs/interop/vfio-user.rst); Linux,
// include/uapi/linux/vfio.h.
package vfiouser
