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

// ErrServed is wrapped by errors of Replace when a process listens on the socket.
var ErrServed = errors.New("another process listens on the socket")

// dialTimeout is the time in which a process must accept a connection, or its queue must have room for it.
const dialTimeout = 5 * time.Second

// Replace is Listen in place of a socket on which no process listens any more. It removes nothing else.
func Replace(network, path string) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Listen(network, path)
	case err != nil:
		return nil, err
	case info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("%s exists and is no socket (remove it, or choose another path)", path)
	}
	c, err := net.DialTimeout(network, path, dialTimeout)
	if err == nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrServed), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%s exists, and whether a process listens is not known: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return Listen(network, path)
}
