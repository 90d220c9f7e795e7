// Package guest boots a stock Debian kernel with rdma_rxe (Soft-RoCE) under QEMU, so that tests hold the kit against an
// implementation of RoCEv2 that is not ours.
//
// A Network is a network namespace without a name: a bridge with the host's address, and a tap for each guest. Programs of the host
// side run in it with Network.Start, commands of a guest with Guest.Start; Capture records what crosses a guest's tap. The guest is
// built from the Debian packages installed on this machine (Packages) and started with QEMU's TCG, so no KVM is needed.
//
// Everything hangs on file descriptors and threads of the calling process: when it ends for whatever reason, kill included, QEMU, the
// commands, the taps and the namespace end too. Nothing has a name that could be left behind.
//
// Needs Linux on amd64, root and /dev/net/tun; Available tells what is missing.
package guest
