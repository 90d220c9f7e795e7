// Package vfio drives PCI functions of this machine from user space, by Linux VFIO with a type 1 IOMMU.
//
//	f, err := vfio.Open("0000:03:00.0")
//	instance, err := theBus.Add(ctx, f)
//
// # Preparation
//
// The machine needs an IOMMU that is enabled (intel_iommu=on or amd_iommu=on on the kernel's command line, where it is
// not the default). The function has to be bound to the kernel's driver vfio-pci, as have all others of its IOMMU
// group:
//
//	modprobe vfio-pci
//	echo vfio-pci > /sys/bus/pci/devices/0000:03:00.0/driver_override
//	echo 0000:03:00.0 > /sys/bus/pci/devices/0000:03:00.0/driver/unbind
//	echo 0000:03:00.0 > /sys/bus/pci/drivers_probe
//
// A user other than root needs rights on /dev/vfio/N, where N is the group that the link iommu_group of the function
// names, and a limit on locked memory (ulimit -l) that covers the DMA memory. docs/vfio.md has the steps with their
// checks.
//
// # Behavior
//
// The driver enables memory and bus mastering in the command register (bus.ConfigCommand), as on any PCI bus; a BAR
// cannot be reached before. Registers of BARs that the kernel allows to map are accessed in place, with one
// instruction for each access of 4 or 8 bytes; others by system calls.
//
// When the kernel wants the function back (its driver is unbound, or it is removed), Function.Gone is closed and
// accesses have no effect from then on. The kernel waits until Close.
//
// # Limits
//
// Interrupts are MSI-X. A function whose power fails while a mapped register is read can raise SIGBUS before the kernel
// has announced the removal, as with any program that uses VFIO.
//
// Sources: Linux, include/uapi/linux/vfio.h and Documentation/driver-api/vfio.rst.
package vfio
