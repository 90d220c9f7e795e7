// Package frame is a RoCE port over Ethernet frames: RoCEv1 and RoCEv2 (IBTA volume 1, annexes A16 and A17). A carrier
// moves the frames: a hub in this process, a socket that a QEMU uses as a network back end, or a TAP device.
//
//	hub := frame.NewHub()
//	port, err := frame.New(frame.Config{Carrier: hub.Join(), MAC: mac, GIDs: gids, Resolve: true})
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//
// # Carriers
//
//	Hub.Join   a member of a hub, which forwards frames as a learning switch does
//	Dgram      one datagram for each frame: -netdev dgram of QEMU
//	Stream     frames on a connection, each after its length: -netdev stream of QEMU
//	OpenTAP    a TAP device of Linux; it needs root
//
// Hub.Connect makes another carrier a member of a hub, so that virtual machines and ports share a network.
//
// The interface of a TAP device loses its carrier when the link of its port goes down. On a hub, it has one while the
// link of any other member is up; those of sockets always are.
//
// # Addresses
//
// An address vector with a destination MAC (ci.AVAttr.DMAC) is used as it is. Without one, the port derives the MAC of
// multicast groups and of link-local GIDs with an EUI-64. For other addresses it needs Config.Resolve: it then resolves
// them by ARP (RFC 826) and neighbor discovery (RFC 4861), answers requests for its own GIDs, and holds a few packets
// back meanwhile. A model of an adapter does not set Resolve, because the guest's own network stack does that.
//
// # Other frames
//
// The function of OnFrame takes the frames that are not RoCE packets for the port, and SendFrame sends such frames. A
// model's Ethernet interface uses them.
//
// # Limits
//
// Frames with a VLAN tag are raw frames. Groups are not announced by IGMP or MLD, since hubs forward all multicast
// frames.
//
// Methods may be called concurrently. Errors of arguments are returned by New; a carrier that fails later takes the
// port down.
package frame
