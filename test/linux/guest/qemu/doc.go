// Package qemu provides a QEMU with the device vfio-user-pci (QEMU 10.1 or later) for the tests' guests.
//
// Find returns the QEMU of the machine if it has the device. Otherwise it installs one from Debian's packages into a
// folder of the user's cache directory; nothing else of the machine changes. The packages come from the mirror of the
// machine's own apt sources, and apt checks the signatures with Debian's archive keys. Debian's suite is sid, since its
// stable releases have older QEMUs. The folder has the version of the package.
//
// The programs run with the libraries of the folder, by its dynamic loader.
package qemu
