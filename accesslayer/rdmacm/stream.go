package rdmacm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Stream is a Conn as a stream of bytes: a net.Conn. Each Write sends messages of up to Conn.MaxMessage bytes, and an
// empty message marks the end of the data. Both ends of the connection must use Stream. All methods may be called
// concurrently.
type Stream struct {
	c           *Conn
	read, write *deadline

	reading sync.Mutex // of Read
	buffer  int        // index of the receive buffer that is being read
	rest    []byte     // the part of it that was not read
	eof     bool

	writing sync.Mutex // of Write and CloseWrite
	shut    bool

	closeOnce sync.Once
	closeErr  error
}

var _ net.Conn = (*Stream)(nil)

// NewStream returns a Conn as a stream of bytes. The Stream owns the Conn then; one-sided transfers remain possible.
func NewStream(c *Conn) *Stream { return &Stream{c: c, read: newDeadline(), write: newDeadline()} }

// Conn returns the underlying connection.
func (s *Stream) Conn() *Conn { return s.c }

// Read implements net.Conn. At the end of the peer's data, or when the peer has closed the connection, it returns
// io.EOF.
func (s *Stream) Read(b []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	ctx := s.read.context()
	if err := ctx.Err(); err != nil {
		return 0, s.c.fail("read", err)
	}
	if len(b) == 0 {
		return 0, nil
	}
	if s.eof {
		return 0, io.EOF
	}
	if len(s.rest) == 0 {
		i, wc, err := s.c.next(ctx, maxMessage)
		switch {
		case errors.Is(err, ErrPeerDisconnected):
			s.eof = true
			return 0, io.EOF
		case err != nil:
			return 0, s.c.fail("read", err)
		case wc.Length == 0:
			s.c.recycle(i)
			s.eof = true
			return 0, io.EOF
		}
		s.buffer, s.rest = i, s.c.e.recvs[i].data[:wc.Length]
	}
	n := copy(b, s.rest)
	if s.rest = s.rest[n:]; len(s.rest) == 0 {
		s.c.recycle(s.buffer)
	}
	return n, nil
}

// Write implements net.Conn. It returns when all bytes are in the send queue: see Conn.Send.
func (s *Stream) Write(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	ctx := s.write.context()
	if err := ctx.Err(); err != nil {
		return 0, s.c.fail("write", err)
	}
	if s.shut {
		return 0, s.c.fail("write", net.ErrClosed)
	}
	most := s.c.MaxMessage()
	n := 0
	for n < len(b) {
		m := min(len(b)-n, most)
		if err := s.c.send(ctx, b[n:n+m]); err != nil {
			return n, s.c.fail("write", err)
		}
		n += m
	}
	return n, nil
}

// CloseWrite marks the end of the data: the peer reads io.EOF after it. Reading remains possible.
func (s *Stream) CloseWrite() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.shut {
		return nil
	}
	if err := s.c.send(s.write.context(), nil); err != nil {
		return s.c.fail("close write", err)
	}
	s.shut = true
	return nil
}

// Close implements net.Conn. Like Conn.Close, it waits until the peer has acknowledged what was written, at most for
// ConnConfig.Linger.
func (s *Stream) Close() error {
	s.closeOnce.Do(func() {
		s.closeErr = s.c.Close()
		s.read.stop()
		s.write.stop()
	})
	return s.closeErr
}

// LocalAddr implements net.Conn.
func (s *Stream) LocalAddr() net.Addr { return s.c.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *Stream) RemoteAddr() net.Addr { return s.c.RemoteAddr() }

// SetDeadline implements net.Conn. Deadlines are times of the system's clock, or of the testing/synctest bubble.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.setDeadline(s.read, t) }

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.setDeadline(s.write, t) }

func (s *Stream) setDeadline(d *deadline, t time.Time) error {
	if errors.Is(s.c.e.err(), net.ErrClosed) {
		return s.c.fail("set deadline", net.ErrClosed)
	}
	d.set(t)
	return nil
}

// DialStream connects to an address and returns the connection as a stream, for http.Transport.DialContext and similar
// functions. It ignores network; address is an IP address and port.
func (d *Dialer) DialStream(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	c, err := d.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return NewStream(c), nil
}

// Streams returns the Listener as a net.Listener whose connections are streams. It accepts every request.
func (l *Listener) Streams() net.Listener { return streamListener{l} }

type streamListener struct{ l *Listener }

// Accept implements net.Listener. It skips a request that does not become a connection.
func (l streamListener) Accept() (net.Conn, error) {
	for {
		r, err := l.l.Accept(context.Background())
		if err != nil {
			return nil, err
		}
		if c, err := r.Accept(context.Background()); err == nil {
			return NewStream(c), nil
		}
	}
}

// Close implements net.Listener.
func (l streamListener) Close() error { return l.l.Close() }

// Addr implements net.Listener.
func (l streamListener) Addr() net.Addr { return l.l.Addr() }
