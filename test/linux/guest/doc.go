// Package guest boots a stock Debian kernel with rdma_rxe (Soft-RoCE) under QEMU, so that tests can compare the kit
// with an independent implementation of RoCEv2.
//
// A Network is a network namespace without a name. It has a bridge with the host's address, and a tap for each guest.
// Network.Start runs programs of the host in it, Guest.Start runs commands of a guest, and Capture records the frames
// on a guest's tap. The guest is built from Debian packages that are installed on this machine (see Programs), and runs
// under QEMU's TCG, so it does not need KVM.
//
//	n, err := guest.NewNetwork(ctx, guest.NetworkConfig{})
//	…
//	g, err := n.Boot(ctx, guest.Config{})
//	…
//	r, err := g.Run(ctx, "ibv_devinfo")
//
// All resources depend on file descriptors and threads of the calling process. When it ends for any reason, QEMU, the
// commands, the taps and the namespace end, too. Methods may be called concurrently.
//
// Guests need Linux on amd64, root and /dev/net/tun. Available reports missing dependencies.
package guest
