package ibsim

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/passedfd"
	"ciddk/internal/private"
)

// maxPassed is the most descriptors that a datagram can bring (SCM_MAX_FD).
const maxPassed = 253

// errOtherUser is the error of a datagram that a process of another user has sent.
var errOtherUser = errors.New("a process of another user")

// A socket receives datagrams of the own user, and of root. An abstract socket has no mode: any process of the network
// namespace can send to it.
type socket struct {
	*net.UnixConn
	oob     []byte
	discard *passedfd.Discarder // of descriptors, whose close may wait for their sender
}

// listen opens a socket.
func listen(at *net.UnixAddr, clk clock.Clock) (*socket, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
		return errors.Join(e, os.NewSyscallError("setsockopt", err))
	}}
	c, err := lc.ListenPacket(context.Background(), "unixgram", at.Name)
	if err != nil {
		return nil, err
	}
	return &socket{UnixConn: c.(*net.UnixConn), oob: make([]byte, unix.CmsgSpace(unix.SizeofUcred)+
		unix.CmsgSpace(4*maxPassed)), discard: passedfd.NewDiscarder(clk)}, nil
}

// connect lets nobody but the socket at an address send, however many have its name after it.
func (s *socket) connect(to *net.UnixAddr) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Connect(int(fd), &unix.SockaddrUnix{Name: to.Name}) }); e != nil {
		return e
	}
	return os.NewSyscallError("connect", err)
}

// receive receives a datagram. It returns errOtherUser for one that is not accepted.
func (s *socket) receive(b []byte) (n int, from *net.UnixAddr, err error) {
	n, oobn, _, from, err := s.ReadMsgUnix(b, s.oob)
	if err != nil {
		return 0, nil, err
	}
	list, err := unix.ParseSocketControlMessage(s.oob[:oobn])
	if err != nil {
		return 0, from, err
	}
	uid := -1
	var passed []io.Closer
	for i := range list {
		if cred, err := unix.ParseUnixCredentials(&list[i]); err == nil {
			uid = int(cred.Uid)
		} else if fds, err := unix.ParseUnixRights(&list[i]); err == nil {
			for _, fd := range fds {
				passed = append(passed, passedfd.Number(fd))
			}
		}
	}
	s.discard.Start(uid, passed...)
	if !private.IsOwn(uid) {
		return 0, from, errOtherUser
	}
	return n, from, nil
}
