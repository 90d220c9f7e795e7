package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/internal/command"
	"ciddk/internal/private"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/rvt"
)

// A linkMaker makes the ports of cards.
type linkMaker interface {
	// port returns the port of card i, which is at a node if there is a topology.
	port(i int, node string) (rvt.Port, error)
	close() error
}

// links returns what the options describe.
func (c *serveCmd) links(p *program) (linkMaker, error) {
	isEthernet := c.Link == "ethernet"
	switch {
	case isEthernet && (c.Topology != "" || c.Configure):
		return nil, errors.New("--topology and --configure are for --link infiniband")
	case !isEthernet && len(c.Dgram)+len(c.Stream)+len(c.TAP) > 0:
		return nil, errors.New("--dgram, --stream and --tap need --link ethernet")
	case c.Configure && c.Topology == "":
		return nil, errors.New("--configure needs --topology")
	case isEthernet:
		return newSwitch(c, p)
	case c.Topology != "":
		return newSubnet(p.ctx, c)
	}
	return cable{direct.NewLink()}, nil
}

// A cable is an InfiniBand link within the process.
type cable struct{ link *direct.Link }

func (c cable) port(int, string) (rvt.Port, error) {
	p, err := direct.New(c.link, direct.Config{})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (cable) close() error { return nil }

// A subnet is an InfiniBand subnet in software.
type subnet struct {
	f          *fabric.Fabric
	configures bool // there is no subnet manager
}

func newSubnet(ctx context.Context, c *serveCmd) (linkMaker, error) {
	t, err := command.Await(ctx, func() (*topology.Topology, error) { return topology.ReadFile(c.Topology) })
	if err != nil {
		return nil, err
	}
	f, err := fabric.New(t, fabric.Config{})
	if err != nil {
		return nil, err
	}
	if c.Configure {
		if err := f.Configure(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return subnet{f, c.Configure}, nil
}

func (s subnet) port(_ int, node string) (rvt.Port, error) {
	p, err := s.f.CAPort(node, 0)
	if err != nil {
		return nil, err
	}
	if s.configures {
		return configuredPort{p, s.f}, nil
	}
	return p, nil
}

// A configuredPort is a port of a subnet without a manager. Its link goes down when the driver closes the port, and
// would stay in Init afterwards.
type configuredPort struct {
	*fabric.CAPort
	f *fabric.Fabric
}

// SetLink implements rvt.CablePort. A subnet that cannot be configured leaves the port in Init.
func (p configuredPort) SetLink(up bool) {
	p.CAPort.SetLink(up)
	if up {
		_ = p.f.Configure() // it was possible when the program started
	}
}

func (s subnet) close() error {
	s.f.Close()
	return nil
}

// An ethernet is a switch within the process, with the network back ends of virtual machines.
type ethernet struct {
	hub *frame.Hub

	mu      sync.Mutex
	ends    []func() error
	accepts sync.WaitGroup
}

func newSwitch(c *serveCmd, p *program) (linkMaker, error) {
	e := &ethernet{hub: frame.NewHub()}
	for _, s := range c.Dgram {
		local, remote, ok := strings.Cut(s, ",")
		if !ok {
			return nil, errors.Join(fmt.Errorf("--dgram %s: want two paths: LOCAL,REMOTE", s), e.close())
		}
		carrier, err := frame.Dgram("unixgram", local, remote)
		if err := e.connect(carrier, err, "--dgram "+s, p); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	for _, name := range c.TAP {
		carrier, err := frame.OpenTAP(name)
		if err := e.connect(carrier, err, "--tap "+name, p); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	for _, path := range c.Stream {
		if err := e.listen(path, p); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

// connect joins a carrier, unless it could not be made.
func (e *ethernet) connect(c frame.Carrier, err error, what string, p *program) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	disconnect, err := e.hub.Connect(c,
		func(err error) { fmt.Fprintf(p.err, "ddk-model: %s has ended: %v\n", what, err) })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	e.onClose(disconnect)
	return nil
}

func (e *ethernet) onClose(end func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends = append(e.ends, end)
}

// listen joins every connection to a Unix socket.
func (e *ethernet) listen(path string, p *program) error {
	if err := private.RemoveUnserved("unix", path); err != nil {
		return fmt.Errorf("--stream: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("--stream %s: %w", path, err)
	}
	e.onClose(l.Close)
	e.accepts.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			if err := e.connect(frame.Stream(c), nil, "--stream "+path, p); err != nil {
				fmt.Fprintln(p.err, "ddk-model:", err)
			}
		}
	})
	return nil
}

// port returns a port with a locally administered address. The guest's driver fills the GID table.
func (e *ethernet) port(i int, _ string) (rvt.Port, error) {
	if i > 0xffff {
		return nil, fmt.Errorf("%d cards: at most %d", i+1, 0x10000)
	}
	mac := [6]byte{0x02, 0x02, 0xc9, 0, byte(i >> 8), byte(i)}
	p, err := frame.New(frame.Config{Carrier: e.hub.Join(), MAC: mac})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (e *ethernet) close() error {
	var errs []error
	for {
		e.mu.Lock()
		ends := e.ends
		e.ends = nil
		e.mu.Unlock()
		if len(ends) == 0 {
			return errors.Join(errs...)
		}
		for _, end := range ends {
			errs = append(errs, end())
		}
		e.accepts.Wait() // the listeners are among the ends; a connection may have been added
	}
}
