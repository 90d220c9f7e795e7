package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"ciddk/internal/command"
)

type serveCmd struct {
	Config  string   `help:"Configuration file; see 'go doc ciddk/cmd/ddkd'." type:"path" placeholder:"FILE"`
	Adapter []string `help:"An adapter; the keys are listed above." sep:"none" placeholder:"KEY=VALUE,…"`
	Options config   `embed:""`

	drivers []Driver
}

// Help returns the details of the command's help text.
func (s *serveCmd) Help() string { return help(s.drivers) }

// merged returns the configuration of the file and the flags, and its adapters.
func (s *serveCmd) merged() (*config, []adapter, error) {
	c := new(config)
	if s.Config != "" {
		var err error
		if c, err = readConfig(s.Config); err != nil {
			return nil, nil, err
		}
	}
	for _, text := range s.Adapter {
		a, err := parseAdapter(text)
		if err != nil {
			return nil, nil, err
		}
		s.Options.Adapters = append(s.Options.Adapters, a)
	}
	c.overlay(&s.Options)
	adapters, err := c.check(s.drivers)
	if err == nil && len(adapters) == 0 {
		err = badConfig("no adapter; add one with --adapter %s", cmp.Or(s.drivers[0].Example, "KEY=VALUE,…"))
	}
	return c, adapters, err
}

// Run serves clients until ctx ends.
func (s *serveCmd) Run(ctx context.Context, out *logs, late *patience) error {
	type merged struct {
		*config
		adapters []adapter
	}
	m, err := command.Await(ctx, func() (m merged, err error) {
		m.config, m.adapters, err = s.merged()
		return m, err
	})
	if err != nil {
		return err
	}
	c := m.config
	late.extend(c.Drain)
	level, err := c.level()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out.w, &slog.HandlerOptions{Level: level}))
	l, activated, err := listener(c)
	if err != nil {
		return err
	}
	defer l.Close()
	verbs, err := listenVerbs(c, l.Addr().String(), s.drivers, log)
	if err != nil {
		return err
	}
	if verbs != nil {
		defer verbs.Close()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d, err := start(ctx, c, s.drivers, m.adapters, log)
	if err != nil {
		return err
	}
	stopMetrics, err := serveMetrics(c, d, log)
	if err != nil {
		return errors.Join(err, d.close())
	}
	stopWatchdog := watchdog(log, func() { d.core.Load() })
	notify(log, systemd.SdNotifyReady)
	if verbs != nil {
		log.Info("verbs programs", "socket", verbs.Addr().String())
	}
	log.Info("ready", "socket", l.Addr().String(), "activated", activated, "mode", c.Mode, "pid", os.Getpid())
	notified := make(chan struct{})
	stopping := context.AfterFunc(ctx, func() {
		defer close(notified)
		log.Info("stopping", "drain", c.Drain)
		notify(log, systemd.SdNotifyStopping)
	})
	endIdle := d.watchIdle(c.Idle, stop)
	err = d.serve(ctx, l, verbs, c.Drain)
	endIdle()
	if !stopping() {
		<-notified // before the process exits
	}
	stopWatchdog()
	stopMetrics()
	return errors.Join(err, d.close())
}
