// Package sim simulates an IP network in memory, with RoCEv2 ports on it.
//
// A Network carries IP packets between the ports that New makes, as they would be on a wire: ICRC and IP header
// included, IPv4 and IPv6. No socket is involved. The network has a latency. It drops, duplicates, reorders, delays and
// corrupts packets, by a seed (package impair) or as a function decides, and shows each packet with its verdict to
// another function.
//
//	n := sim.NewNetwork(sim.NetworkConfig{Impairment: impair.Model{Drop: 0.01}, Seed: 1})
//	port, err := sim.New(n, sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//
// # Runs that replay
//
// Give the network and the HCAs one clock of package clock that stands still until it is moved (clock.NewVirtual), and
// all HCAs a seeded Config.Rand. Everything happens then on the goroutine that moves the clock, in the same order in
// each run.
//
// # Ends without an HCA
//
// Network.End returns an address at which no HCA sits. Its owner sends and receives whole IP packets. Package
// cmd/ddk-validate certifies what a driver puts on the wire this way.
package sim
