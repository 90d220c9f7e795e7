// Package rdmatest supports tests of programs that use RDMA. It provides hosts on a network in memory, each with an
// opened connection manager, in a bubble of package testing/synctest:
//
//	func TestProgram(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			n := rdmatest.New(t, rdmatest.Config{Seed: 1}, "server", "client")
//			server, client := n.Host("server"), n.Host("client")
//			ln, err := server.Listen(server.AddrPort(7174), rdmacm.ListenConfig{})
//			…
//			c, err := client.Dial(t.Context(), server.AddrPort(7174))
//			…
//			n.Partition("server", "client") // and Heal
//			n.Kill("server")                // and Restart
//			n.BreakQP(c)
//		})
//	}
//
// The hosts run the whole stack: the adapter of package hca/reference, the access layer, and the services of package
// rdmacm. Their packets are RoCEv2, bit for bit. Config.Faults makes the network drop, duplicate, reorder, delay and
// corrupt them. At the end of the test the hosts are closed. A test that fails logs the seed and the last packets.
//
// # Time
//
// Time is that of the bubble. It advances when all goroutines of the bubble wait, so a timeout of a minute takes no
// time, and a slow machine causes none. Programs under test use package time and contexts as usual. A goroutine that
// waits for something outside of the bubble, such as a socket, stops the time; one that polls in a loop without
// sleeping does, too.
//
// # Runs that replay
//
// Two runs of a program with the same Config have the same packets at the same times, and therefore the same TraceHash,
// as long as the program itself does not depend on the order in which Go runs goroutines that are ready at the same
// instant. New takes care of the rest:
//
//   - One clock, the bubble's, for the network, the adapters and the services (sim.NetworkConfig.Clock,
//     reference.Config.Clock, accesslayer.Config.Clock).
//   - The seed of the network's faults (sim.NetworkConfig.Seed).
//   - A seeded source for each adapter: keys and QP numbers (reference.Config.Rand).
//   - A seeded source for each manager: PSNs, ports, transaction and communication IDs (rdmacm.OpenConfig.Rand).
//   - A seeded source for the addresses of memory that peers access (rdmacm.OpenConfig.MemoryAddr). Programs that use
//     verbs set ci.MRCreate.IOVA, or their packets have the addresses of Go's heap.
//   - Addresses that are resolved without the routing table of the machine (rdmacm.OpenConfig.Resolver), and an access
//     layer that does not poll the adapter (accesslayer.Config.PollInterval).
//   - An order for packets that are sent at the same instant. Each host is up to 1 us further away from the network,
//     each by another time, so packets of two hosts do not arrive together. Packets of one host leave in the order of
//     their destinations.
//
// When two hashes differ, Difference returns the first packet that does.
//
// The limits, each measured with 20 runs of ten messages for each client on 2 processors, with and without the race
// detector:
//
//   - Clients on hosts of their own replay: all runs were identical, with eight clients that begin at one instant, on a
//     good network and on a bad one.
//   - Several clients on one host replay if they begin at different times, even 1 ns apart: all runs were identical
//     with eight clients on a good network, and with two on a bad one. With eight on a bad network, 3 to 16 of the 20
//     runs were identical, because retransmissions of several connections can fall on the same instant.
//   - Several clients that begin on one host at the same instant do not replay, because the scheduler decides which of
//     them gets the first QP number. With GOMAXPROCS=1, 15 to 20 of the 20 runs were identical, with more processors at
//     most 4.
package rdmatest
