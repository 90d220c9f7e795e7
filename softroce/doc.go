// Package softroce opens a software RoCEv2 adapter on an IP address of this machine, with a connection manager that is
// ready for use:
//
//	m, err := softroce.Open(netip.MustParseAddr("10.0.0.1"), softroce.Config{})
//	if err != nil { … }
//	defer m.Close() // connections, services, adapter and socket
//
//	c, err := m.Dial(ctx, netip.MustParseAddrPort("10.0.0.2:7174"))
//	ln, err := m.Listen(netip.MustParseAddrPort("10.0.0.1:7174"), rdmacm.ListenConfig{})
//
// The adapter is package hca/reference on a UDP socket: it needs no kernel module, no hardware and no privilege. Its
// peers are other programs of this kit, Linux Soft-RoCE, and RoCEv2 hardware. Programs with another driver use
// rdmacm.OpenHCA in the same way.
//
// Config contains the configurations of these packages. Its zero value is ready for use.
package softroce
