package through

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/kproxy/services"
	"ciddk/validate"
)

// daemonVar is the environment variable of a daemon process: the name of the driver that it serves.
const daemonVar = "DDK_VALIDATE_DAEMON"

// channelFD is the descriptor of the socket to the worker.
const channelFD = 3

// Serve serves the targets of a worker and ends the process, if this process is a daemon process for one of the
// drivers. Otherwise it does nothing. Programs call it first of all.
func Serve(drivers ...validate.Driver) {
	for _, d := range drivers {
		if os.Getenv(daemonVar) == d.Name {
			os.Exit(serveProcess(d))
		}
	}
}

// serveProcess serves a driver until the worker closes the socket. It returns the exit status.
func serveProcess(d validate.Driver) int {
	c, err := native.FileConn(os.NewFile(channelFD, "worker"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "through: the socket to the worker:", err)
		return 1
	}
	s := &service{driver: d, c: c, handles: map[uint64]any{}, calls: map[uint64]context.CancelFunc{}}
	buf := make([]byte, maxMessage)
	for {
		var r request
		files, err := receive(c, buf, &r)
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "through:", err)
			return 1
		}
		ctx := s.begin(r.ID)
		go func() {
			x := s.do(ctx, &r, files)
			s.end(r.ID)
			x.ID = r.ID
			if err := send(c, x); err != nil { // for example, the packet is too long
				_ = send(c, &reply{ID: r.ID, Failure: newFailure(err)}) // the connection is lost: the reader ends
			}
		}()
	}
}

// service is the state of a daemon process.
type service struct {
	driver validate.Driver
	c      *native.Conn

	mu      sync.Mutex
	calls   map[uint64]context.CancelFunc // of requests in execution
	handles map[uint64]any                // captures and ends of the link
	next    uint64
	target  *served
	settled int // goroutines after the first target was closed; 0: none was
}

// begin returns the context of a request.
func (s *service) begin(id uint64) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id] = cancel
	return ctx
}

// end ends the context of a request.
func (s *service) end(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.calls[id]; cancel != nil {
		cancel()
		delete(s.calls, id)
	}
}

// hold returns a handle for a capture or an end of the link.
func (s *service) hold(x any) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.handles[s.next] = x
	return s.next
}

// held returns what a handle stands for.
func held[T any](s *service, handle uint64, drop bool) (x T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.handles[handle].(T)
	if !ok {
		return x, fmt.Errorf("through: no handle %d", handle)
	}
	if drop {
		delete(s.handles, handle)
	}
	return x, nil
}

// current returns the open target.
func (s *service) current() (*served, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target == nil {
		return nil, errors.New("through: no target is open")
	}
	return s.target, nil
}

// do executes a request.
func (s *service) do(ctx context.Context, r *request, files []*os.File) *reply {
	x := new(reply)
	x.Failure = newFailure(s.execute(ctx, r, files, x))
	return x
}

func (s *service) execute(ctx context.Context, r *request, files []*os.File, x *reply) error {
	switch r.Op {
	case opPing:
		return nil
	case opCancel:
		s.end(r.Handle)
		return nil
	case opOpen:
		return s.open(ctx, r, files, x)
	case opSend, opRecv, opEndWire:
		return s.wire(ctx, r, x)
	case opStop:
		stop, err := held[func() error](s, r.Handle, true)
		if err != nil {
			return err
		}
		return stop()
	}
	t, err := s.current()
	if err != nil {
		return err
	}
	switch r.Op {
	case opClose:
		return s.close(ctx)
	case opLive:
		x.Live = t.target.Live()
		return nil
	case opImpair:
		return t.target.Impair(r.Impairment)
	case opSetLink:
		return t.target.SetLink(r.Up)
	case opProbe:
		x.Sent, x.Lost, err = t.target.Probe(ctx)
		return err
	case opCapture:
		stop, err := t.target.Capture(r.Path)
		if err == nil {
			x.Handle = s.hold(stop)
		}
		return err
	case opEnd:
		w, err := t.target.Wire()
		if err == nil {
			info := w.Info()
			x.Handle, x.Wire = s.hold(w), &info
		}
		return err
	case opServe, opManage, opRelease, opDepart, opRetire:
		return t.hosts.do(r.Op, r.GUID)
	}
	return fmt.Errorf("through: unknown operation %q", r.Op)
}

// wire executes a request for an end of the link.
func (s *service) wire(ctx context.Context, r *request, x *reply) error {
	w, err := held[validate.Wire](s, r.Handle, r.Op == opEndWire)
	if err != nil {
		return err
	}
	switch r.Op {
	case opSend:
		return w.Send(r.Packet)
	case opRecv:
		x.Packet, err = w.Recv(ctx)
		return err
	}
	return w.Close()
}

