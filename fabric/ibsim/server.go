package ibsim

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"ciddk/clock"
	"ciddk/fabric"
)

// Config describes a server. The zero value serves clients without IBSIM_SOCKNAME.
type Config struct {
	// Name is the base of the names of the sockets; "" is "sim".
	Name string
	// Clients is the most clients at once; 0 is 64. ibsim has 10.
	Clients int
	// Timeout is the time after which a request without a response returns to its client; 0 is one second.
	Timeout time.Duration
	// Watch is the interval in which the server looks for clients whose process ended without a word, as after a
	// SIGKILL; 0 is 250 ms. Their role of a subnet manager ends then, too.
	Watch time.Duration
	// Clock is the source of time; nil is the machine's.
	Clock clock.Clock
	// Log takes what clients do; nil discards it.
	Log *slog.Logger
}

const (
	defaultClients = 64
	maxClients     = 256
	defaultTimeout = time.Second
	defaultWatch   = 250 * time.Millisecond
)

func (c *Config) setDefaults() {
	if c.Name == "" {
		c.Name = "sim"
	}
	if c.Clients == 0 {
		c.Clients = defaultClients
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Watch == 0 {
		c.Watch = defaultWatch
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// A Server serves management programs.
type Server struct {
	fabric *fabric.Fabric
	cfg    Config
	ctl    *socket
	done   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	clients []*client   // by number; nil: free
	timer   clock.Timer // of watch; nil before the first client
	watched bool        // the timer is set, or watch runs
}

// Listen serves a fabric's clients until Close. Errors: a system without abstract sockets, which only Linux has; a name
// that another server has.
func Listen(f *fabric.Fabric, c Config) (*Server, error) {
	c.setDefaults()
	if c.Clients < 1 || c.Clients > maxClients {
		return nil, fmt.Errorf("ibsim: %d clients: want 1 to %d", c.Clients, maxClients)
	}
	ctl, err := listen(address(c.Name, ":ctl"), c.Clock)
	if err != nil {
		return nil, fmt.Errorf("ibsim: %w (another server has the name %q: use another one, and set IBSIM_SOCKNAME "+
			"to it "+
			"for the programs)", err, c.Name)
	}
	s := &Server{fabric: f, cfg: c, ctl: ctl, clients: make([]*client, c.Clients)}
	s.done.Add(1)
	go s.serve()
	return s, nil
}

// address returns the address of an abstract socket. Its name ends in a zero byte, since clients count one.
func address(base, suffix string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: "@" + base + suffix + "\x00"}
}

// peerAddress returns an address that the net package reported, which lacks the zero byte.
func peerAddress(a *net.UnixAddr) *net.UnixAddr {
	if n := a.Name; n != "" && n[len(n)-1] == 0 {
		return a
	}
	return &net.UnixAddr{Net: "unixgram", Name: a.Name + "\x00"}
}

// Close disconnects all clients, and returns when the server's goroutines have ended. It is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	clients := append([]*client(nil), s.clients...)
	s.mu.Unlock()
	err := s.ctl.Close()
	for _, c := range clients {
		if c != nil {
			c.close()
		}
	}
	s.done.Wait()
	return err
}

// Clients returns the number of connected clients.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.clients {
		if c != nil {
			n++
		}
	}
	return n
}

// serve answers control messages, one after the other.
func (s *Server) serve() {
	defer s.done.Done()
	var b [controlLen + 1]byte
	for {
		n, from, err := s.ctl.receive(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if errors.Is(err, errOtherUser) {
			s.cfg.Log.Warn("control message dropped", "error", err)
		}
		if err != nil || from == nil || from.Name == "" {
			continue
		}
		c, ok := parseControl(b[:n])
		if !ok {
			s.cfg.Log.Warn("control message dropped", "bytes", n, "from", from.Name)
			continue
		}
		from = peerAddress(from)
		if err := s.control(&c, from); err != nil {
			s.cfg.Log.Warn("control message", "type", c.typ, "from", from.Name, "error", err)
			c.typ = typeError
		}
		var out [controlLen]byte
		c.put(&out)
		s.reply(out[:], from)
	}
}

// reply sends the response to a control message. A client that does not read it has a full socket: the response is lost
// after a moment.
func (s *Server) reply(b []byte, to *net.UnixAddr) {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := s.ctl.WriteToUnix(b, to); err != nil {
		s.cfg.Log.Warn("response to a control message", "to", to.Name, "error", err)
	}
}
