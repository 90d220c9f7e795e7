// Package soft has a Device in software, so that the template runs without hardware. Devices on one Fabric address each
// other by GID, and copy messages from memory to memory. They implement protection, retries, errors, flushing and
// interrupts. One message is copied at a time, with one lock for the whole fabric, which is simple and slow. A driver
// for hardware does not need this package.
package soft
