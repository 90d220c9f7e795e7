// Package kernelcm connects programs by IP address over the RDMA devices of this machine, through the connection
// manager of the kernel. It needs no cgo:
//
//	m, err := kernelcm.Open(kernelcm.Config{Device: "mlx5_0"})
//	defer m.Close()
//	c, err := m.Dial(ctx, netip.MustParseAddrPort("192.0.2.2:7174"))
//
// The result is the same *rdmacm.Manager as that of package softroce for the software adapter, with connections,
// streams, datagrams and queue pairs; the queue pairs are those of package hca/verbs. Peers are all programs that
// connect by IP address, such as those of librdmacm.
//
// # What is below
//
// A Service speaks the kernel's user ABI (rdma/rdma_user_cm.h) on /dev/infiniband/rdma_cm. It implements the interfaces
// of the access layer: cm.Service, cmid.Ports and resolve.Resolver. Programs with an access layer of their own pass
// these to cmid.New. Routes, port numbers, time-wait and the answers to repeated messages are the kernel's.
//
// # What the kernel does not offer
//
// A rejection has reason 28, consumer. UC exists in no port space that has ports. There are no alternate paths, no
// services without a port, no peer-to-peer requests, and no multicast groups. These return ci.Unsupported. Requests for
// more time (MRA) are sent by the kernel alone.
//
// # Where it runs
//
// On Linux, on amd64 and arm64, as package hca/verbs, which links the program dynamically. Elsewhere Open and New
// return errors.ErrUnsupported.
package kernelcm
