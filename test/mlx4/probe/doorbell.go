//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/internal/mlx4/fw"
)

// doorbellWarm is the number of doorbells before those that are measured.
const doorbellWarm = 50

// measureDoorbells prints the median and the 99th percentile of the round trips of doorbells, in nanoseconds: the
// program writes a register of a device of package bustest, which copies a dword within the program's memory, and polls
// that dword.
func measureDoorbells(address, text string) error {
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 || count > 1<<20 {
		return fmt.Errorf("%q doorbells: want 1 to %d", text, 1<<20)
	}
	if err := enable(address); err != nil {
		return err
	}
	regs, err := mapBAR(address, "0")
	if err != nil {
		return err
	}
	memory, at, err := physicalPage()
	if err != nil {
		return err
	}
	const target = 64 // of the page; the source is its first dword
	binary.LittleEndian.PutUint64(regs[bustest.RegSource:], at)
	binary.LittleEndian.PutUint64(regs[bustest.RegTarget:], at+target)
	binary.LittleEndian.PutUint32(regs[bustest.RegLength:], 4)
	var times []time.Duration
	for i := range uint32(doorbellWarm + count) {
		fw.Store32(memory, i+1)
		start := time.Now()
		binary.LittleEndian.PutUint32(regs[bustest.RegGo:], noVector)
		for fw.Load32(memory[target:]) != i+1 {
			if time.Since(start) > patience {
				return fmt.Errorf("doorbell %d has no effect", i)
			}
		}
		times = append(times, time.Since(start))
	}
	times = times[doorbellWarm:]
	slices.Sort(times)
	fmt.Println(times[len(times)/2].Nanoseconds(), times[len(times)*99/100].Nanoseconds())
	return nil
}

// noVector is no vector of the device.
const noVector = 1 << 16

// enable enables memory accesses and bus mastering of a function.
func enable(address string) error {
	if err := os.WriteFile(filepath.Join(devices, address, "enable"), []byte("1"), 0); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(devices, address, "config"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte{enableMaster, 0}, bus.ConfigCommand)
	return err
}

// mapBAR maps a BAR until the process ends.
func mapBAR(address, bar string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(devices, address, "resource"+bar), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Fields of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
const (
	pagemapEntry   = 8 // bytes
	pagemapFrame   = 1<<55 - 1
	pagemapPresent = 1 << 63
)

// physicalPage returns a page of memory and its physical address. The guest has no IOMMU, and it has too much memory to
// move the page.
func physicalPage() ([]byte, uint64, error) {
	size := os.Getpagesize()
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_LOCKED|unix.MAP_POPULATE)
	if err != nil {
		return nil, 0, err
	}
	page[0] = 1
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	var e [pagemapEntry]byte
	if _, err := f.ReadAt(e[:], int64(address(page)/uintptr(size)*pagemapEntry)); err != nil {
		return nil, 0, err
	}
	v := binary.LittleEndian.Uint64(e[:])
	if v&pagemapPresent == 0 || v&pagemapFrame == 0 {
		return nil, 0, errors.New("the physical address of a page cannot be read")
	}
	return page, v & pagemapFrame * uint64(size), nil
}
