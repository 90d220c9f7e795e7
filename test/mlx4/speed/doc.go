// Package speed measures the ConnectX-3 model in one guest with the stock driver, in turns with Soft-RoCE and with bare
// doorbells in the same guest.
//
//   - Bandwidth: ib_write_bw, from a card of the guest to itself. Beside it rxe, between the ends of a pair of virtual
//     Ethernet interfaces: see package test/linux/speed.
//   - Latency: ib_send_lat, from a card to itself. Beside it the round trip of a doorbell over vfio-user: a program of
//     the guest writes a register of the device of package bustest, which copies a dword within the guest's memory, and
//     the program polls that dword.
//
// The guest runs under QEMU's TCG. The figures are useful only as ratios within one guest.
//
//	go run ./test/mlx4/speed/table                             # the tables
//	go run ./test/mlx4/speed/table -write docs/performance.md  # into that page
package speed
