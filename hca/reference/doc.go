// Package reference is the kit's own HCA: software that speaks the InfiniBand transport in full. It is made of the transport engine of
// package rvt, queues in the layout of Linux's software RoCE (package rings), and ports:
//
//   - UDP: RoCEv2 from an ordinary UDP socket. No kernel module, no root; one process per (IP address, UDP port).
//   - Virtual: RoCEv2 on a Network in memory, bit for bit, in virtual time if wanted: a simulation that replays by a seed.
//   - Direct: an InfiniBand link within the process, for tests and for the speed of memory.
//   - Impair: any of them made worse, by a seed. (A Network has its own ways to do harm, which reach the last bit of a packet.)
//   - Capture: any of them watched; package capture writes what it shows to files for Wireshark.
//
// New puts one together:
//
//	hca, err := reference.New(reference.Config{Ports: []reference.PortConfig{
//		reference.UDP(reference.UDPConfig{Addr: netip.MustParseAddr("127.0.0.1")}),
//	}})
//
// # Claims
//
// The HCA claims what the engine has: RC, UC and UD, special QPs, SRQs, windows, every kind of region, multicast, path migration. It does
// not claim reliable datagrams, raw QPs, large send offload and checksum offload. It executes datagrams of performance management for all
// ports, and of subnet management for InfiniBand ports (CapLocalMAD); with Ethernet ports only, there is no subnet management
// left to execute (CapHardwareSMA).
//
// # Counters
//
// HCA.Counters gives the engine's counters (rvt.Counter documents them; every packet that is not acted on is under exactly one drop_…),
// and the ports' own:
//
//	udp_ipv4_id_solved     packets whose IPv4 identification, which the ICRC covers and a socket does not show, was computed from
//	                       the ICRC, and fits what the sender did before; what does not fit is under drop_ipv4_id
//	udp_ipv4_id_unchecked  of these, packets for which nothing was known to hold against: 16 of the ICRC's 32 bits checked them
//	udp_kernel_drops       datagrams that the system dropped before this port could receive them, for want of room in the socket's buffer
//	                       or for their UDP checksum (Linux); trains count one
//	udp_merged             packets that came joined to the one before them
//	udp_send_waits         waits for room in a socket's send buffer
//	udp_system_calls       system calls that moved packets
//	impair_passed          packets that an Impair port let through unharmed
//	impair_dropped         packets that it dropped
//	impair_duplicated      packets that it sent twice
//	impair_reordered       packets that it held back behind later ones
//	impair_delayed         packets that it held for a time
//	impair_corrupted       packets in which it flipped a bit: those that the ICRC catches are counted as drop_icrc, too
//
// # Source ports
//
// RoCEv2 leaves the UDP source port to the sender, so a packet is accepted whatever its source port is. For each connected QP the
// HCA counts changes of the port (HCA.QPCounters), and reports them, packets from another address and bursts of wrong PSNs to
// Config.OnSuspicion. UDPConfig.StrictSource drops packets from another port than the peer's. UDPConfig.SourcePorts sends from several.
//
// # What an unprivileged socket can check
//
// Over IPv6, everything. Over IPv4 the ICRC covers the header's identification, which a plain UDP socket does not show. It is solved for,
// and then held against what its sender did before (udp_habit.go has the rules): of packets damaged at random, 64 in 2^32 pass if they
// seem to come from this kit, 160 in 2^32 if from Linux's RoCE, and 1 in 2^32 more for each millisecond since that sender's last. With
// the header in sight it would be 1 in 2^32. For the first packet of an address, for the first after a minute's silence, and for senders
// that draw identifications by chance, it is 1 in 2^16; udp_ipv4_id_unchecked counts those. UDP's own checksum, where the sender sets
// it (this port does, rxe and most adapters do not), comes on top.
//
// UDPConfig.Privileged closes the gap, on Linux, with the capability CAP_NET_RAW: such a port sees the header and checks all 32 bits.
//
// # Ends without an HCA
//
// Between HCAs of one process a direct link hands packets over without bytes. DirectLink.End puts a LinkEnd on it, which speaks whole
// InfiniBand packets, LRH to VCRC: what the HCAs send there is encoded, and what comes from there is checked and decoded, as a cable would
// have it. Network.End is the same for IP packets. The certifier plays a peer there (ddk-validate run --profile wire --link direct).
//
// # Where time and chance come from
//
// From Config.Clock and Config.Rand alone, so that a run over direct links replays. A UDP port's packets come when the system hands
// them over.
//
// # Simulation
//
// A Network carries IP packets between the ports that Virtual makes: as they would be on a wire, ICRC and IP header included, in IPv4
// and IPv6. It has a latency; it loses, duplicates, reorders, delays and damages packets by a seed or as a function says; and it shows
// each packet with its fate. Give it and the HCAs a clock of package clock that stands still until it is moved (clock.NewVirtual), and
// all Config.Rand, and everything happens on the goroutine that moves the clock, in the same order each time. Example_simulation shows
// how.
package reference
