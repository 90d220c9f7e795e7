//go:build unix

package arena

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// duplicate returns another descriptor of f. It leaves the mode of f alone, which File.Fd would change.
func duplicate(f *os.File) (*os.File, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	var d int
	var dupErr error
	err = c.Control(func(fd uintptr) { d, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	if err := errors.Join(err, dupErr); err != nil {
		return nil, fmt.Errorf("arena: duplicating a descriptor: %w", err)
	}
	return os.NewFile(uintptr(d), f.Name()), nil
}
