package native

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/schema"
	"ciddk/internal/passedfd"
)

// Conn is one end of a connection. Send may be called concurrently; Recv is called by one goroutine.
type Conn struct {
	c    *net.UnixConn
	raw  syscall.RawConn
	recv recvState
	read func(fd uintptr) bool // recv.read, made once

	guard *passedfd.Discarder // nil: the other end is trusted with its descriptors
	uid   int                 // of the other end, with guard

	outlet  *outlet    // with guard
	passing sync.Mutex // while descriptors are sent, with guard
}

// NewConn returns a connection over a connected socket of type SOCK_SEQPACKET, which it then owns.
func NewConn(c *net.UnixConn) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}
	n := &Conn{c: c, raw: raw}
	n.read = n.recv.read
	return n, nil
}

// Dial connects to a daemon's socket.
func Dial(path string, timeout time.Duration) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: timeout}).Dial(Network, path)
	if err != nil {
		return nil, fmt.Errorf("native: %w (is the daemon running?)", err)
	}
	return NewConn(c.(*net.UnixConn))
}

// Listen creates a daemon's socket.
func Listen(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: path, Net: Network})
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}
	return l, nil
}

// Pair returns two connected ends within this process.
func Pair() (a, b *Conn, err error) {
	a, f, err := FilePair()
	if err != nil {
		return nil, nil, err
	}
	if b, err = FileConn(f); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// FilePair returns two connected ends: a connection for this process, and a descriptor for another one, which turns it
// into a connection with FileConn.
func FilePair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("native: socketpair: %w", err)
	}
	c, err := FileConn(os.NewFile(uintptr(fds[0]), "kproxy"))
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return c, os.NewFile(uintptr(fds[1]), "kproxy"), nil
}

// FileConn returns a connection over a connected socket, such as an inherited one. It closes f.
func FileConn(f *os.File) (*Conn, error) {
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("native: not a Unix socket")
	}
	return NewConn(u)
}

// Peer returns the process at the other end, as the kernel recorded it when the connection was made.
func (c *Conn) Peer() (pid, uid, gid int, err error) {
	var cred *unix.Ucred
	if e := c.raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	}); e != nil {
		err = e
	}
	if err != nil {
		return 0, 0, 0, fmt.Errorf("native: SO_PEERCRED: %w", err)
	}
	return int(cred.Pid), int(cred.Uid), int(cred.Gid), nil
}

// Address returns the path of the socket that Dial connected to, and "" for other connections.
func (c *Conn) Address() string {
	const unnamed = "@" // of a socket without a path
	if a := c.c.RemoteAddr(); a != nil && a.String() != unnamed {
		return a.String()
	}
	return ""
}

// Interrupt ends Recv and Send of this end, also those in progress, and leaves the connection open: the other end
// learns that it has ended when Close is called.
func (c *Conn) Interrupt() error {
	return errors.Join(c.c.CloseRead(), c.c.SetWriteDeadline(time.Unix(1, 0)))
}

// Send sends one message. The files remain the caller's. With Guard, a message with descriptors waits until the other
// end has received enough of the earlier ones. Error: ErrInFlight, if processes of its user do not.
func (c *Conn) Send(m []byte, files []*os.File) error {
	if len(files) == 0 {
		_, err := c.c.Write(m)
		return err
	}
	oob, err := rights(files)
	if err != nil {
		return err
	}
	if c.outlet != nil {
		return c.pass(m, len(files), oob)
	}
	_, _, err = c.c.WriteMsgUnix(m, oob, nil)
	return err
}

// TrySend sends one message without waiting. Error: syscall.EAGAIN if the other end has not received earlier ones.
func (c *Conn) TrySend(m []byte) error {
	var err error
	if e := c.raw.Control(func(fd uintptr) {
		err = unix.Send(int(fd), m, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}); e != nil {
		return e
	}
	return err
}

// Recv receives one message into b, which should have schema.MaxMessage bytes. The caller closes the files. It returns
// io.EOF when the other end has closed the connection. With ErrDescriptors, the message is valid, and there are no
// files.
func (c *Conn) Recv(b []byte) (n int, files []*os.File, err error) {
	r := &c.recv
	r.b = b
	err = c.raw.Read(c.read)
	r.b = nil
	return c.received(err)
}

// RecvPooled is Recv into a buffer of a pool of *[]byte. It takes the buffer when a message has arrived, so that a
// connection without messages has none. The caller returns b to the pool; without a message, b is nil.
func (c *Conn) RecvPooled(pool *sync.Pool) (b *[]byte, n int, files []*os.File, err error) {
	r := &c.recv
	r.pool = pool
	err = c.raw.Read(c.read)
	b = r.from
	r.b, r.pool, r.from = nil, nil, nil
	if n, files, err = c.received(err); err != nil && !errors.Is(err, ErrDescriptors) && b != nil {
		pool.Put(b)
		b = nil
	}
	return b, n, files, err
}

// received returns the result of a Recv whose system call ended with err.
func (c *Conn) received(err error) (n int, files []*os.File, _ error) {
	r := &c.recv
	switch {
	case err != nil:
		return 0, nil, err
	case r.errno != 0:
		return 0, nil, os.NewSyscallError("recvmsg", r.errno)
	}
	if r.oobn > 0 {
		files, err = c.receivedFiles(r.oob[:r.oobn])
	}
	if err == nil && len(files) > 0 && c.guard != nil && c.guard.IsStuck(c.uid) {
		err = errStuck
	}
	isCut := r.flags&unix.MSG_CTRUNC != 0
	if err == nil && (r.flags&unix.MSG_TRUNC != 0 || !isCut && len(files) > schema.MaxFiles) {
		err = ErrMessage
	}
	if err == nil && r.n == 0 {
		err = io.EOF
	}
	if err != nil {
		c.Discard(files)
		return 0, nil, err
	}
	if isCut {
		c.Discard(files)
		return r.n, nil, ErrDescriptors
	}
	return r.n, files, nil
}

// receivedFiles returns the descriptors of a control message.
func (c *Conn) receivedFiles(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	var files []*os.File
	for i := range messages {
		fds, notRights := unix.ParseUnixRights(&messages[i])
		if notRights != nil {
			continue
		}
		for _, fd := range fds { // after an error, too: each has to be closed
			f, bad := c.receivedFile(fd)
			if bad != nil {
				err = bad
				continue
			}
			files = append(files, f)
		}
	}
	return files, err
}

// CloseSend ends the messages to the other end, whose Recv then returns io.EOF. Recv of this end continues to work.
func (c *Conn) CloseSend() error { return c.c.CloseWrite() }

// Close closes the connection. Calls of Send and Recv return. With Guard, the socket remains, shut down, until the
// other end has received the descriptors that were sent, or has closed its end, too.
func (c *Conn) Close() error {
	if c.outlet == nil || !inFlight().end(c.outlet) {
		return c.c.Close()
	}
	err := errors.Join(c.c.CloseRead(), c.c.CloseWrite(), c.c.SetDeadline(time.Unix(1, 0))) // nothing is sent any more
	if !inFlight().leave(c.outlet, c.c) {
		return c.c.Close()
	}
	return err
}
