package nvmet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/clock"
)

// Port is the port of NVMe over Fabrics.
const Port = 4420

// DiscoveryNQN is the name under which every target has a discovery controller.
const DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

// Config describes a Target. NQN and Backend must be set.
type Config struct {
	NQN     string  // name of the subsystem, up to 223 bytes
	Backend Backend // namespace 1; the caller closes it after the Target
	Queues  int     // I/O queues of a controller, at most; 0: 8
	Depth   int     // commands of a queue, at most; 0: 128
	Memory  int64   // bytes that all hosts together can make the target hold; 0: 256 MiB
	Logger  *slog.Logger
}

func (c *Config) complete() error {
	for p, standard := range map[*int]int{&c.Queues: 8, &c.Depth: 128} {
		if *p == 0 {
			*p = standard
		}
	}
	if c.Memory == 0 {
		c.Memory = 256 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.NQN == "" || len(c.NQN) > maxNQN || c.NQN == DiscoveryNQN:
		return fmt.Errorf("nvmet: NQN is %q, want a name of 1 to %d bytes for a subsystem", c.NQN, maxNQN)
	case c.Backend == nil || c.Backend.Size() < blockLen:
		return fmt.Errorf("nvmet: Backend is missing, or has less than %d bytes", blockLen)
	case c.Queues < 0 || c.Queues > 1024:
		return fmt.Errorf("nvmet: Queues is %d, want 1 to 1024", c.Queues)
	case c.Depth < 32 || c.Depth > 1024:
		return fmt.Errorf("nvmet: Depth is %d, want 32 to 1024", c.Depth)
	}
	return nil
}

// setupTime is the time within which a host completes a connection, and then sends Connect.
const setupTime = 30 * time.Second

// Target accepts hosts until Close.
type Target struct {
	m      *rdmacm.Manager
	ln     *rdmacm.Listener
	cfg    Config
	clock  clock.Clock
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the acceptor, and each queue

	mu          sync.Mutex
	held        int64 // bytes
	lastID      uint16
	controllers map[uint16]*controller
}

// Listen starts a target at an address. Errors: those of rdmacm.Manager.Listen and of an invalid Config.
func Listen(m *rdmacm.Manager, at netip.AddrPort, cfg Config) (*Target, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	ln, err := m.Listen(at, rdmacm.ListenConfig{Conn: rdmacm.ConnConfig{Plain: true, MaxMessage: capsuleLen}})
	if err != nil {
		return nil, err
	}
	t := newTarget(cfg, m.AL().Clock())
	t.m, t.ln = m, ln
	t.wg.Go(t.accept)
	return t, nil
}

func newTarget(cfg Config, c clock.Clock) *Target {
	t := &Target{cfg: cfg, clock: c, controllers: map[uint16]*controller{}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// Addr returns the address and port at which the target listens.
func (t *Target) Addr() netip.AddrPort { return t.ln.Addr().AddrPort }

// Close ends all connections and waits until nothing uses the Backend. It is idempotent.
func (t *Target) Close() error {
	t.cancel(errClosed)
	err := t.ln.Close()
	t.wg.Wait()
	return err
}

var errClosed = errors.New("the target is closed")

func (t *Target) accept() {
	for {
		r, err := t.ln.Accept(t.ctx)
		if err != nil {
			if t.ctx.Err() == nil {
				t.cfg.Logger.Error("nvmet: the listener has ended", "error", err)
			}
			return
		}
		log := t.cfg.Logger.With("host", r.RemoteAddr().AddrPort)
		p, reason := parseRequest(r.Private(), &t.cfg)
		cost := queueCost(p)
		if reason == 0 && !t.hold(cost) {
			reason = rejectResources
		}
		if reason != 0 {
			log.Warn("nvmet: a connection is rejected", "queue", p.queue, "reason", reason)
			if err := r.Reject(reject(reason)); err != nil {
				log.Warn("nvmet: rejecting a connection", "error", err)
			}
			continue
		}
		t.wg.Go(func() {
			defer t.release(cost)
			t.serve(r, p, log.With("queue", p.queue))
		})
	}
}

// hold takes bytes from the limit of the target.
func (t *Target) hold(n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > t.cfg.Memory-t.held {
		return false
	}
	t.held += n
	return true
}

func (t *Target) release(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held -= n
}

// serve carries out a connection, from the request to its end.
func (t *Target) serve(r *rdmacm.Request, p connectRequest, log *slog.Logger) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	late := t.clock.AfterFunc(setupTime, func() { cancel(errors.New("the host has not sent Connect")) })
	defer late.Stop()
	r.Config.Depth, r.Config.Private = p.entries(), p.accept()
	c, err := r.Accept(ctx)
	if err != nil {
		log.Warn("nvmet: a connection is not established", "error", err)
		return
	}
	q := newQueue(t, c, p, log)
	q.cancel = cancel
	q.memory = t.m.NewMemory(ci.Bytes(q.data), 0)
	q.connected = func() { late.Stop() }
	q.local = c.LocalAddr().AddrPort
	cause := q.receive(ctx, c)
	cancel(cause)
	q.leave()
	q.commands.Wait()
	err = errors.Join(c.Close(), q.memory.Close())
	level := slog.LevelWarn
	for _, usual := range []error{rdmacm.ErrPeerDisconnected, errClosed, errController, errReset} {
		if errors.Is(cause, usual) {
			level = slog.LevelInfo
		}
	}
	log.Log(context.Background(), level, "nvmet: a queue has ended", "cause", cause, "error", err)
}
