package devices

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// The functions of this file are for carriers in Go. Sockets are numbers of descriptors, since they may belong to a
// program, too, and keep their mode.

// MaxWrite is the maximum number of bytes of a write. Longer ones fail with EINVAL.
const MaxWrite = schema.MaxMessage - requestSize

// Opened describes a device file that was opened.
type Opened struct {
	Major, Minor uint32
	Daemon       int // process id
}

// Open opens a device file over a socket of type SOCK_SEQPACKET that is connected to a daemon. process is a pidfd of
// the program's process, or nil if that is this one. The error has a syscall.Errno in its chain.
func Open(socket int, path string, process *os.File) (*Opened, error) {
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil {
		return nil, err
	}
	r, err := exchange(socket, &message{op: opOpen, a: st.Ino, data: []byte(path)}, process)
	if err != nil {
		return nil, err
	}
	closeReply(r)
	switch {
	case r.Errno != 0:
		return nil, fmt.Errorf("devices: opening %s: %w", path, r.Errno)
	case len(r.Stores) != 1 || len(r.Stores[0].Data) < 16 || ne.Uint32(r.Stores[0].Data[12:]) != version:
		return nil, fmt.Errorf("devices: the daemon has another version: %w", syscall.EIO)
	}
	b := r.Stores[0].Data
	return &Opened{Major: ne.Uint32(b), Minor: ne.Uint32(b[4:]), Daemon: int(ne.Uint32(b[8:]))}, nil
}

// Call executes a system call on an open device file. The caller closes the descriptors of the reply. The error has a
// syscall.Errno in its chain, EIO if the daemon is gone.
func Call(socket int, r *Request) (*Reply, error) {
	m := &message{op: opWrite, data: r.Data, a: uint64(uint32(r.Number)), b: r.Token}
	if r.IsIoctl {
		m = &message{op: opIoctl, a: r.Ioctl&math.MaxUint32 | uint64(uint32(r.Number))<<32, b: r.Operand,
			data: encodeRanges(r.Memory)}
	}
	return exchange(socket, m, r.File)
}

// Read executes a read of size bytes to an address of the program. Otherwise it is Call.
func Read(socket int, addr, size uint64) (*Reply, error) {
	return exchange(socket, &message{op: opRead, a: size, b: addr}, nil)
}

// Wake wakes the adapter of an open device file, because a bell was set. It does not block.
func Wake(socket int) {
	// If the daemon is gone, the next command reports it. If it has unread messages, it is awake.
	_ = unix.Send(socket, encodeRequest(&message{op: opBell}), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// Discard takes back one wake of an open device file, as Reply.Quiet asks for.
func Discard(socket int) {
	var b [1]byte
	_, _, _ = unix.Recvfrom(socket, b[:], unix.MSG_DONTWAIT) // there may be none
}

// closeReply closes the descriptors of a reply.
func closeReply(r *Reply) {
	if r.Memory != nil {
		r.Memory.Close()
	}
	if r.Copies != nil {
		r.Copies.Close()
	}
	for _, d := range r.Files {
		d.File.Close()
	}
}

// errGone is the error when the daemon has closed the connection.
var errGone = fmt.Errorf("devices: the daemon has closed the connection: %w", syscall.EIO)

// exchange sends a request and receives the reply.
func exchange(socket int, m *message, attached *os.File) (*Reply, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	fds := []int{pair[1]}
	if attached != nil {
		m.files = 1
		err = control(attached, func(fd int) { fds = append(fds, fd) })
	}
	if err == nil {
		err = sendAll(socket, encodeRequest(m), unix.UnixRights(fds...))
	}
	unix.Close(pair[1])
	if err != nil {
		return nil, errGone
	}
	b, oob := make([]byte, replySize+2*schema.MaxMessage), make([]byte, unix.CmsgSpace(4*schema.MaxFiles))
	n, oobn, flags, err := recvAll(pair[0], b, oob)
	if err != nil || n == 0 {
		return nil, errGone
	}
	files := filesOf(oob[:oobn])
	reply, err := parseReply(b[:n], files)
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errMessage
	}
	if err != nil {
		native.CloseFiles(files)
		return nil, fmt.Errorf("%w: %w", err, syscall.EIO)
	}
	return reply, nil
}

// sendAll sends a message, also if signals interrupt it or the descriptor is in non-blocking mode.
func sendAll(socket int, b, oob []byte) error {
	for {
		err := unix.Sendmsg(socket, b, oob, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN):
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}}, -1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

func recvAll(socket int, b, oob []byte) (n, oobn, flags int, err error) {
	for {
		n, oobn, flags, _, err = unix.Recvmsg(socket, b, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return n, oobn, flags, err
		}
	}
}

// filesOf returns the descriptors of a control message.
func filesOf(oob []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}
