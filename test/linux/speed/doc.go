// Package speed holds the reference HCA against Linux' rdma_rxe (Soft-RoCE) for speed, in one guest: bandwidth and latency of SEND, WRITE and
// READ, in turns, each between the two ends of a pair of virtual Ethernet interfaces (veth) whose packets really cross it.
//
//   - rxe lives in the guest's first network namespace, the only one it knows in Linux 6.1, with a device on each end of the pair. Routing rules
//     send what goes from one end's address to the other's over the pair; without them the kernel would keep it on lo. The programs are those
//     of Debian's package perftest.
//   - Ours are two processes of bench/cmd/pair, each in a namespace of its own (rxe's sockets have UDP port 4791 in the first one), joined by a
//     pair of the same kind. UDP and TCP sockets are measured in the same two processes, in turns.
//
// The guest runs under QEMU's TCG, where system calls, interrupts and CRCs have other prices than on hardware: figures are good for ratios
// inside one guest.
//
//	go run ./test/linux/speed/table                             # the table; with -write docs/performance.md, into that page
package speed
