package arena

import (
	"errors"
	"fmt"
	"os"
)

// A Doorbell wakes the process that created it: the read end of a pipe. Other processes have the write end, as a
// Ringer.
type Doorbell struct{ r, w *os.File }

// NewDoorbell returns a new doorbell.
func NewDoorbell() (*Doorbell, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("arena: pipe: %w", err)
	}
	return &Doorbell{r, w}, nil
}

// File returns the descriptor for other processes, which remains the doorbell's.
func (d *Doorbell) File() *os.File { return d.w }

// Wait returns when the doorbell has been rung since the last Wait, or with an error after Close.
func (d *Doorbell) Wait() error {
	var b [64]byte
	_, err := d.r.Read(b[:])
	return err
}

// Close ends Wait. It is idempotent.
func (d *Doorbell) Close() error {
	err := errors.Join(d.r.Close(), d.w.Close())
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// A Ringer rings a Doorbell.
type Ringer struct{ w *os.File }

// OpenRinger returns a Ringer of the descriptor that Doorbell.File returned in another process. It keeps a duplicate.
func OpenRinger(f *os.File) (*Ringer, error) {
	w, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return &Ringer{w}, nil
}

// one is what a Ringer writes.
var one = []byte{1}

// Ring wakes Wait. It makes one system call, and may be called concurrently.
func (r *Ringer) Ring() error {
	_, err := r.w.Write(one)
	return err
}

// Close closes the descriptor.
func (r *Ringer) Close() error { return r.w.Close() }
