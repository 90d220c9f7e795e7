// Package join lets adapters of other processes join a fabric. A Server serves the ports of a fabric.Fabric over stream
// sockets; Dial returns the link side of one of them as an rvt.Port.
//
// In the process of the fabric:
//
//	l, err := net.Listen("unix", "/run/user/1000/fabric.sock")
//	…
//	s := join.Serve(f, l, join.Config{})
//	defer s.Close()
//
// In another process:
//
//	p, err := join.Dial(ctx, "/run/user/1000/fabric.sock", "h1", 0)
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{p}})
//
// A port has one adapter at a time, of whichever process. When the connection ends, as with the process, the cable of
// the port is out: the fabric's end and its neighbor are down, and a subnet manager gets the trap. The next process
// that joins at the port plugs the cable in again. The joined port is down for good once the connection has ended; a
// program that goes on makes a new adapter.
//
// # Protocol
//
// Each message is a length of four bytes (big endian, without itself), a type of one byte, and contents. Packets travel
// as on a link, from LRH to VCRC, one in a message. The first message of the client names the port (JSON); the response
// has the attributes of the port. Later ones carry changes of the attributes with the event, and subnet management
// datagrams that the adapter's owner executes locally (CA.LocalMAD), with their responses.
//
// # Trust
//
// Whoever can open the socket can join as any adapter of the fabric, as with cables in a rack; the permissions of the
// socket are the protection. The server believes no length, checks both CRCs, sets the source LID of packets itself,
// and holds a bounded number of bytes for each connection. A peer that does not read loses packets, and no one waits
// for it.
package join
