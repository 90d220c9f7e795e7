package kproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	users "ciddk/internal/private"
)

// Defaults of Config.
const (
	DefaultMaxClients        = 4096
	DefaultMaxClientsPerUser = 1024
	DefaultCopyTimeout       = time.Second
)

// Config describes a daemon's core. AL is required.
type Config struct {
	AL     *accesslayer.AL
	Logger *slog.Logger // nil: slog.Default
	Quota  Quota        // of each client

	MaxClients        int // 0: DefaultMaxClients
	MaxClientsPerUser int // 0: DefaultMaxClientsPerUser

	// Service executes the commands that are not verbs. nil: they are Unsupported.
	Service Service

	// Privileged reports whether a client may change ports (CA.Modify, and LocalMAD with a method other than Get and
	// GetTable), see the status of other clients, use Control, and do what a Service permits to such clients only. nil:
	// clients with the daemon's own user id, and root.
	Privileged func(Peer) bool

	// CanCopy reports whether a client may register memory that it allocated itself, which the daemon reaches by
	// copies, or by requests to the client where the system does not permit that. nil: clients with the daemon's own
	// user id, and root. Others register memory by descriptor. A copy lasts as long as its pages take (userfaultfd, a
	// FUSE file system). It is limited by CopyTimeout for clients of other users, for mapped files, and by the
	// client. After a copy that took longer, no memory of a user without trust is copied for 10 minutes. Copies of
	// other memory are not limited, and may delay other clients of the adapter, unless LimitCopies is set.
	CanCopy func(Peer) bool

	// CopyTimeout is the time that such a copy may take. Up to twice the time may pass before it is noticed, in which
	// the client's other copies, and other clients of the adapter, may wait. A registration by a client with the
	// daemon's own user id, or root, may take 30 times as long. 0: DefaultCopyTimeout.
	CopyTimeout time.Duration

	// LimitCopies has CopyTimeout limit the copies for every client, also for those of the daemon's user and root,
	// which then lose the right to copies for 10 minutes as others do. Each copy takes 3 to 7 microseconds longer.
	LimitCopies bool

	// KernelChecks has a daemon with CAP_SYS_PTRACE copy like one without it where the kernel permits that, for clients
	// of its own user: many ranges by one system call. The threads that copy give up the capability, which remains
	// permitted: code that needs it uses Traced.
	KernelChecks bool

	// ClientCopies has clients copy the memory that they allocated, even where the system permits the daemon to do so.
	ClientCopies bool

	// Build is what the daemon was built from, for its status.
	Build string

	// Describe adds to the status of an adapter what only the daemon knows. nil: nothing.
	Describe func(*accesslayer.Adapter, *AdapterStatus)

	// Control executes an operation of the daemon itself, such as adding an adapter, for a privileged client. Request
	// and reply are the daemon's. nil: such requests fail with Unsupported.
	Control func(p Peer, operation string, request []byte) ([]byte, error)
}

// Server executes verbs for client processes. Its methods may be called concurrently.
type Server struct {
	cfg      Config
	atomics  atomicLocks
	delays   suspensions
	shares   shares
	pnp      *accesslayer.Client // that is notified of removals
	messages [schema.NumCommands]atomic.Uint64
	refused  refusals
	endings  atomic.Uint64 // sessions that have ended

	mu       sync.Mutex
	closed   bool
	stopping bool
	idle     chan struct{} // closed when the last session ends; nil: nobody waits
	ended    Totals        // of the sessions that have ended
	nextID   uint64
	sessions map[*Session]struct{}
	wait     sync.WaitGroup // of sessions
}

// isOwnUser reports whether a client has the daemon's user id, or is root.
func isOwnUser(p Peer) bool { return users.IsOwn(p.UID) }

