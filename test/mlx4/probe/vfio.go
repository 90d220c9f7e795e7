//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/bus/vfio"
)

// patience is the longest wait for an interrupt of the device, in a guest that is emulated on a busy machine.
const patience = 30 * time.Second

// drive binds a device of package bustest to vfio-pci, and checks registers, DMA, interrupts and reset.
func drive(address string) error {
	if err := bind(address); err != nil {
		return err
	}
	f, err := vfio.Open(address)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(bus.Function) error
	}{{"identity", identity}, {"registers", registers}, {"DMA", dma}, {"interrupts", interrupts}, {"reset", reset},
		{"DMA after reset", dma}} {
		if err := step.run(f); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", step.name, err), f.Close())
		}
		fmt.Println(step.name, "ok")
	}
	return f.Close()
}

// bind binds a function to vfio-pci.
func bind(address string) error {
	if err := os.WriteFile(filepath.Join(devices, address, "driver_override"), []byte("vfio-pci"), 0); err != nil {
		return err
	}
	return os.WriteFile("/sys/bus/pci/drivers_probe", []byte(address), 0)
}

// enableMaster is bus.ConfigCommand's value for memory accesses and bus mastering.
const enableMaster = 6

func identity(f bus.Function) error {
	if f.ID() != bustest.ID || f.NumVectors() != bustest.Vectors {
		return fmt.Errorf("%v with %d vectors", f.ID(), f.NumVectors())
	}
	f.Config().Write16(bus.ConfigCommand, enableMaster)
	if v := f.Config().Read16(bus.ConfigCommand); v != enableMaster {
		return fmt.Errorf("command register %#x, want %#x", v, enableMaster)
	}
	return nil
}

func registers(f bus.Function) error {
	s, err := f.BAR(0)
	if err != nil {
		return err
	}
	const v = 0x1122334455667788
	s.Write64(bustest.RegScratch, v)
	if got := s.Read64(bustest.RegScratch); got != v {
		return fmt.Errorf("64 bits: %#x, want %#x", got, uint64(v))
	}
	if got := s.Read32(bustest.RegScratch + 4); got != v>>32 {
		return fmt.Errorf("32 bits: %#x, want %#x", got, v>>32)
	}
	s.Write8(bustest.RegScratch, 9)
	if got := s.Read16(bustest.RegScratch); got != 0x7709 {
		return fmt.Errorf("16 bits: %#x, want 0x7709", got)
	}
	return nil
}

// dma makes the device copy from one piece of memory to another, and beyond its end.
func dma(f bus.Function) error {
	f.Config().Write16(bus.ConfigCommand, enableMaster)
	s, err := f.BAR(0)
	if err != nil {
		return err
	}
	page := os.Getpagesize()
	var m [2]*bus.DMA
	for i := range m {
		if m[i], err = f.AllocDMA(2 * page); err != nil {
			return err
		}
		defer m[i].Close()
	}
	for i := range m[0].Bytes {
		m[0].Bytes[i] = byte(i * 7)
	}
	run := func(from, to uint64, n int) uint32 {
		s.Write64(bustest.RegSource, from)
		s.Write64(bustest.RegTarget, to)
		s.Write32(bustest.RegLength, uint32(n))
		s.Write32(bustest.RegGo, 0)
		return s.Read32(bustest.RegStatus)
	}
	if st := run(m[0].IOVA+100, m[1].IOVA, page); st != bustest.CopyOK {
		return fmt.Errorf("status %d", st)
	}
	if !bytes.Equal(m[0].Bytes[100:100+page], m[1].Bytes[:page]) {
		return errors.New("the data differ")
	}
	if st := run(m[0].IOVA, m[1].IOVA+1, 2*page); st != bustest.CopyFailed {
		return fmt.Errorf("beyond the end: status %d", st)
	}
	return errors.Join(m[0].Close(), m[1].Close())
}

func interrupts(f bus.Function) error {
	s, err := f.BAR(0)
	if err != nil {
		return err
	}
	raised := make(chan int, 100)
	if err := f.EnableVectors(bustest.Vectors, func(v int) { raised <- v }); err != nil {
		return err
	}
	for v := range bustest.Vectors {
		s.Write32(bustest.RegGo, uint32(v))
		select {
		case got := <-raised:
			if got != v {
				return fmt.Errorf("vector %d, want %d", got, v)
			}
		case <-time.After(patience):
			return fmt.Errorf("vector %d was not raised", v)
		}
	}
	return f.EnableVectors(0, nil)
}

func reset(f bus.Function) error {
	s, err := f.BAR(0)
	if err != nil {
		return err
	}
	if err := f.Reset(); err != nil {
		return err
	}
	f.Config().Write16(bus.ConfigCommand, enableMaster)
	if v := s.Read32(bustest.RegScratch); v != 0 {
		return fmt.Errorf("register %#x after it", v)
	}
	return nil
}
