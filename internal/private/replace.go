package private

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// ErrServed is wrapped by errors of Replace and RemoveUnserved when a process listens on the socket.
var ErrServed = errors.New("another process listens on the socket")

// dialTimeout is the time in which a process must accept a connection, or its queue must have room for it.
const dialTimeout = 5 * time.Second

// Replace is Listen in place of a socket on which no process listens any more. It removes nothing else.
func Replace(network, path string) (*net.UnixListener, error) {
	if err := RemoveUnserved(network, path); err != nil {
		return nil, err
	}
	return Listen(network, path)
}

// RemoveUnserved removes a socket on which no process listens any more, and nothing else. It is no error if nothing is
// at path.
func RemoveUnserved(network, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is no socket (remove it, or choose another path)", path)
	}
	c, err := net.DialTimeout(network, path, dialTimeout)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: %w", path, ErrServed), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, syscall.EPROTOTYPE):
		return fmt.Errorf("%s is the socket of another program (choose another path)", path)
	}
	return fmt.Errorf("%s exists, and whether a process listens is not known: %w", path, err)
}
