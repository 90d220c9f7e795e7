package vfiouser

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ciddk/bus"
)

// irqs are interrupt vectors that are enabled, with one goroutine each.
type irqs struct {
	files []*os.File
	wait  sync.WaitGroup
}

// EnableVectors enables interrupt vectors.
func (f *Function) EnableVectors(n int, fn func(vector int)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return bus.ErrClosed
	case n < 0 || n > f.vectors:
		return fmt.Errorf("%w: %d of %d", bus.ErrNoVectors, n, f.vectors)
	case n > 0 && fn == nil:
		return errors.New("vfiouser: EnableVectors without a function")
	}
	if err := f.disable(); err != nil || n == 0 {
		return err
	}
	v := new(irqs)
	err := v.open(n)
	for i := 0; i < n && err == nil; i += maxFiles {
		list := v.files[i:min(n, i+maxFiles)]
		r := setIRQs{irqDataEvent | irqTrigger, irqMSIX, uint32(i), uint32(len(list))}
		_, err = f.request(cmdSetIRQs, r.append(start(setIRQsSize)), list...)
	}
	if err != nil {
		v.close()
		return errors.Join(err, f.silence())
	}
	for i, file := range v.files {
		v.wait.Go(func() {
			for b := make([]byte, 8); ; {
				if _, err := file.Read(b); err != nil {
					return // closed
				}
				fn(i)
			}
		})
	}
	f.enabled = v
	return nil
}

func (v *irqs) open(n int) error {
	for range n {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return os.NewSyscallError("eventfd", err)
		}
		v.files = append(v.files, os.NewFile(uintptr(fd), "interrupt"))
	}
	return nil
}

func (v *irqs) close() {
	for _, f := range v.files {
		f.Close()
	}
	v.wait.Wait()
}

// silence disables the vectors in the device's process.
func (f *Function) silence() error {
	r := setIRQs{irqDataNone | irqTrigger, irqMSIX, 0, 0}
	_, err := f.request(cmdSetIRQs, r.append(start(setIRQsSize)))
	if errors.Is(err, bus.ErrGone) {
		return nil
	}
	return err
}

// disable disables the vectors, and waits until no function of theirs runs. mu is held.
func (f *Function) disable() error {
	v := f.enabled
	if v == nil {
		return nil
	}
	f.enabled = nil
	err := f.silence()
	v.close()
	return err
}
