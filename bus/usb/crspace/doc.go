// Package crspace reads and writes the registers of a Mellanox adapter (its CR-space) over an I2C bus. It works while
// the adapter has no PCI Express link and no firmware.
//
//	s, id, err := crspace.Find(ctx, adapter, crspace.Config{})
//	…
//	v, err := s.Read32(ctx, 0xf0014)
//
// # Writes
//
// A wrong write can damage an adapter for good: the gateway to its flash memory and its clocks are registers. Writes
// return ErrReadOnly unless Config.AllowWrites is set.
//
// # Framing
//
// An address has four bytes, a register four, both big endian. A read writes the address and, after a repeated start,
// reads registers; a write appends the registers to the address. The adapter increments the address. Reads are divided
// at 64 bytes, writes at 32.
//
// # Concurrency
//
// A Space may be used concurrently if its Bus may be.
//
// # Sources
//
// mstflint mtcr_ul/mtcr_ul_com.c and include/dev_mgt.
package crspace
