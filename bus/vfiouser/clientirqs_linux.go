package vfiouser

import (
	"errors"

	"ciddk/bus"
	"ciddk/bus/internal/vectors"
)

// EnableVectors enables interrupt vectors.
func (f *Function) EnableVectors(n int, fn func(vector int)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return bus.ErrClosed
	}
	if err := bus.CheckVectors(n, f.vectors, fn); err != nil {
		return err
	}
	if err := f.disable(); err != nil || n == 0 {
		return err
	}
	v, err := vectors.New(n)
	if err != nil {
		return err
	}
	for i := 0; i < n && err == nil; i += maxFiles {
		list := v.Files[i:min(n, i+maxFiles)]
		r := setIRQs{irqDataEvent | irqTrigger, irqMSIX, uint32(i), uint32(len(list))}
		_, err = f.request(cmdSetIRQs, r.append(start(setIRQsSize)), list...)
	}
	if err != nil {
		return errors.Join(err, f.silence(), v.Close())
	}
	v.Serve(fn)
	f.enabled = v
	return nil
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
	return errors.Join(f.silence(), v.Close())
}
