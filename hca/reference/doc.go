// Package reference is the kit's own HCA: software that executes the InfiniBand transport in full. It puts together the
// transport engine of package rvt, queues in the layout of Linux's software RoCE (package rings), agents for management
// datagrams, and any ports:
//
//   - link/udp: RoCEv2 over a UDP socket. No kernel module, no root; one process per (IP address, UDP port).
//   - link/sim: RoCEv2 on a network in memory, in real or virtual time. In virtual time, runs replay by seed.
//   - link/direct: an InfiniBand link within the process, for tests and for the speed of memory.
//   - link/impair and link/capture, in front of any port: impair drops, reorders and corrupts packets; capture
//     shows them.
//   - a port of your own: anything that implements rvt.Port.
//
// New takes the ports over:
//
//	port, err := udp.New(udp.Config{Addr: netip.MustParseAddr("127.0.0.1")})
//	if err != nil {
//		return err
//	}
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//	if err != nil {
//		return err // New has closed the port
//	}
//	defer hca.Close()
//
// # Claims
//
// The HCA claims what the engine has: RC, UC and UD, special QPs, SRQs, windows, every kind of region, multicast, path
// migration. It does not claim reliable datagrams, raw QPs, large send offload and checksum offload. It executes
// datagrams of performance management for all ports, and of subnet management for ports with an agent (rvt.SMAPort,
// CapLocalMAD). With Ethernet ports only, there is no subnet management left to execute (CapHardwareSMA).
//
// # Counters
//
// HCA.Counters returns the engine's counters (rvt.Counter documents them; every packet that is not acted on is counted
// under exactly one drop_…) and those of the ports, which the packages of the ports document.
//
// # Source ports
//
// RoCEv2 leaves the UDP source port to the sender, so a packet is accepted whatever its source port is. For each
// connected QP the HCA counts changes of the port (HCA.QPCounters). It reports them, packets from another address and
// bursts of wrong PSNs to Config.OnSuspicion. udp.Config.StrictSource drops packets from another port than the peer's.
// udp.Config.SourcePorts sends from several.
//
// # Time and randomness
//
// They come from Config.Clock and Config.Rand alone, so that a run over direct links or a simulated network replays. A
// UDP port's packets come when the system delivers them.
package reference
