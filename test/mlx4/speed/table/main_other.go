//go:build !linux

// Command table needs Linux: see main_linux.go.
package main

import (
	"fmt"
	"os"

	"ciddk/test/linux/guest"
)

func main() {
	fmt.Fprintln(os.Stderr, "table:", guest.Available())
	os.Exit(1)
}
