package usersuite

import (
	"crypto/rand"
	"net"
	"os"
	"syscall"

	"ciddk/kproxy/native"
	"ciddk/validate"
)

// filesLimit returns RLIMIT_NOFILE.
func filesLimit(t *validate.T) syscall.Rlimit {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Harness("RLIMIT_NOFILE: %v", err)
	}
	return l
}

// descriptorLimit returns the number of descriptors in flight that docs/limits.md states.
func descriptorLimit(t *validate.T) int { return int(max(16, min(filesLimit(t).Cur/8, 4096))) }

// descriptorShare returns the number of descriptors for clients that docs/limits.md states.
func descriptorShare(t *validate.T) int { return int(min(filesLimit(t).Cur/4*3, 1<<31-1)) }

// exhaustion has this process without room for further descriptors until its end.
type exhaustion struct {
	t   *validate.T
	old syscall.Rlimit
}

// exhausted lowers RLIMIT_NOFILE to the lowest number that is not in use.
func exhausted(t *validate.T) *exhaustion {
	x := &exhaustion{t, filesLimit(t)}
	fd, err := syscall.Dup(0)
	if err != nil {
		t.Harness("a descriptor: %v", err)
	}
	syscall.Close(fd)
	l := x.old
	l.Cur = uint64(fd)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Harness("RLIMIT_NOFILE: %v", err)
	}
	t.Cleanup(x.end)
	return x
}

// end restores the limit.
func (x *exhaustion) end() {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &x.old); err != nil {
		x.t.Report(validate.Failure{Where: "RLIMIT_NOFILE", Expected: "the limit before", Got: err.Error()})
	}
}

// dial is a connection to a socket of the daemon that needs no descriptor when it is made.
type dial struct {
	t        *validate.T
	path     string
	listener *net.UnixListener
	fd       int
}

// newDial returns a connection that is not made yet.
func newDial(t *validate.T) *dial {
	d := &dial{t: t, path: "@ddk-validate-" + rand.Text()}
	var err error
	if d.listener, err = native.Listen(d.path); err != nil {
		t.Harness("a socket: %v", err)
	}
	if d.fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0); err != nil {
		t.Harness("a socket: %v", err)
	}
	t.Cleanup(func() { d.listener.Close() })
	return d
}

// connect makes the connection.
func (d *dial) connect() error { return syscall.Connect(d.fd, &syscall.SockaddrUnix{Name: d.path}) }

// conn returns the connection.
func (d *dial) conn() *native.Conn {
	c, err := native.FileConn(os.NewFile(uintptr(d.fd), "dial"))
	if err != nil {
		d.t.Harness("a socket: %v", err)
	}
	return c
}

// socketPair returns the two ends of a socket of messages.
func socketPair() (a, b *os.File, err error) {
	const typ = syscall.SOCK_SEQPACKET | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK
	fds, err := syscall.Socketpair(syscall.AF_UNIX, typ, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "daemon"), os.NewFile(uintptr(fds[1]), "client"), nil
}
