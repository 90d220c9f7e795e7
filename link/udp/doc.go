// Package udp is a RoCEv2 port over UDP sockets of this process. It needs no kernel module and no root. There can be
// one port per (IP address, UDP port) of a machine.
//
//	port, err := udp.New(udp.Config{Addr: netip.MustParseAddr("127.0.0.1")})
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//
// On Linux it sends and receives many datagrams with each system call, and whole trains with segmentation offload.
// Elsewhere, and with Config.Portable, it uses package net, one datagram per call.
//
// # Addresses
//
// A port has the address Config.Addr and those of Config.Addrs, or all addresses of a network interface
// (Config.Interface). Each is an entry of the port's GID table. The port receives at all of them. A connection or
// address vector sends from the one that GRH.SGIDIndex selects. Each address has sockets and a goroutine of its own,
// which sleeps while nothing arrives.
//
// With Config.Interface, addresses may come and go; on Linux the port learns of that from the kernel (rtnetlink), on
// other systems it looks every second. The index of an entry does not change. The entry of an address that is removed
// becomes empty; it is used for the same address if that comes back, and for others only when 128 entries have been
// used. A connection from an address that was removed ends with WCTimeoutRetryErr.
//
// # What an unprivileged socket can check
//
// Over IPv6, everything. Over IPv4 the ICRC covers the header's identification, which a plain UDP socket does not show.
// The port computes it from the ICRC, and compares it with what its sender sent before (link/internal/rocev2/ipid.go
// has the rules): of packets damaged at random, 64 in 2^32 pass if they seem to come from this kit, 160 in 2^32 if from
// Linux's RoCE, and 1 in 2^32 more for each millisecond since that sender's last packet. With the header visible it
// would be 1 in 2^32. For the first packet of an address, for the first after a minute's silence, and for senders that
// draw identifications at random, it is 1 in 2^16; udp_ipv4_id_unchecked counts those. UDP's own checksum, where the
// sender sets it (this port does, rxe and most adapters do not), comes on top.
//
// Config.Privileged closes the gap, on Linux, with the capability CAP_NET_RAW: such a port receives the header and
// checks all 32 bits.
//
// # Counters
//
// A port adds these counters to HCA.Counters:
//
//	udp_ipv4_id_solved     packets whose IPv4 identification was computed from the ICRC and matches what the sender
//	                       sent before; those that do not match are counted as drop_ipv4_id
//	udp_ipv4_id_unchecked  of these, packets that could not be compared with earlier ones: 16 of the ICRC's 32 bits
//	                       checked them
//	udp_kernel_drops       datagrams that the system dropped because the socket's buffer was full or their UDP
//	                       checksum was wrong (Linux); trains count one
//	udp_merged             packets that came joined to the one before them
//	udp_send_waits         waits for room in a socket's send buffer
//	udp_system_calls       system calls that moved packets
//	udp_address_errors     reads of the addresses of Config.Interface that failed, or found an unusable address; the
//	                       port retries after a second
package udp
