// Package soft is a Device in software, so that the template runs before there is hardware: devices on one Fabric reach each other by
// GID and move messages from memory to memory. It does what hardware does (protection, retries, errors, flush, interrupts), a message
// at a time, under one lock for the whole fabric: right, and slow. Throw it away.
package soft
