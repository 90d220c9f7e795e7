// Package udpend is the certifier's end of a link of RoCEv2, from plain UDP sockets: with it, the cases of the wire
// judge an adapter on a network.
//
//	t.Wire = func() (validate.Wire, error) {
//		return udpend.Open(udpend.Config{Addr: addr, Other: other})
//	}
//
// It needs neither a device nor rights. UDP port 4791 of the addresses must be free: where the kernel has a Soft-RoCE
// device, it is in another network namespace (InNetwork).
package udpend
