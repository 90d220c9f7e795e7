package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"ciddk/internal/private"
	"ciddk/kproxy/native"
)

// listener returns the socket that systemd passed, or else creates that of the configuration.
func listener(c *config) (l *net.UnixListener, activated bool, err error) {
	l, err = passedListener()
	if l != nil || err != nil {
		return l, true, err
	}
	l, err = listen(c)
	return l, false, err
}

// passedListener returns the socket that systemd passed (LISTEN_FDS), nil if it passed none. Closing it does not remove
// its path, which is systemd's: connections wait in the socket for the next daemon.
func passedListener() (*net.UnixListener, error) {
	list, err := activation.Listeners()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	l, ok := list[0].(*net.UnixListener)
	if ok && len(list) == 1 && l.Addr().Network() == native.Network {
		l.SetUnlinkOnClose(false)
		return l, nil
	}
	for _, l := range list {
		if l != nil {
			l.Close()
		}
	}
	return nil, fmt.Errorf("systemd passed %d sockets; the socket unit must have one line, "+
		"ListenSequentialPacket=PATH", len(list))
}

// listen creates the socket. A socket that an earlier daemon left behind is replaced; that of a running one is not.
func listen(c *config) (*net.UnixListener, error) { return listenAt(c, c.Socket, "--socket") }

// listenAt is listen for the path that a flag sets.
func listenAt(c *config, path, flag string) (*net.UnixListener, error) {
	if err := removeStale(path, flag); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("%w (choose a path in a writable directory with %s)", err, flag)
	}
	l, err := private.Listen(native.Network, path)
	if err != nil {
		return nil, fmt.Errorf("%w (choose another path with %s)", err, flag)
	}
	if err := permit(c, path); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeStale removes a socket of clients that no process serves.
func removeStale(path, flag string) error {
	return removeUnserved(path, flag, func() error {
		conn, err := native.Dial(path, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// removeStaleStream removes a socket of metrics that no process serves.
func removeStaleStream(path string) error {
	return removeUnserved(path, "--metrics", func() error {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// removeUnserved removes a socket unless dial connects to it. flag is the flag that sets the path.
func removeUnserved(path, flag string, dial func() error) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w (choose another path with %s)", err, flag)
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is no socket; remove it, or choose another path with %s", path, flag)
	}
	switch err := dial(); {
	case err == nil:
		return fmt.Errorf("a daemon is running at %s; stop it, or choose another path with %s", path, flag)
	case errors.Is(err, syscall.ECONNREFUSED): // no process has it open
	case errors.Is(err, syscall.EPROTOTYPE):
		return fmt.Errorf("%s is the socket of another program; choose another path with %s", path, flag)
	default:
		return fmt.Errorf("%s exists, and whether a daemon serves it is not known: %w (run as the user of that "+
			"daemon, or choose another path with %s)", path, err, flag)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("a socket that no daemon serves: %w (remove it, or choose another path with %s)", err, flag)
	}
	return nil
}

// permit sets the group and the mode of a socket.
func permit(c *config, path string) error {
	mode, err := c.fileMode()
	if err != nil {
		return err
	}
	gid, err := c.groupID()
	if err != nil {
		return err
	}
	if gid >= 0 {
		if err := os.Chown(path, -1, gid); err != nil {
			return fmt.Errorf("group %s: %w (the daemon's user must be a member of the group)", c.Group, err)
		}
	}
	return os.Chmod(path, mode)
}
