package services

import (
	"errors"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/ual"
)

// Follow registers the daemon's adapters with an access layer of this process, now and when they are added, and removes
// them when they are removed, so that clients of the access layer receive PnP events. It returns when those that are
// present have been registered. stop ends that; it does not remove adapters. Errors of adapters that are added later
// are logged by the access layer.
func (s *Services) Follow(al *accesslayer.AL) (stop func(), err error) {
	f := &follower{s: s, al: al}
	end := s.changes.watch(&watcher{hca: f.change})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
	if f.err != nil {
		end()
		return nil, f.err
	}
	return end, nil
}

// follower registers adapters.
type follower struct {
	s  *Services
	al *accesslayer.AL

	mu      sync.Mutex
	started bool
	err     error
}

func (f *follower) change(h schema.ServiceHCA, there bool) {
	if !there {
		if err := f.al.Deregister(h.GUID); err != nil && !errors.Is(err, ci.NotFound) {
			f.al.Logger().Warn("services: an adapter was not removed", "guid", h.GUID, "error", err)
		}
		return
	}
	hca, err := f.s.c.HCA(h.GUID)
	if err == nil {
		err = f.al.Register(hca)
	}
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started {
		f.err = errors.Join(f.err, err)
		return
	}
	f.al.Logger().Warn("services: an adapter was not registered", "guid", h.GUID, "error", err)
}

// Config describes what Dial creates. The zero value is ready for use.
type Config struct {
	UAL         ual.Config         // the daemon
	AccessLayer accesslayer.Config // of this process
	Resolver    resolve.Resolver   // as in cmid.Config
}

// Dial connects to a daemon and returns a connection manager for programs that connect and listen by IP address. It
// uses all adapters of the daemon, and the daemon's ports. Manager.Close closes everything. Errors: those of ual.Dial,
// Open, Follow and cmid.New.
func Dial(cfg Config) (*rdmacm.Manager, error) {
	c, err := ual.Dial(cfg.UAL)
	if err != nil {
		return nil, err
	}
	return New(c, cfg)
}

// New is Dial with a client, which it then owns.
func New(c *ual.Client, cfg Config) (*rdmacm.Manager, error) {
	own := []func() error{c.Close}
	closeAll := func() error {
		var errs []error
		for _, o := range slices.Backward(own) {
			errs = append(errs, o())
		}
		return errors.Join(errs...)
	}
	fail := func(err error) (*rdmacm.Manager, error) { return nil, errors.Join(err, closeAll()) }
	s, err := Open(c)
	if err != nil {
		return fail(err)
	}
	own = append(own, s.Close)
	al := accesslayer.New(cfg.AccessLayer)
	own = append(own, al.Close)
	stop, err := s.Follow(al)
	if err != nil {
		return fail(err)
	}
	own = append(own, func() error { stop(); return nil })
	client, err := al.Open(accesslayer.ClientConfig{Name: "services"})
	if err != nil {
		return fail(err)
	}
	own = append(own, client.Close)
	ids, err := cmid.New(client, cmid.Config{CM: s.CM(), MAD: s.MAD(), Ports: s.Ports(), Resolver: cfg.Resolver,
		OnClose: closeAll})
	if err != nil {
		return fail(err)
	}
	return rdmacm.New(ids), nil
}
