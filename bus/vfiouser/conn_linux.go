package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/passedfd"
)

// conn carries messages. One goroutine receives; any may send.
type conn struct {
	c  *net.UnixConn
	mu sync.Mutex // of sending

	discard *passedfd.Discarder // of descriptors of a peer that is not trusted, or nil
}

// message is a message that was received. The receiver closes the files.
type message struct {
	header
	body  []byte
	files []*os.File
	kinds []passedfd.Kind // of the files

	discard *passedfd.Discarder // of the connection
}

func (m *message) closeFiles() {
	for i, f := range m.files {
		if m.kinds[i] == passedfd.Object && m.discard != nil {
			m.discard.Close(peerUser, f) // it may wait for the peer: a socket with SO_LINGER
		} else {
			f.Close()
		}
	}
	m.files, m.kinds = nil, nil
}

// peerUser is the only user of a Discarder here.
const peerUser = 0

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// passed orders what one end did before it sent a message before what the other end does after it received the message,
// if both are in this process: sendmsg orders nothing for Go's memory model.
var passed atomic.Uint32

// receive returns the next message. Its body is in buf, which holds maxMessage bytes, and valid until the next call.
func (c *conn) receive(buf []byte) (m message, err error) {
	m.discard = c.discard
	defer func() {
		if err != nil {
			m.closeFiles()
		}
	}()
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	for n := 0; n < headerSize; {
		k, oobn, flags, _, err := c.c.ReadMsgUnix(buf[n:headerSize], oob)
		e := m.addFiles(oob[:oobn])
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return m, io.ErrUnexpectedEOF
		case err != nil:
			return m, err
		case e != nil:
			return m, e
		case flags&unix.MSG_CTRUNC != 0 || len(m.files) > maxFiles:
			return m, fmt.Errorf("vfiouser: a message with more than %d descriptors", maxFiles)
		}
		n += k
	}
	if m.header, err = parseHeader(buf); err != nil {
		return m, err
	}
	m.body = buf[headerSize:m.Size]
	_, err = io.ReadFull(c.c, m.body)
	passed.Load()
	return m, err
}

// addFiles adds the descriptors of a control message. A file of a file system that a process may implement is an error:
// any system call on it may wait for that process, including those of os.NewFile.
func (m *message) addFiles(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return os.NewSyscallError("recvmsg", err)
	}
	for i := range list {
		fds, notRights := unix.ParseUnixRights(&list[i])
		if notRights != nil {
			continue // a message of another kind
		}
		for _, fd := range fds { // after an error, too: each has to be closed
			unix.CloseOnExec(fd)
			kind := passedfd.KindOf(fd)
			if kind == passedfd.Foreign {
				err = errForeign
				if m.discard != nil {
					m.discard.Close(peerUser, passedfd.Number(fd))
				} else {
					unix.Close(fd)
				}
				continue
			}
			m.files = append(m.files, os.NewFile(uintptr(fd), "vfio-user"))
			m.kinds = append(m.kinds, kind)
		}
	}
	if err == nil && m.discard != nil && m.discard.IsStuck(peerUser) {
		err = errStuck
	}
	return err
}

var (
	errForeign = errors.New("vfiouser: a descriptor of a file that is neither in memory nor on a local disk")
	errStuck   = errors.New("vfiouser: a descriptor that was sent does not close")
)

// send sends a message whose first headerSize bytes are for the header.
func (c *conn) send(h header, b []byte, files ...*os.File) error {
	return c.sendBefore(time.Now().Add(timeout), h, b, files...)
}

// sendBefore is send with a limit.
func (c *conn) sendBefore(limit time.Time, h header, b []byte, files ...*os.File) error {
	h.Size = uint32(len(b))
	h.put(b)
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fd, err := number(f)
			if err != nil {
				return err
			}
			fds[i] = fd
		}
		oob = unix.UnixRights(fds...)
	}
	passed.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.c.SetWriteDeadline(limit); err != nil {
		return err
	}
	n, _, err := c.c.WriteMsgUnix(b, oob, nil)
	if err == nil && n < len(b) {
		_, err = c.c.Write(b[n:])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("vfiouser: the other side has not read for %v", timeout)
	}
	return err
}

// number returns the number of a descriptor, which the caller keeps open. Unlike File.Fd, it does not change its mode.
func number(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(n uintptr) { fd = int(n) })
	return fd, err
}

// start returns a buffer for a message with room for n bytes after the header.
func start(n int) []byte { return make([]byte, headerSize, headerSize+n) }
