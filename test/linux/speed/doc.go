// Package speed compares the speed of the reference HCA with Linux' rdma_rxe (Soft-RoCE) in one guest: bandwidth and
// latency of SEND, WRITE and READ, in turns. Each measurement runs between the two ends of a pair of virtual Ethernet
// interfaces (veth), whose packets cross the pair.
//
//   - rxe uses the first network namespace of the guest, the only one that it supports in Linux 6.1, with a device on
//     each end of the pair. Routing rules send packets between the ends over the pair; without them, the kernel would
//     use lo. The programs are those of Debian's package perftest.
//   - The reference HCA runs in two processes of bench/cmd/pair, each in its own namespace (the sockets of rxe occupy
//     UDP port 4791 in the first one), with a pair of the same kind between them. The same processes also measure UDP
//     and TCP sockets, in turns.
//
// The guest runs under QEMU's TCG, where system calls, interrupts and CRCs have other costs than on hardware. The
// figures are useful only as ratios within one guest.
//
//	go run ./test/linux/speed/table                             # the table
//	go run ./test/linux/speed/table -write docs/performance.md  # into that page
package speed
