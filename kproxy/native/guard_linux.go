package native

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ciddk/internal/passedfd"
)

// errStuck ends a connection that sends a descriptor while another one of the user does not close.
var errStuck = errors.New("native: a descriptor that a process of this user sent does not close")

// Guard prepares for descriptors of a process that is not trusted, which d then closes, and limits the number of those
// that are sent to it and that it does not receive. It is called before Recv and Send.
//
// A file of a file system is replaced by an empty file in memory. No command accepts one, and system calls on it may
// take any time: the process can be the file system (FUSE). That includes os.NewFile, which has the runtime poll a file
// in non-blocking mode: epoll would wait for the process, and with it every goroutine that waits for the network.
func (c *Conn) Guard(d *passedfd.Discarder) {
	_, uid, _, err := c.Peer()
	if err != nil {
		uid = -1
	}
	c.guard, c.uid = d, uid
	c.outlet = &outlet{raw: c.raw, p: &passer{uid: uid, discard: d, ended: make(chan struct{})}}
}

// Discard closes descriptors that Recv has returned.
func (c *Conn) Discard(files []*os.File) {
	if c.guard == nil {
		CloseFiles(files)
		return
	}
	list := make([]io.Closer, len(files))
	for i, f := range files {
		list[i] = f
	}
	c.guard.Close(c.uid, list...)
}

// receivedFile returns the file of a descriptor that was received.
func (c *Conn) receivedFile(fd int) (*os.File, error) {
	if c.guard != nil && isOfFileSystem(fd) {
		empty, err := unix.MemfdCreate("replaced", unix.MFD_CLOEXEC)
		c.guard.Close(c.uid, passedfd.Number(fd))
		if err != nil {
			return nil, fmt.Errorf("native: a descriptor was not accepted: %w", os.NewSyscallError("memfd_create", err))
		}
		fd = empty
	}
	return os.NewFile(uintptr(fd), "received"), nil
}

// isOfFileSystem reports whether a descriptor is a file or directory of a file system, which includes those that it
// cannot tell.
func isOfFileSystem(fd int) bool {
	k := passedfd.KindOf(fd)
	return k == passedfd.Foreign || k == passedfd.Disk
}
