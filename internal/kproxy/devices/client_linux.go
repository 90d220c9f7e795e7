package devices

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// ReadTree returns the files that the front end of a daemon supplies, and the daemon's process. A daemon that ends when
// it is idle is kept from that until this process ends.
func ReadTree(socket string, timeout time.Duration) (entries []Entry, daemon kproxy.Peer, err error) {
	c, err := native.Dial(socket, timeout)
	if err != nil {
		return nil, daemon, err
	}
	defer c.Close()
	if daemon.PID, daemon.UID, daemon.GID, err = c.Peer(); err != nil {
		return nil, daemon, err
	}
	var tree []byte
	for {
		total, b, err := readPart(c, uint64(len(tree)), timeout)
		if err != nil {
			return nil, daemon, fmt.Errorf("devices: reading the tree from %s: %w", socket, err)
		}
		tree = append(tree, b...)
		if uint64(len(tree)) >= total {
			entries, err = decodeTree(tree)
			return entries, daemon, err
		}
		if len(b) == 0 {
			return nil, daemon, fmt.Errorf("devices: reading the tree from %s: %w", socket, errMessage)
		}
	}
}

// ReadContent returns the bytes of a file of the tree as it is now. The error has a syscall.Errno in its chain if it is
// the daemon's: ENOENT; EISDIR; EFBIG.
func ReadContent(socket, path string, timeout time.Duration) ([]byte, error) {
	c, err := native.Dial(socket, timeout)
	if err != nil {
		return nil, fmt.Errorf("devices: reading %s from %s: %w", path, socket, errors.Join(ErrNoAnswer, err))
	}
	defer c.Close()
	_, b, err := readOnce(c, &message{op: opContent, data: []byte(path)}, timeout)
	return b, err
}

// ErrNoAnswer is wrapped by errors when the daemon cannot be reached.
var ErrNoAnswer = errors.New("the daemon does not answer")

// readPart requests one part of the tree. It returns the size of the whole, too.
func readPart(c *native.Conn, offset uint64, timeout time.Duration) (total uint64, b []byte, err error) {
	return readOnce(c, &message{op: opTree, a: offset, b: version}, timeout)
}

// readOnce executes a request whose reply has one store. It returns the result, too.
func readOnce(c *native.Conn, m *message, timeout time.Duration) (total uint64, b []byte, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "reply")
	defer unix.Close(fds[0])
	err = c.Send(encodeRequest(m), []*os.File{theirs})
	theirs.Close()
	if err != nil {
		return 0, nil, err
	}
	limit := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, nil, os.NewSyscallError("setsockopt", err)
	}
	reply := make([]byte, replySize+16+maxPart+8)
	n, err := receiveOnce(fds[0], reply)
	if err != nil {
		return 0, nil, os.NewSyscallError("recv", err)
	}
	reply = reply[:n]
	if n == 0 {
		return 0, nil, errors.New("the daemon closed the connection")
	}
	if n < replySize {
		return 0, nil, errMessage
	}
	if e := ne.Uint32(reply); e != 0 {
		return 0, nil, syscall.Errno(e)
	}
	if n < replySize+16 || ne.Uint32(reply[28:]) != 0 || ne.Uint32(reply[32:]) != 1 {
		return 0, nil, errMessage
	}
	size := ne.Uint64(reply[replySize+8:])
	if data := reply[replySize+16:]; size <= uint64(len(data)) {
		return ne.Uint64(reply[8:]), data[:size], nil
	}
	return 0, nil, errMessage
}

// receiveOnce receives one message, also if signals interrupt it.
func receiveOnce(fd int, b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
