package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"ciddk/accesslayer"
	"ciddk/clock"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/version"
	"ciddk/kproxy"
	"ciddk/kproxy/native/server"
)

// daemon is adapters, the access layer and the proxy.
type daemon struct {
	al       *accesslayer.AL
	drivers  []Driver
	adapters *adapters
	svc      *accessServices
	core     *kproxy.Server
	srv      *server.Server
	verbs    *devices.Server // of unmodified verbs programs
}

// start creates everything except the socket.
func start(ctx context.Context, c *config, drivers []Driver, list []adapter, log *slog.Logger) (*daemon, error) {
	al := accesslayer.New(accesslayer.Config{Logger: log})
	d := &daemon{al: al, drivers: drivers, adapters: &adapters{al: al, log: log}}
	if err := d.open(ctx, c, list, log); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *daemon) open(ctx context.Context, c *config, list []adapter, log *slog.Logger) (err error) {
	for i, a := range list {
		if _, err := d.adapters.add(ctx, a); err != nil {
			return fmt.Errorf("adapter %d: %w", i+1, err)
		}
	}
	if d.svc, err = startServices(d.al); err != nil {
		return err
	}
	canCopy, err := c.canCopy()
	if err != nil {
		return err
	}
	d.core, err = kproxy.New(kproxy.Config{AL: d.al, Service: d.svc.service, Logger: log, Quota: c.Quota.quota(),
		MaxClients: c.MaxClients, MaxClientsPerUser: c.MaxClientsPerUser, CanCopy: canCopy,
		CopyTimeout: c.CopyTimeout, LimitCopies: c.LimitCopies, KernelChecks: true, Control: d.control,
		Describe: d.describe, Build: version.Of("ddkd")})
	if err != nil {
		return err
	}
	d.srv = server.New(d.core, clock.Real())
	return d.openVerbs(c.DeviceName, c.CopyMemory)
}

// serve serves the clients of a listener, and of one for unmodified verbs programs, unless it is nil, until ctx ends.
// It stops accepting then, announces the end to the clients, and waits until they have closed their connections, for
// the time drain at most.
func (d *daemon) serve(ctx context.Context, l, verbs *net.UnixListener, drain time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	if verbs == nil {
		served <- nil
	} else {
		defer context.AfterFunc(ctx, func() { verbs.Close() })()
		go func() {
			served <- d.verbs.Serve(verbs)
			stop()
		}()
	}
	stopped := context.AfterFunc(ctx, func() { l.Close() })
	defer stopped()
	err := d.srv.Serve(l)
	stop()
	if err := errors.Join(err, <-served); err != nil {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if d.core.Stop(late) == nil {
		_ = d.srv.Drain(late) // clients that connected last; the error is that of late
	}
	return nil
}

// close closes the connections and destroys everything.
func (d *daemon) close() error {
	if d.srv != nil {
		d.srv.Close()
	}
	if d.verbs != nil {
		d.verbs.Close()
	}
	var errs []error
	if d.core != nil {
		errs = append(errs, d.core.Close())
	}
	if d.svc != nil {
		errs = append(errs, d.svc.close())
	}
	return errors.Join(append(errs, d.al.Close(), d.adapters.close())...)
}
