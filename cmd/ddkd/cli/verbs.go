package cli

import (
	"cmp"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"ciddk/clock"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/nldev"
	"ciddk/internal/kproxy/ucm"
	"ciddk/internal/kproxy/umad"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/internal/version"
)

// listenVerbs creates the socket for unmodified verbs programs, nil if there is none. socket is the daemon's own. The
// daemon serves other clients if the default path, beside its own socket, cannot be used.
func listenVerbs(c *config, socket string, drivers []Driver, log *slog.Logger) (*net.UnixListener, error) {
	if c.Verbs == noVerbs || len(providers(drivers)) == 0 {
		return nil, nil
	}
	l, err := listenAt(c, cmp.Or(c.Verbs, socket+verbsSuffix), "--verbs")
	if err != nil && c.Verbs == "" {
		log.Warn("no socket for verbs programs", "error", err)
		return nil, nil
	}
	return l, err
}

// providers returns the user libraries of all drivers.
func providers(drivers []Driver) (list []uverbs.Provider) {
	for _, d := range drivers {
		list = append(list, d.Verbs...)
	}
	return list
}

// maxReaders is the number of connections that may exist besides those of clients: those of programs that read files of
// sysfs.
const maxReaders = 64

// openVerbs creates the server of unmodified verbs programs. name is the beginning of the names of devices, or empty.
// copyMemory is the value of the key copy-memory.
func (d *daemon) openVerbs(name, copyMemory string) error {
	u, err := uverbs.New(uverbs.Config{AL: d.al, Core: d.core, Providers: providers(d.drivers),
		Name: name, Counters: d.counters})
	if err != nil {
		return err
	}
	c, err := ucm.New(ucm.Config{Core: d.core, Manager: d.svc.rdmacm, Number: u.Number})
	if err != nil {
		return err
	}
	n, err := nldev.New(nldev.Config{Devices: u, Core: d.core})
	if err != nil {
		return err
	}
	m, err := umad.New(umad.Config{Core: d.core, MAD: d.svc.mads, Devices: u})
	if err == nil {
		d.verbs = devices.New(devices.FrontEnds{u, c, n, m, notes(copyMemory)}, d.core.MaxClients()+maxReaders,
			clock.Real())
	}
	return err
}

// notes are entries of the tree for ddkrun.
func notes(copyMemory string) devices.Notes {
	return devices.Notes{{Path: devices.CopyMemory, Data: []byte(cmp.Or(copyMemory, copyOwn) + "\n")},
		devices.VersionNote(version.Of("ddkd"))}
}

// idleChecks is the number of times that the daemon looks for clients while it is idle.
const idleChecks = 4

// watchIdle calls stop when there was no client for a time. No verbs program is accepted from then on, so that none
// loses its adapters. end ends the watch.
func (d *daemon) watchIdle(idle time.Duration, stop func()) (end func()) {
	if idle == 0 {
		return func() {}
	}
	var ended atomic.Bool
	var timer clock.Timer
	ready := make(chan struct{})
	count := 0
	hasNoSessions := func() bool { return len(d.core.Sessions()) == 0 }
	timer = clock.Real().AfterFunc(idle/idleChecks, func() {
		<-ready
		if count++; !d.verbs.IsIdle() || !hasNoSessions() {
			count = 0
		}
		switch {
		case ended.Load():
		case count >= idleChecks && d.verbs.Retire(hasNoSessions):
			stop()
		default:
			timer.Reset(idle / idleChecks)
		}
	})
	close(ready)
	return func() {
		ended.Store(true)
		timer.Stop()
	}
}
