// Package bus is how a driver reaches a PCI function, and how a model of a device reaches its host.
//
// A driver uses a Function: configuration space, BARs, DMA memory, interrupts and reset. It registers at a Bus with the
// vendor and device IDs that it drives. The bus calls its Probe for each matching function, and Remove before the
// function goes, or after it has gone (hot unplug; SAS-2.2-04, -05, -07).
//
// A model is a Device. It serves accesses of the driver, and reaches memory and interrupts through a Host.
//
// # Back ends
//
//	bus/local      driver and model in one process
//	bus/vfiouser   driver and model in two processes (vfio-user): QEMU is such a driver's side
//	bus/vfio       a device of the machine (Linux VFIO)
//
// # Byte order
//
// PCI is little endian. The methods of Space return and take numbers as the processor reads them from such a register;
// a driver for a device with big-endian registers swaps bytes.
//
// # Functions that go
//
// A function can go at any time. Reads then return all ones, as on a PCI bus, writes and interrupts are lost, and
// Function.Gone is closed. DMA memory stays allocated until it is closed.
package bus
