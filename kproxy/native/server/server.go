package server

import (
	"errors"
	"net"
	"sync"
	"time"

	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// helloTimeout is the time in which a client must send its first request.
const helloTimeout = 10 * time.Second

// maxGreeting is the number of connections beyond the limit of clients that may exist: those that have not sent Hello.
const maxGreeting = 64

// Server serves connections.
type Server struct {
	core  *kproxy.Server
	clock clock.Clock

	mu     sync.Mutex
	closed bool
	conns  map[*native.Conn]struct{}
	wait   sync.WaitGroup
}

// New returns a server for core. clk is the source of time for timeouts.
func New(core *kproxy.Server, clk clock.Clock) *Server {
	return &Server{core: core, clock: clk, conns: map[*native.Conn]struct{}{}}
}

// Serve accepts connections until the listener is closed, and returns its error; net.ErrClosed is nil.
func (s *Server) Serve(l *net.UnixListener) error {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		conn, err := native.NewConn(c)
		if err != nil {
			c.Close()
			continue
		}
		s.ServeConn(conn)
	}
}

// ServeConn serves a connection, which it then owns, on a goroutine of its own.
func (s *Server) ServeConn(c *native.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= s.core.MaxClients()+maxGreeting {
		c.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.wait.Go(func() {
		s.serve(c)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Close ends all connections and returns when everything that their clients had has been destroyed. A connection is
// closed when the daemon does not use the client's memory any more. The listener is the caller's; it must be closed
// before.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Interrupt() // it fails if the client has closed the connection, which ends Recv, too
	}
	s.mu.Unlock()
	s.wait.Wait()
}
