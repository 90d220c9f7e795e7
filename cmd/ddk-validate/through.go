package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/hca/reference/userlib"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/ual"
	"ciddk/validate"
)

// layers are what --through accepts.
func layers() []cli.Layer {
	return []cli.Layer{
		{Name: "user", Description: "a daemon and its protocol: package ual is certified on top of the driver",
			Over: func(d validate.Driver) validate.Driver { return throughUser(d) }},
		{Name: "bypass", Description: "a daemon and the reference HCA's user library, whose queues are shared memory",
			Over: func(d validate.Driver) validate.Driver { return throughUser(d, userlib.New()) }},
	}
}

// throughUser returns d behind a daemon. Daemon and application are in one process here, so that everything that a
// target offers besides its HCAs remains at hand; all verbs, memory and events take the way between processes.
func throughUser(d validate.Driver, libs ...*ci.UserLibrary) validate.Driver {
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		t, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		al, err := registered(ctx, t)
		if err != nil {
			return nil, err
		}
		client, err := connect(t, al, libs)
		if err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
		return t, replace(ctx, t, client.HCA)
	}
	return d
}

// connect starts a daemon on an access layer and returns a connection to it. Closing the target ends both.
func connect(t *validate.Target, al *accesslayer.AL, libs []*ci.UserLibrary) (*ual.Client, error) {
	core, err := kproxy.New(kproxy.Config{AL: al, Logger: silent()})
	if err != nil {
		return nil, err
	}
	theirs, ours, err := native.Pair()
	if err != nil {
		return nil, err
	}
	s := server.New(core, clock.Real())
	s.ServeConn(theirs)
	client, err := ual.New(ours, ual.Config{Name: "ddk-validate", Libraries: libs})
	if err != nil {
		s.Close()
		return nil, err
	}
	atClose(t, func() error {
		err := client.Close()
		s.Close()
		return errors.Join(err, core.Close())
	})
	return client, nil
}

// registered returns an access layer with the HCAs of a target. Closing the target closes it.
func registered(ctx context.Context, t *validate.Target) (*accesslayer.AL, error) {
	al := accesslayer.New(accesslayer.Config{Logger: silent()})
	for _, h := range t.HCAs {
		if err := al.Register(h); err != nil {
			return nil, errors.Join(err, al.Close(), t.Close(ctx))
		}
	}
	atClose(t, al.Close)
	return al, nil
}

// replace replaces the HCAs of a target by those with the same GUIDs that find returns.
func replace(ctx context.Context, t *validate.Target, find func(ci.GUID) (ci.HCA, error)) error {
	for i, h := range t.HCAs {
		x, err := find(h.Info().GUID)
		if err != nil {
			return errors.Join(err, t.Close(ctx))
		}
		t.HCAs[i] = x
	}
	return nil
}

// atClose makes Close of a target call fn first.
func atClose(t *validate.Target, fn func() error) {
	next := t.Close
	t.Close = func(ctx context.Context) error {
		err := fn()
		if next != nil {
			err = errors.Join(err, next(ctx))
		}
		return err
	}
}

// silent returns a logger that discards everything: a case causes errors on purpose.
func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
