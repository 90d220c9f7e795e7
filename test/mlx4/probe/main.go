//go:build linux

// Command probe reads and writes a PCI function of a test guest through sysfs, as pciutils do, and drives the device of
// package bustest with package vfio.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const usage = "usage: probe find VENDOR:DEVICE | config ADDRESS | read ADDRESS BAR OFFSET | " +
	"write ADDRESS BAR OFFSET VALUE | vfio ADDRESS | doorbell ADDRESS COUNT"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

const devices = "/sys/bus/pci/devices"

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "find":
		return find(args[1])
	case len(args) == 2 && args[0] == "config":
		b, err := os.ReadFile(filepath.Join(devices, args[1], "config"))
		if err != nil {
			return err
		}
		fmt.Printf("%x\n", b)
		return nil
	case len(args) == 4 && args[0] == "read", len(args) == 5 && args[0] == "write":
		return access(args[1], args[2], args[3:])
	case len(args) == 2 && args[0] == "vfio":
		return drive(args[1])
	case len(args) == 3 && args[0] == "doorbell":
		return measureDoorbells(args[1], args[2])
	}
	return errors.New(usage)
}

// find prints the addresses of the functions with an ID.
func find(id string) error {
	list, err := os.ReadDir(devices)
	if err != nil {
		return err
	}
	for _, d := range list {
		vendor, err := text(d.Name(), "vendor")
		if err != nil {
			return err
		}
		device, err := text(d.Name(), "device")
		if err != nil {
			return err
		}
		if vendor+":"+device == id {
			fmt.Println(d.Name())
		}
	}
	return nil
}

// text returns a number in a file of a function, without its prefix.
func text(address, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(devices, address, file))
	return strings.TrimPrefix(strings.TrimSpace(string(b)), "0x"), err
}

// access reads or writes 32 bits of a BAR. args are the offset and, to write, the value.
func access(address, bar string, args []string) error {
	if err := os.WriteFile(filepath.Join(devices, address, "enable"), []byte("1"), 0); err != nil {
		return err
	}
	var n [2]uint64
	for i, a := range args {
		v, err := strconv.ParseUint(a, 0, 32)
		if err != nil {
			return err
		}
		n[i] = v
	}
	b, err := mapBAR(address, bar)
	if err != nil {
		return err
	}
	if n[0]%4 != 0 || n[0]+4 > uint64(len(b)) {
		return fmt.Errorf("offset %#x of a BAR of %#x bytes", n[0], len(b))
	}
	if len(args) == 2 {
		binary.LittleEndian.PutUint32(b[n[0]:], uint32(n[1]))
		return nil
	}
	fmt.Printf("%#x\n", binary.LittleEndian.Uint32(b[n[0]:]))
	return nil
}
