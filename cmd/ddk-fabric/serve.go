package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"ciddk/fabric"
	"ciddk/fabric/ibsim"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
	"ciddk/internal/command"
)

type serveCmd struct {
	Topology  string `arg:"" type:"existingfile" help:"Topology in ibsim's net format, also as ibnetdiscover prints it."`
	Configure bool   `help:"Bring all links up with shortest paths, without a subnet manager, also after changes."`
	Verbose   bool   `short:"v" help:"Log the programs that connect."`
}

// Run implements the command.
func (c *serveCmd) Run(p *program) error {
	t, err := command.Await(p.ctx, func() (*topology.Topology, error) { return topology.ReadFile(c.Topology) })
	if err != nil {
		return err
	}
	f, err := fabric.New(t, fabric.Config{})
	if err != nil {
		return err
	}
	defer f.Close()
	var done sync.WaitGroup
	defer done.Wait()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if c.Configure {
		if err := f.Configure(); err != nil {
			return err
		}
		done.Go(func() {
			if err := f.KeepConfigured(ctx); err != nil {
				fmt.Fprintln(p.err, err)
			}
		})
	}
	control, err := listen(p.name, socketPath(p.name))
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	done.Go(func() { serveControl(control, f) })
	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: level}))
	l, err := listen(p.name, join.SocketPath(p.name, "join"))
	if err != nil {
		return err
	}
	adapters := join.Serve(f, l, join.Config{Log: log})
	defer func() { _ = adapters.Close() }()
	s, err := ibsim.Listen(f, ibsim.Config{Name: p.name, Log: log})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "fabric %q: %d adapters, %d switches, %d links\n", p.name, t.Count(topology.CA),
		t.Count(topology.Switch), len(t.Links))
	<-p.ctx.Done()
	return s.Close()
}
