// Package fabric is an InfiniBand subnet in software: switches, adapters and the links between them, in one process. A
// subnet manager configures it as it would a real one; package fabric/ibsim connects OpenSM and the diagnostic programs
// of infiniband-diags with it.
//
//	t, err := topology.ReadFile("cluster.net")
//	…
//	f, err := fabric.New(t, fabric.Config{})
//	…
//	port, err := f.CAPort("h1", 0)
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//
// # Nodes
//
// Each node has an agent for subnet management (package sma). All attributes that a manager reads and writes exist, and
// those that concern packets take effect: states, LIDs and LMC, linear and multicast forwarding tables, SLtoVL,
// operational lanes, MTU, and the enforcement of partitions at switches. Lanes may have smaller MTUs of their own
// (Config.LaneMTUs), which adapters report by service level. Links have a width and a speed. Cables are cut
// and restored with Port.SetLink; nodes whose link state changes send traps.
//
// A node without an adapter is cheap: it has no goroutine, and no timer while it is idle. Fabric.CAPort returns the
// link side of a port for an adapter (hca/reference). Management programs attach to ports as clients.
//
// Without a subnet manager, Fabric.Configure brings all links up with shortest paths.
//
// # Packets
//
// Packets between adapters travel as metadata and payload, as on link/direct, and trains stay whole: a packet is
// delivered within the Send that sent it, after each switch of its way has looked at it. CAPort.EncodeFrame returns the
// bytes of a packet for captures. With Config.Timing, packets take the time of the links and switches that they pass,
// in order for each destination. They wait in the port of their adapter while its link is busy, by lane, and the lanes
// take turns. A QP that is reset or destroyed has its waiting packets removed. Queues have no limit, and there is no
// flow control by credits and no arbitration by weights: VLArbitration is stored and has no effect.
//
// A packet is dropped where a real subnet drops it, and counted at that port and by reason (Fabric.AddCounters). One
// that passes more than 64 switches is in a routing loop, and is dropped, too.
//
// # Concurrency
//
// All methods may be called concurrently. Packets take no lock of the fabric.
//
// # Sources
//
// IBTA volume 1: chapter 7 (link layer), 14 (subnet management), 18 (switches).
package fabric
