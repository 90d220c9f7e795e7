// Package mlx4 tests models of PCI functions, and the model of ConnectX-3 above all, in virtual machines: QEMU reaches
// the model over vfio-user, and the guest's stock Debian kernel drives it. It contains only tests.
package mlx4