// open opens a target and starts a daemon on it.
func (s *service) open(ctx context.Context, r *request, files []*os.File, x *reply) error {
	if len(files) != 1 {
		closeAll(files)
		return fmt.Errorf("through: %d descriptors with a request to open a target", len(files))
	}
	conn, err := native.FileConn(files[0])
	if err != nil {
		return err
	}
	t, err := newServed(ctx, s.driver, r, conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target != nil {
		return errors.Join(errors.New("through: a target is open already"), t.close(ctx))
	}
	s.target, x.Target = t, t.describe()
	return nil
}

// close closes the target. Goroutines of the driver that a closed target leaves are an error, except those that the
// first target of the process leaves: a driver may start some once.
func (s *service) close(ctx context.Context) error {
	s.mu.Lock()
	t := s.target
	s.target = nil
	clear(s.handles)
	s.mu.Unlock()
	if t == nil {
		return errors.New("through: no target is open")
	}
	if err := t.close(ctx); err != nil {
		return err
	}
	return s.leftGoroutines()
}

// leftGoroutines returns an error if there are more goroutines than after the first target. Those that are about to end
// have a second.
func (s *service) leftGoroutines() error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for try := 0; ; try++ {
		n := runtime.NumGoroutine()
		switch {
		case s.settled == 0 && try < 10:
		case s.settled == 0 || n <= s.settled:
			s.settled = n
			return nil
		case try == 200:
			err := fmt.Errorf("the driver's process has %d goroutines more than after its first target", n-s.settled)
			s.settled = n // each leak is reported once
			return err
		}
		<-tick.C
	}
}

// served is a target with a daemon on it.
type served struct {
	target *validate.Target
	al     *accesslayer.AL
	hosts  *hosts
	svc    *services.Service
	core   *kproxy.Server
	srv    *server.Server
}

func newServed(ctx context.Context, d validate.Driver, r *request, c *native.Conn) (*served, error) {
	target, err := d.Open(ctx, r.Options)
	if err != nil {
		return nil, err
	}
	if target == nil || len(target.HCAs) == 0 {
		return nil, fmt.Errorf("driver %s: Open returned no HCA", d.Name)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil)) // cases cause errors on purpose
	t := &served{target: target, al: accesslayer.New(accesslayer.Config{Logger: log})}
	for _, h := range target.HCAs {
		if err := t.al.Register(h); err != nil {
			return nil, errors.Join(err, t.close(ctx))
		}
	}
	if t.hosts, err = newHosts(t.al, log); err != nil {
		return nil, errors.Join(err, t.close(ctx))
	}
	if t.svc, err = services.New(services.Config{AL: t.al, MAD: t.hosts, CM: t.hosts.managers()}); err != nil {
		return nil, errors.Join(err, t.close(ctx))
	}
	cfg := kproxy.Config{AL: t.al, Service: t.svc, Logger: log, ClientCopies: r.Copies}
	if t.core, err = kproxy.New(cfg); err != nil {
		return nil, errors.Join(err, t.close(ctx))
	}
	t.srv = server.New(t.core, clock.Real())
	t.srv.ServeConn(c)
	return t, nil
}

// describe returns what the target states.
func (t *served) describe() *description {
	x := t.target
	d := &description{NoMulticast: x.NoMulticast, Lossless: x.Lossless, VendorCall: x.VendorCall, Version: x.Version,
		Has: map[operation]bool{opLive: x.Live != nil, opImpair: x.Impair != nil, opCapture: x.Capture != nil,
			opEnd: x.Wire != nil, opProbe: x.Probe != nil, opSetLink: x.SetLink != nil}}
	for i, a := range t.al.Adapters() {
		d.GUIDs = append(d.GUIDs, a.GUID())
		if i == 0 {
			d.Withheld = x.Withheld | a.Attr().Caps&kproxy.DaemonOnly
		}
	}
	d.Services = d.Withheld.Has(ci.CapSpecialQP)
	return d
}

// close ends the daemon and closes the target.
func (t *served) close(ctx context.Context) error {
	var errs []error
	if t.srv != nil {
		t.srv.Close()
	}
	if t.core != nil {
		errs = append(errs, t.core.Close())
	}
	if t.svc != nil {
		errs = append(errs, t.svc.Close())
	}
	if t.hosts != nil {
		errs = append(errs, t.hosts.Close())
	}
	errs = append(errs, t.al.Close())
	if t.target.Close != nil {
		errs = append(errs, t.target.Close(ctx))
	}
	return errors.Join(errs...)
}
