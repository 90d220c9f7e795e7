package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// chunkLen is the number of bytes read from a connection at a time. A Link holds at most three chunks: one in the
// channel, and one in each of the two goroutines.
const chunkLen = 512

// A tcpLink is a Link over a TCP connection. A goroutine reads, so that the end of the connection is detected at once.
type tcpLink struct {
	conn   net.Conn
	chunks chan []byte
	left   []byte // unread part of the last chunk
	gone   chan struct{}
	quit   chan struct{}
	once   sync.Once
	err    error // of the reader; valid when chunks is closed
}

// Dial connects to a perftest server.
func Dial(ctx context.Context, address string) (Link, net.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("no server: %w", err)
	}
	return newTCP(c), c.RemoteAddr(), nil
}

// A Listener waits for one client.
type Listener struct{ ln net.Listener }

// Listen listens for a perftest client.
func Listen(ctx context.Context, address string) (*Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Listener{ln}, nil
}

// Addr returns the address that the Listener listens on.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Accept waits for a client until ctx ends, and closes the Listener.
func (l *Listener) Accept(ctx context.Context) (Link, net.Addr, error) {
	defer l.ln.Close()
	defer context.AfterFunc(ctx, func() { l.ln.Close() })()
	c, err := l.ln.Accept()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, fmt.Errorf("waiting for a client: %w", err)
	}
	return newTCP(c), c.RemoteAddr(), nil
}

// Close closes the Listener. It is idempotent.
func (l *Listener) Close() error {
	if err := l.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func newTCP(c net.Conn) Link {
	l := &tcpLink{conn: c, chunks: make(chan []byte, 1), gone: make(chan struct{}), quit: make(chan struct{})}
	go l.read()
	return l
}

func (l *tcpLink) read() {
	defer close(l.chunks)
	defer close(l.gone)
	for {
		b := make([]byte, chunkLen)
		n, err := l.conn.Read(b)
		if n > 0 {
			select {
			case l.chunks <- b[:n]:
			case <-l.quit:
				l.err = net.ErrClosed
				return
			}
		}
		if err != nil {
			l.err = err
			return
		}
	}
}

func (l *tcpLink) Done() <-chan struct{} { return l.gone }

func (l *tcpLink) Pending() bool { return len(l.left) > 0 || len(l.chunks) > 0 }

func (l *tcpLink) Send(ctx context.Context, b []byte) error {
	defer context.AfterFunc(ctx, func() { _ = l.conn.SetWriteDeadline(time.Unix(1, 0)) })()
	_, err := l.conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (l *tcpLink) Recv(ctx context.Context, b []byte) error {
	for n := 0; n < len(b); {
		if len(l.left) == 0 {
			select {
			case l.left = <-l.chunks:
			case <-ctx.Done():
				return fmt.Errorf("%d of %d bytes arrived: %w", n, len(b), context.Cause(ctx))
			}
			if l.left == nil {
				if errors.Is(l.err, io.EOF) {
					return ErrLeft
				}
				return fmt.Errorf("%w: %w", ErrLeft, l.err)
			}
		}
		k := copy(b[n:], l.left)
		n += k
		l.left = l.left[k:]
	}
	return nil
}

// Close closes the connection, and waits for the reader. It is idempotent.
func (l *tcpLink) Close() error {
	var err error
	l.once.Do(func() {
		close(l.quit)
		err = l.conn.Close()
	})
	<-l.gone
	return err
}