// New returns a server without clients.
func New(cfg Config) (*Server, error) {
	if cfg.AL == nil {
		return nil, errors.New("kproxy: Config.AL is nil")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Quota = cfg.Quota.WithDefaults()
	cfg.MaxClients = cmp.Or(max(cfg.MaxClients, 0), DefaultMaxClients)
	cfg.MaxClientsPerUser = cmp.Or(max(cfg.MaxClientsPerUser, 0), DefaultMaxClientsPerUser)
	if cfg.Privileged == nil {
		cfg.Privileged = isOwnUser
	}
	if cfg.CanCopy == nil {
		cfg.CanCopy = isOwnUser
	}
	if cfg.CopyTimeout == 0 {
		cfg.CopyTimeout = DefaultCopyTimeout
	}
	s := &Server{cfg: cfg, sessions: map[*Session]struct{}{}}
	if err := s.watch(); err != nil {
		return nil, err
	}
	return s, nil
}

// MaxClients returns the number of clients that may be connected.
func (s *Server) MaxClients() int { return s.cfg.MaxClients }

// MaxClientsPerUser returns the number of clients of one user that may be connected.
func (s *Server) MaxClientsPerUser() int { return s.cfg.MaxClientsPerUser }

// Peer is a client process, as the kernel reported it for its socket.
type Peer struct {
	PID, UID, GID int
}

// Open creates the session of a client. pointerBits is 32 or 64; name is for logs and status. Status:
// InsufficientResources (too many clients), InvalidState (closed).
func (s *Server) Open(p Peer, pointerBits int, name string) (*Session, error) {
	var c *Session
	err := s.afterEndings(nil, func() (err error) {
		c, err = s.open(p, pointerBits, name)
		return err
	})
	return c, err
}

// open is Open for sessions that can be counted as they are.
func (s *Server) open(p Peer, pointerBits int, name string) (*Session, error) {
	const verb = "kproxy.Open"
	command := commandOf(p.PID)
	s.mu.Lock()
	defer s.mu.Unlock()
	users := 0
	for c := range s.sessions {
		if c.peer.UID == p.UID {
			users++
		}
	}
	switch {
	case s.closed:
		return nil, failf(verb, ci.InvalidState, "the daemon is stopping")
	case len(s.sessions) >= s.cfg.MaxClients:
		s.refused.clients.Add(1)
		return nil, failf(verb, ci.InsufficientResources, "%d clients are connected, which is the limit",
			len(s.sessions))
	case users >= s.cfg.MaxClientsPerUser:
		s.refused.clientsOfUser.Add(1)
		return nil, failf(verb, ci.InsufficientResources, "user %d has %d clients, which is the limit", p.UID, users)
	}
	client, err := s.cfg.AL.Open(accesslayer.ClientConfig{Name: fmt.Sprintf("process %d", p.PID)})
	if err != nil {
		return nil, err
	}
	s.nextID++
	c := newSession(s, s.nextID, p, pointerBits, name, client)
	c.command = command
	s.sessions[c] = struct{}{}
	s.wait.Add(1)
	c.log.Info("kproxy: client connected", "name", name)
	return c, nil
}

// forget removes a session whose cleanup is complete.
func (s *Server) forget(c *Session) {
	s.mu.Lock()
	delete(s.sessions, c)
	s.ended.add(&c.stats)
	if len(s.sessions) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	s.mu.Unlock()
	s.endings.Add(1)
	s.wait.Done()
}

// Stop announces the end of the daemon: every open of an adapter, also a later one, receives EventLocalFatal. Verbs
// continue to work. Stop returns when no client is left, or with the error of ctx. It is called once, before Close.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	idle := make(chan struct{})
	if len(s.sessions) == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	s.mu.Unlock()
	for _, c := range s.Sessions() {
		c.stopping()
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// Close closes all sessions and waits until their cleanup is complete. Open fails from now on. It is idempotent. The
// access layer remains open.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	list := make([]*Session, 0, len(s.sessions))
	for c := range s.sessions {
		list = append(list, c)
	}
	s.mu.Unlock()
	var errs []error
	for _, c := range list {
		errs = append(errs, c.Close())
	}
	s.wait.Wait()
	return errors.Join(append(errs, s.pnp.Close())...)
}

// Sessions returns the clients, the oldest first.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	list := make([]*Session, 0, len(s.sessions))
	for c := range s.sessions {
		list = append(list, c)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	return list
}

func failf(verb string, s ci.Status, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf(format, args...)}
}
