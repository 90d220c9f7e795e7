//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A reader calls a function for each event of a descriptor, on a goroutine that waits in Go's poller and so occupies no
// thread.
type reader struct {
	file *os.File
	done chan struct{}
}

// newReader starts a reader. read returns syscall.EAGAIN when there is no event. The descriptor belongs to the library.
func newReader(fd int, read func() error) (*reader, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("descriptor of events: %w", err)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("descriptor of events: %w", err)
	}
	r := &reader{file: os.NewFile(uintptr(own), "verbs events"), done: make(chan struct{})}
	conn, err := r.file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("descriptor of events: %w", err), r.file.Close())
	}
	go func() {
		defer close(r.done)
		for {
			var failed error
			err := conn.Read(func(uintptr) bool {
				failed = read()
				return !errors.Is(failed, syscall.EAGAIN)
			})
			if err != nil || failed != nil && !errors.Is(failed, syscall.EINTR) {
				return // closed, or the device is gone
			}
		}
	}()
	return r, nil
}

// close ends the reader.
func (r *reader) close() {
	_ = r.file.Close()
	<-r.done
}
