package through

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/suite/cmsuite"
)

// AccessLayer returns d behind the access layer: the certified objects are those of a strict client. What the access
// layer adds to a driver is tested beside them. Its object tree must be empty after each case. When the target is
// closed, a registration for PnP events must have seen each adapter and each port come and go once.
func AccessLayer(d validate.Driver) validate.Driver {
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		t, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		err = insertAccessLayer(t)
		if err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
		return t, nil
	}
	return d
}

// insertAccessLayer replaces the HCAs of a target by those of a client of an access layer, which Close of the target
// closes.
func insertAccessLayer(t *validate.Target) error {
	// A case causes errors on purpose, so nothing is logged.
	al := accesslayer.New(accesslayer.Config{Logger: slog.New(slog.DiscardHandler)})
	drivers := t.Close
	t.Close = func(ctx context.Context) error {
		err := al.Close()
		if drivers != nil {
			err = errors.Join(err, drivers(ctx))
		}
		return err
	}
	for _, h := range t.HCAs {
		if err := al.Register(h); err != nil {
			return err
		}
	}
	client, err := al.Open(accesslayer.ClientConfig{Name: "ddk-validate", Strict: true})
	if err != nil {
		return err
	}
	for i, h := range t.HCAs {
		in, err := client.HCA(h.Info().GUID)
		if err != nil {
			return err
		}
		if host, ok := h.(cmsuite.Host); ok {
			in = layeredHost{in, host}
		}
		t.HCAs[i] = in
	}
	countObjects(t, client)
	return watchPnP(t, al)
}

// layeredHost is an HCA of a client of the access layer, with the services of the HCA below.
type layeredHost struct {
	ci.HCA
	host cmsuite.Host
}

var _ cmsuite.Host = layeredHost{}

// Serve implements cmsuite.Host.
func (l layeredHost) Serve() (cmsuite.Services, error) { return l.host.Serve() }

// countObjects adds the client's objects to those that a target counts.
func countObjects(t *validate.Target, c *accesslayer.Client) {
	drivers := t.Live
	t.Live = func() map[string]int {
		count := map[string]int{}
		if drivers != nil {
			maps.Copy(count, drivers())
		}
		for kind, n := range c.Objects() {
			count["access layer's "+kind] = n
		}
		return count
	}
}

// watchPnP registers for PnP events. Closing the target fails if they are not those of its HCAs.
func watchPnP(t *validate.Target, al *accesslayer.AL) error {
	client, err := al.Open(accesslayer.ClientConfig{Name: "PnP of ddk-validate"})
	if err != nil {
		return err
	}
	log := &pnpLog{adapters: map[ci.GUID]*pnpCounts{}}
	for _, a := range al.Adapters() {
		log.adapters[a.GUID()] = &pnpCounts{ports: len(a.Attr().Ports)}
	}
	_, err = client.RegisterPnP(accesslayer.PnPConfig{
		Sync:   true,
		Add:    func(a *accesslayer.Adapter) (any, error) { log.add(a, pnpAdded); return nil, nil },
		Remove: func(a *accesslayer.Adapter, _ any) { log.add(a, pnpRemoved) },
		Port: func(a *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
			switch e.Type {
			case accesslayer.PortAdd:
				log.add(a, pnpPortAdded)
			case accesslayer.PortRemove:
				log.add(a, pnpPortRemoved)
			}
		},
	})
	closeTarget := t.Close // closes the access layer, which removes the HCAs
	t.Close = func(ctx context.Context) error {
		return errors.Join(closeTarget(ctx), log.check())
	}
	return err
}

// pnpLog counts PnP events.
type pnpLog struct {
	mu       sync.Mutex
	adapters map[ci.GUID]*pnpCounts
}

// pnpCounts counts the PnP events of an adapter with a number of ports.
type pnpCounts struct {
	ports  int
	events [4]int
}

// The events that are counted.
const (
	pnpAdded = iota
	pnpRemoved
	pnpPortAdded
	pnpPortRemoved
)

func (l *pnpLog) add(a *accesslayer.Adapter, event int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.adapters[a.GUID()]; c != nil {
		c.events[event]++
	}
}

// check returns an error unless each adapter and each of its ports were added and removed once.
func (l *pnpLog) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for guid, c := range l.adapters {
		if want := [4]int{1, 1, c.ports, c.ports}; c.events != want {
			errs = append(errs, fmt.Errorf("access layer: PnP events of HCA %016x (added, removed, ports added, ports "+
				"removed): %v, want %v", uint64(guid), c.events, want))
		}
	}
	return errors.Join(errs...)
}
