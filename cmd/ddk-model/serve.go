package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"ciddk/bus/vfiouser"
	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/rvt"
)

type serveCmd struct {
	Sockets   []string `arg:"" name:"socket" help:"Socket of a card, or socket=node with --topology."`
	Link      string   `enum:"infiniband,ethernet" default:"infiniband" help:"Link layer: infiniband or ethernet."`
	Pro       bool     `help:"ConnectX-3 Pro, which has RoCE v2."`
	BlueFlame bool     `name:"blueflame" help:"Announce BlueFlame, which is slower than doorbells here."`
	Verbose   bool     `short:"v" help:"Log every command of the drivers."`
	Faults    bool     `help:"Accept faults from ddk-model fault, at the socket of a card with .faults behind its name."`
	Quirks    []string `name:"quirk" enum:"empty-reads,windows-2b" help:"A deviation of real cards: ${enum}."`

	Topology  string `type:"existingfile" help:"Subnet in ibsim's net format whose adapters are the cards."`
	Configure bool   `help:"Bring the subnet of --topology up without a subnet manager."`

	Dgram  []string `sep:"none" placeholder:"LOCAL,REMOTE" help:"Join QEMU's -netdev dgram at Unix sockets."`
	Stream []string `sep:"none" placeholder:"PATH" help:"Listen for QEMU's -netdev stream at a Unix socket."`
	TAP    []string `name:"tap" placeholder:"NAME" help:"Join a TAP device of this machine."`
}

// Run implements the command.
func (c *serveCmd) Run(p *program) (err error) {
	paths, nodes, err := c.split()
	if err != nil {
		return err
	}
	links, err := c.links(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, links.close()) }()
	var cards []*card
	defer func() {
		for _, x := range cards {
			err = errors.Join(err, x.faults.close(), x.model.Close())
		}
	}()
	for i, path := range paths {
		x, err := c.card(p, links, i, path, nodes[i])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		cards = append(cards, x)
	}
	return serveAll(p, cards)
}

// split returns the paths of the sockets, and the nodes of the topology that they are.
func (c *serveCmd) split() (paths, nodes []string, err error) {
	for _, s := range c.Sockets {
		path, node, hasNode := strings.Cut(s, "=")
		switch {
		case hasNode && c.Topology == "":
			return nil, nil, fmt.Errorf("%s: a node needs --topology", s)
		case !hasNode && c.Topology != "":
			return nil, nil, fmt.Errorf("%s: with --topology, give the card's node: %[1]s=NODE", s)
		case path == "":
			return nil, nil, fmt.Errorf("%q: want the path of a socket", s)
		}
		paths, nodes = append(paths, path), append(nodes, node)
	}
	return paths, nodes, nil
}

// A card is a model and the socket that serves it.
type card struct {
	path   string
	model  *model.Model
	l      *net.UnixListener
	faults *control
}

// card makes a model at a link. The caller closes it.
func (c *serveCmd) card(p *program, links linkMaker, i int, path, node string) (*card, error) {
	link, err := links.port(i, node)
	if err != nil {
		return nil, err
	}
	cfg := model.Config{Pro: c.Pro, Ports: []model.PortConfig{{Link: link}}, GUID: guidOf(link),
		NoBlueFlame: !c.BlueFlame, Quirks: c.quirks()}
	if c.Verbose {
		log := slog.New(slog.NewTextHandler(p.err, nil)).With("card", path)
		cfg.Trace = func(x model.Command) { log.Info(x.String()) }
	}
	m, err := model.New(cfg)
	if err != nil {
		return nil, err
	}
	l, err := vfiouser.Listen(path)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	x := &card{path: path, model: m, l: l}
	if c.Faults {
		if x.faults, err = listenControl(path, m); err != nil {
			return nil, errors.Join(err, l.Close(), m.Close())
		}
	}
	return x, nil
}

// quirks returns the quirks of the cards, of which kong has checked the names.
func (c *serveCmd) quirks() model.Quirks {
	return model.Quirks{FailEmptyReads: slices.Contains(c.Quirks, "empty-reads"),
		ClaimWindows2B: slices.Contains(c.Quirks, "windows-2b")}
}

// guidOf returns the node GUID that a link suggests, or 0.
func guidOf(link rvt.Port) ci.GUID {
	if g, ok := ci.As[rvt.GUIDPort](link); ok {
		return g.NodeGUID()
	}
	return 0
}

// serveAll serves cards until a signal, or until one fails.
func serveAll(p *program, cards []*card) error {
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	var wait sync.WaitGroup
	errs := make([]error, len(cards))
	var sockets []string
	for i, x := range cards {
		sockets = append(sockets, x.path)
		wait.Go(func() {
			defer stop()
			errs[i] = vfiouser.Serve(ctx, x.l, x.model, vfiouser.Config{
				Logger: slog.New(slog.NewTextHandler(p.err, nil)).With("card", x.path)})
		})
	}
	for _, s := range sockets {
		text, err := commandLine(1024, []string{s})
		if err != nil {
			errs = append(errs, err)
			stop()
			break
		}
		fmt.Fprintf(p.out, "card at %s:\n%s\n\n", s, text)
	}
	wait.Wait()
	return errors.Join(errs...)
}
