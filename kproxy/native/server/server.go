package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"ciddk/clock"
	"ciddk/internal/passedfd"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// helloTimeout is the time in which a client must send its first request.
const helloTimeout = 10 * time.Second

// maxGreeting is the number of connections beyond the limit of clients that may exist: those that have not sent Hello.
// One user may have half of them, so that a user cannot keep others from connecting.
const maxGreeting = 64

// Server serves connections.
type Server struct {
	core    *kproxy.Server
	clock   clock.Clock
	discard *passedfd.Discarder

	mu     sync.Mutex
	closed bool
	conns  native.Conns
	idle   chan struct{} // closed when the last connection ends; nil: nobody waits
	wait   sync.WaitGroup
}

// New returns a server for core. clk is the source of time for timeouts.
func New(core *kproxy.Server, clk clock.Clock) *Server {
	return &Server{core: core, clock: clk, discard: passedfd.NewDiscarder(clk)}
}

// acceptRetry is the time after which Serve accepts again when the daemon has no descriptor for another connection.
const acceptRetry = 50 * time.Millisecond

// Serve accepts connections until the listener is closed, and returns its error; net.ErrClosed is nil. While the daemon
// has no descriptors or memory for another connection, connections wait in the listener.
func (s *Server) Serve(l *net.UnixListener) error {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if isShortage(err) {
			if s.makeRoom() {
				continue
			}
			again := make(chan struct{})
			s.clock.AfterFunc(acceptRetry, func() { close(again) })
			<-again
			continue
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

// isShortage reports whether accept failed because of the machine's or the process's limits.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ServeConn serves a connection, which it then owns, on a goroutine of its own. If there is no room for it, the oldest
// connection is closed that has not begun.
func (s *Server) ServeConn(c *native.Conn) {
	_, uid, _, err := c.Peer()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.closed || s.discard.IsStuck(uid) ||
		!s.conns.Admit(c, uid, s.core.MaxClients()+maxGreeting, s.core.MaxClientsPerUser()+maxGreeting/2) {
		c.Close()
		return
	}
	c.Guard(s.discard)
	s.wait.Go(func() {
		s.serve(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns.Remove(c)
		if s.conns.Len() == 0 && s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
	})
}

// makeRoom closes a connection that has not begun, if there is one, when the daemon has no descriptors for another.
func (s *Server) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns.Evict()
}

// Drain returns when all connections have ended, or with the error of ctx. The listener must be closed before. It is
// called once.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	idle := make(chan struct{})
	if s.conns.Len() == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections and returns when everything that their clients had has been destroyed. A connection is
// closed when the daemon does not use the client's memory any more. The listener is the caller's; it must be closed
// before.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns.All() {
		_ = c.Interrupt() // it fails if the client has closed the connection, which ends Recv, too
	}
	s.mu.Unlock()
	s.wait.Wait()
}
