package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native/server"
)

// daemon is adapters, the access layer and the proxy.
type daemon struct {
	al   *accesslayer.AL
	hcas []ci.HCA
	core *kproxy.Server
	srv  *server.Server
}

// start creates everything except the socket.
func start(ctx context.Context, c *config, adapters []adapter, log *slog.Logger) (*daemon, error) {
	d := &daemon{al: accesslayer.New(accesslayer.Config{Logger: log})}
	if err := d.open(ctx, c, adapters, log); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *daemon) open(ctx context.Context, c *config, adapters []adapter, log *slog.Logger) (err error) {
	for i, a := range adapters {
		if err := d.add(ctx, a, log); err != nil {
			return fmt.Errorf("adapter %d: %w", i+1, err)
		}
	}
	d.core, err = kproxy.New(kproxy.Config{AL: d.al, Logger: log, Quota: c.Quota.quota(), MaxClients: c.MaxClients,
		MaxClientsPerUser: c.MaxClientsPerUser})
	if err != nil {
		return err
	}
	d.srv = server.New(d.core, clock.Real())
	return nil
}

// add opens an adapter and registers it.
func (d *daemon) add(ctx context.Context, a adapter, log *slog.Logger) error {
	h, err := a.driver.Open(ctx, maps.Clone(a.settings), log)
	if err != nil {
		return err
	}
	d.hcas = append(d.hcas, h)
	if err := d.al.Register(h); err != nil {
		return err
	}
	log.Info("adapter", "guid", fmt.Sprintf("%016x", uint64(h.Info().GUID)), "driver", a.driver.Name,
		"settings", a.settings)
	return nil
}

// stop closes the connections and destroys everything.
func (d *daemon) stop() error {
	if d.srv != nil {
		d.srv.Close()
	}
	var errs []error
	if d.core != nil {
		errs = append(errs, d.core.Close())
	}
	errs = append(errs, d.al.Close())
	for _, h := range d.hcas {
		if c, ok := h.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
