package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

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
	if err := removeUnserved(native.Network, path, flag); err != nil {
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

// removeUnserved removes a socket that no process serves. flag is the flag that sets the path.
func removeUnserved(network, path, flag string) error {
	err := private.RemoveUnserved(network, path)
	switch {
	case errors.Is(err, private.ErrServed):
		return fmt.Errorf("a daemon is running at %s; stop it, or choose another path with %s", path, flag)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (run as the user of that daemon, or choose another path with %s)", err, flag)
	case err != nil:
		return fmt.Errorf("%w (choose another path with %s)", err, flag)
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
