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
// The guest's driver is not trusted: it reaches registers only, and memory that the map has. The process at the other
// end of the socket (QEMU) is trusted to keep the size of the files that it shares. Its messages are checked
// nevertheless.
//
// Sources: the vfio-user specification (libvfio-user, QEMU docs/interop/vfio-user.rst); Linux,
// include/uapi/linux/vfio.h.
package vfiouser
