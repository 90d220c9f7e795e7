package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ciddk/kproxy/native"
)

// echoSize is the size of an echo's message: that of the request to allocate a PD.
const echoSize = 64

// runEcho serves both echoes until standard input ends.
func runEcho(dir string, out io.Writer) error {
	l, err := native.Listen(filepath.Join(dir, echoName))
	if err != nil {
		return err
	}
	defer l.Close()
	go serveEcho(l)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, rawEchoName)}); err != nil {
		return err
	}
	if err := unix.Listen(fd, 16); err != nil {
		return err
	}
	go serveRawEcho(fd)
	fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the run closes it
	return nil
}

func serveEcho(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b := make([]byte, 2*echoSize)
			for {
				n, err := c.Read(b)
				if err == nil {
					_, err = c.Write(b[:n])
				}
				if err != nil || n == 0 {
					return
				}
			}
		}()
	}
}

// serveRawEcho serves one connection at a time with blocking system calls.
func serveRawEcho(l int) {
	b := make([]byte, 2*echoSize)
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		for {
			n, err := unix.Read(fd, b)
			if err == nil && n > 0 {
				_, err = unix.Write(fd, b[:n])
			}
			if err != nil || n == 0 {
				break
			}
		}
		unix.Close(fd)
	}
}

// echoConn is a client of an echo.
type echoConn struct {
	out, in []byte
	write   func([]byte) (int, error)
	read    func([]byte) (int, error)
	close   func()
}

func (e *echoConn) roundTrip() error {
	if _, err := e.write(e.out); err != nil {
		return err
	}
	n, err := e.read(e.in)
	if err == nil && n != len(e.out) {
		err = errors.New("short echo")
	}
	return err
}

func dialEcho(path string) (*echoConn, error) {
	c, err := net.Dial(native.Network, path)
	if err != nil {
		return nil, err
	}
	return &echoConn{make([]byte, echoSize), make([]byte, echoSize), c.Write, c.Read, func() { c.Close() }}, nil
}

func dialRawEcho(path string) (*echoConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &echoConn{make([]byte, echoSize), make([]byte, echoSize),
		func(b []byte) (int, error) { return unix.Write(fd, b) },
		func(b []byte) (int, error) { return unix.Read(fd, b) },
		func() { unix.Close(fd) }}, nil
}
