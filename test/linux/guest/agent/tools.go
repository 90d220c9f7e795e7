//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// loadFiles loads modules of the kernel, dependencies first. Modules that are loaded already are skipped. args are the
// parameters of the last module, and the files.
func loadFiles(args []string) error {
	if len(args) < 2 {
		return errors.New("load: give the parameters and the files")
	}
	for i, p := range args[1:] {
		parameters := ""
		if i == len(args)-2 {
			parameters = args[0]
		}
		if err := loadModule(p, parameters); err != nil {
			return fmt.Errorf("module %s: %w", p, err)
		}
	}
	return nil
}

// unload unloads modules by name, in the order given.
func unload(names []string) error {
	for _, n := range names {
		if err := unix.DeleteModule(n, unix.O_NONBLOCK); err != nil {
			return fmt.Errorf("module %s: %w", n, err)
		}
	}
	return nil
}

// dmesg prints the messages of the kernel that its buffer still has.
func dmesg() error {
	const readAll, bufferSize = 3, 10
	n, err := unix.Klogctl(bufferSize, nil)
	if err != nil {
		return fmt.Errorf("syslog: %w", err)
	}
	b := make([]byte, n)
	if n, err = unix.Klogctl(readAll, b); err != nil {
		return fmt.Errorf("syslog: %w", err)
	}
	_, err = os.Stdout.Write(b[:n])
	return err
}

// mkdir makes folders, with their parents.
func mkdir(dirs []string) error {
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// put writes a text to a file, such as one of sysfs.
func put(args []string) error {
	if len(args) != 2 {
		return errors.New("put: give a file and a text")
	}
	return os.WriteFile(args[0], []byte(args[1]), 0)
}
