package join

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/fabric"
)

// Config describes a Server. The zero value is valid.
type Config struct {
	// Connections is the most connections at once; 0 is 4096.
	Connections int
	// Waiting is the number of bytes that may wait for processes that do not read, in all connections; 0 is 256 MiB.
	// One connection has up to 4 MiB, and as many that are being written. Beyond the limit, each has 64 KiB.
	Waiting int64
	// HelloTime is the time that a connection has for its first message; 0 is 5 seconds.
	HelloTime time.Duration
	// Log takes what processes do; nil discards it.
	Log *slog.Logger
}

const (
	defaultConnections = 4096
	defaultWaiting     = 256 << 20
	defaultHelloTime   = 5 * time.Second
)

// A Server serves the ports of a fabric to other processes.
type Server struct {
	fabric   *fabric.Fabric
	cfg      Config
	listener net.Listener
	done     sync.WaitGroup
	budget   budget
	dropped  atomic.Uint64
	invalid  atomic.Uint64

	stop chan struct{} // closed by Close

	mu       sync.Mutex
	closed   bool
	sessions map[net.Conn]struct{}
	left     map[place]bool          // ports whose process has left: their cable is out
	owners   map[place]chan struct{} // of ports with a process; closed when it has left the port
}

// place is a port of a fabric.
type place struct {
	node string
	port uint8
}

// Serve serves a fabric on a listener until Close. It closes the listener.
func Serve(f *fabric.Fabric, l net.Listener, c Config) *Server {
	if c.Connections == 0 {
		c.Connections = defaultConnections
	}
	if c.Waiting == 0 {
		c.Waiting = defaultWaiting
	}
	if c.HelloTime == 0 {
		c.HelloTime = defaultHelloTime
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{fabric: f, cfg: c, listener: l, stop: make(chan struct{}),
		sessions: make(map[net.Conn]struct{}), left: make(map[place]bool), owners: make(map[place]chan struct{})}
	s.budget.max = c.Waiting
	s.done.Go(s.accept)
	return s
}

// Close ends all connections, and returns when the server's goroutines have ended. It is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.stop)
	for c := range s.sessions {
		_ = c.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.done.Wait()
	return err
}

// Sessions returns the number of connections.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// AddCounters adds the counters of all connections so far to m: "join_dropped" counts packets for processes that did
// not read, "join_invalid" those of processes that were damaged.
func (s *Server) AddCounters(m map[string]uint64) {
	m["join_dropped"] += s.dropped.Load()
	m["join_invalid"] += s.invalid.Load()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.cfg.Log.Warn("connection not accepted", "error", err)
			select {
			case <-s.stop:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		if !s.add(c) {
			s.cfg.Log.Warn("too many connections", "limit", s.cfg.Connections)
			_ = c.Close()
			continue
		}
		s.done.Go(func() {
			err := s.serve(c)
			s.cfg.Log.Info("connection ended", "error", err)
			s.remove(c)
		})
	}
}

// acceptPause is the time between attempts to accept when there is no descriptor or no memory.
const acceptPause = 50 * time.Millisecond

func (s *Server) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.sessions) >= s.cfg.Connections {
		return false
	}
	s.sessions[c] = struct{}{}
	return true
}

func (s *Server) remove(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
}

// serve serves a connection to its end.
func (s *Server) serve(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(s.cfg.HelloTime)); err != nil {
		return err
	}
	typ, b, _, err := readMessage(c, nil, maxHello)
	if err != nil {
		return err
	}
	var h hello
	if typ != typeHello {
		return fmt.Errorf("%w: type %d, want a hello", errMessage, typ)
	}
	if err := decode(b, &h); err != nil {
		return err
	}
	k, err := s.join(&h, c)
	if err != nil {
		_, _ = c.Write(appendMessage(nil, typeWelcome, encode(welcome{Error: err.Error()}))) // it ends anyway
		return err
	}
	s.cfg.Log.Info("joined", "node", k.at.node, "port", k.at.port)
	defer k.leave()
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return k.read(c)
}

// maxHello is the longest first message.
const maxHello = 4096

// join connects a process with a port.
func (s *Server) join(h *hello, c net.Conn) (*session, error) {
	if h.Version != version {
		return nil, fmt.Errorf("join: protocol version %d, the fabric has %d", h.Version, version)
	}
	p, err := s.fabric.Port(h.Node, h.Port)
	if err != nil {
		return nil, err
	}
	at := place{p.Node(), p.Num()}
	ca, gone, err := s.takePort(h, at)
	if err != nil {
		return nil, err
	}
	k := &session{server: s, ca: ca, at: at, gone: gone, stream: newStream(c, &s.budget), routes: newRoutes(ca)}
	if err := k.start(); err != nil {
		err = errors.Join(err, ca.Close())
		k.disown()
		return nil, err
	}
	return k, nil
}

// leaveTime is the time for which a process waits for a port whose process may have exited. The end of that connection
// takes a moment to arrive, and programs are often started again at once.
const leaveTime = time.Second

// takePort takes a port for a process, whose session closes gone when it has left the port.
func (s *Server) takePort(h *hello, at place) (ca *fabric.CAPort, gone chan struct{}, err error) {
	limit := time.NewTimer(leaveTime)
	defer limit.Stop()
	for {
		s.mu.Lock()
		before := s.owners[at]
		s.mu.Unlock()
		if ca, err = s.fabric.CAPort(h.Node, h.Port); err == nil {
			gone = make(chan struct{})
			s.mu.Lock()
			defer s.mu.Unlock()
			s.owners[at] = gone
			return ca, gone, nil
		}
		if before == nil { // an adapter of this process, or no port for an adapter
			return nil, nil, err
		}
		select {
		case <-before:
		case <-limit.C:
			return nil, nil, err
		case <-s.stop:
			return nil, nil, err
		}
	}
}

// isLeft reports whether the last process at a port has left it, and forgets it.
func (s *Server) isLeft(at place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.left[at]
	delete(s.left, at)
	return was
}

// setLeft notes that the process at a port has left.
func (s *Server) setLeft(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[at] = true
}
