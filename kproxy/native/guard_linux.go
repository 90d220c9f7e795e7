package native

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errStuck ends a connection that sends a descriptor while another one of the user does not close.
var errStuck = errors.New("native: a descriptor that a process of this user sent does not close")

// Guard prepares for descriptors of a process that is not trusted, which d then closes, and limits the number of those
// that are sent to it and that it does not receive. It is called before Recv and Send.
//
// A file of a file system is replaced by an empty file in memory. No command accepts one, and system calls on it may
// take any time: the process can be the file system (FUSE). That includes os.NewFile, which has the runtime poll a file
// in non-blocking mode: epoll would wait for the process, and with it every goroutine that waits for the network.
func (c *Conn) Guard(d *Discarder) {
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

// descriptor is a descriptor that is only closed.
type descriptor int

// Close closes the descriptor.
func (d descriptor) Close() error { return unix.Close(int(d)) }

// receivedFile returns the file of a descriptor that was received.
func (c *Conn) receivedFile(fd int) (*os.File, error) {
	if c.guard != nil && isOfFileSystem(fd) {
		empty, err := unix.MemfdCreate("replaced", unix.MFD_CLOEXEC)
		c.guard.Close(c.uid, descriptor(fd))
		if err != nil {
			return nil, fmt.Errorf("native: a descriptor was not accepted: %w", os.NewSyscallError("memfd_create", err))
		}
		fd = empty
	}
	return os.NewFile(uintptr(fd), "received"), nil
}

// isOfFileSystem reports whether a descriptor is a file or directory of a file system, which includes those that it
// cannot tell. Sockets, pipes, devices, files in memory and the kernel's other objects are none. None of the system
// calls waits for a file system.
func isOfFileSystem(fd int) bool {
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
		return false
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil { // tmpfs has seals, too
		return false
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err == nil && !strings.HasPrefix(name, "/") { // such as "pipe:[1]" and "anon_inode:[pidfd]"
		return false
	}
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	if err != nil {
		return true
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFIFO:
		return false
	}
	return true
}
