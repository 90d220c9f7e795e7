package vectors

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Set is eventfds of interrupt vectors, with one goroutine each once they are served.
type Set struct {
	Files []*os.File

	wait sync.WaitGroup
}

// New creates n eventfds. The caller closes the set.
func New(n int) (*Set, error) {
	s := new(Set)
	for range n {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("eventfd", err), s.Close())
		}
		s.Files = append(s.Files, os.NewFile(uintptr(fd), "interrupt"))
	}
	return s, nil
}

// Serve calls fn with the number of each vector that is raised, one call at a time for each vector. One call may stand
// for several interrupts.
func (s *Set) Serve(fn func(vector int)) {
	for i, file := range s.Files {
		s.wait.Go(func() {
			for b := make([]byte, 8); ; {
				if _, err := file.Read(b); err != nil {
					return // closed
				}
				fn(i)
			}
		})
	}
}

// Close closes the eventfds, and waits until no function runs.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.Files {
		errs = append(errs, f.Close())
	}
	s.wait.Wait()
	return errors.Join(errs...)
}
