// Package ibsim connects management programs with a fabric: subnet managers and diagnostic programs that run with
// umad2sim's preload library, which redirects the system's management devices to a simulator. The package speaks the
// protocol of that simulator, ibsim, over local datagram sockets, so that OpenSM and infiniband-diags manage a
// fabric.Fabric without being changed.
//
//	s, err := ibsim.Listen(f, ibsim.Config{})
//	…
//	defer s.Close()
//
// Then, in a shell:
//
//	LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so SIM_HOST=H1 opensm
//
// Each program is a client of its own at one port of the fabric, which SIM_HOST names by the node's ID, its description
// or its GUID, with the port in brackets if it is not the first one: H1[2]. Programs with the same IBSIM_SOCKNAME as
// Config.Name find the server.
//
// # Routing of datagrams
//
// The server marks requests of a client with its number, in the upper 16 bits of the transaction ID, and passes
// responses with the mark to it. Requests that arrive at a port go to its clients: those of subnet management and
// subnet administration to a subnet manager, and those of vendor classes to a client that did not send them. Others,
// such as those of connection management, go to the adapter at the port, if the fabric has one there.
//
// A request that is discarded, or that has no response after Config.Timeout, returns to its client with an error, from
// which the client's own retries follow.
//
// # Trust
//
// The server accepts messages of processes of its own user, and of root; the kernel states the user of each message.
// Unlike ibsim, it ignores others of the system's network namespace, which can send to its sockets, too. They can also
// take a name before a server does. The server believes no length and no number of a message, holds a bounded number of
// messages for each client, and disconnects clients whose process has ended.
package ibsim
