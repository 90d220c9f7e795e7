package main

import "syscall"

// maxData bounds the memory of each program that is run, because a mutant may allocate without end.
const maxData = 8 << 30

// limitMemory sets the bound for this process, from which the programs inherit it.
func limitMemory() error {
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: maxData, Max: maxData})
}
