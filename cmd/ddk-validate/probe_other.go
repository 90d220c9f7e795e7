//go:build !linux

package main

// socketDrops returns 0, because this system does not count drops.
func socketDrops(bool) uint64 { return 0 }
