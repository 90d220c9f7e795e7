package native

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// soPeerPIDFD is SO_PEERPIDFD, since Linux 6.5: a descriptor of the process at the other end.
const soPeerPIDFD = 77

// WatchPeer calls exited, on another goroutine, when the process that made the connection has ended, even if another
// process has a copy of its socket. stop ends the watch; exited is not called after it has returned. There is no watch
// if the process cannot be found, such as one of another PID namespace.
func (c *Conn) WatchPeer(exited func()) (stop func()) {
	f, err := c.PeerProcess()
	if err != nil {
		return func() {}
	}
	return WatchProcess(f, exited)
}

// WatchProcess is WatchPeer for the process of a pidfd, which it then owns. The descriptor is in non-blocking mode, as
// those that Recv returns.
func WatchProcess(f *os.File, exited func()) (stop func()) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return func() {}
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		if raw.Read(hasEnded) == nil {
			exited()
		}
	})
	return func() {
		f.Close()
		wait.Wait()
	}
}

// hasEnded reports whether the process of a pidfd has ended.
func hasEnded(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 && err == nil
		}
	}
}

// PeerProcess returns a pidfd of the process that made the connection, for WatchProcess. The kernel has the process of
// the socket since Linux 6.5. Before, it is found by its number.
func (c *Conn) PeerProcess() (*os.File, error) {
	fd := -1
	if err := c.raw.Control(func(s uintptr) {
		if n, err := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, soPeerPIDFD); err == nil {
			fd = n
		}
	}); err != nil {
		return nil, err
	}
	if fd < 0 {
		pid, _, _, err := c.Peer()
		if err != nil {
			return nil, err
		}
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			return nil, os.NewSyscallError("pidfd_open", err)
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile has the runtime wait for it
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "peer"), nil
}
