//go:build !linux

// Command pair needs Linux: see main_linux.go.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "pair: needs Linux, whose sockets the cases are held against")
	os.Exit(1)
}
