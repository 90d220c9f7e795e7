package main

import (
	"fmt"

	"ciddk/fabric/topology"
)

// generateCmd prints topologies.
type generateCmd struct {
	Rate string `default:"4xQDR" help:"Width and speed of all links: 1x, 2x, 4x, 8x or 12x of SDR to NDR."`

	Fattree   fattreeCmd   `cmd:"" help:"An extended generalized fat tree."`
	Torus     torusCmd     `cmd:"" help:"A torus or a mesh of any number of dimensions."`
	Dragonfly dragonflyCmd `cmd:"" help:"Groups of switches, connected with each other."`
}

type fattreeCmd struct {
	Down []int `default:"4,2" help:"Children of a switch, for each level from the leaves up."`
	Up   []int `default:"1,2" help:"Parents of a node, for each level from the adapters up."`
}

type torusCmd struct {
	Size  []int `default:"3,3" help:"Switches in each dimension."`
	Hosts int   `default:"1" help:"Adapters at each switch."`
	Mesh  bool  `help:"Leave the rows open."`
}

type dragonflyCmd struct {
	Groups   int `help:"Groups; 0 is as many as the links allow."`
	Switches int `default:"4" help:"Switches of a group."`
	Hosts    int `default:"2" help:"Adapters at each switch."`
	Global   int `default:"1" help:"Links of each switch to other groups."`
}

// rate parses the flag.
func (g *generateCmd) rate() (r topology.Rate, err error) {
	r.Width, r.Speed = topology.ParseRate(g.Rate)
	if r.Width == 0 {
		return r, fmt.Errorf("--rate %q: want a text such as 4xEDR", g.Rate)
	}
	return r, nil
}

// write prints a topology.
func (p *program) write(t *topology.Topology, err error) error {
	if err != nil {
		return err
	}
	return t.Write(p.out)
}

// Run implements the command.
func (c *fattreeCmd) Run(p *program, g *commands) error {
	r, err := g.Generate.rate()
	if err != nil {
		return err
	}
	return p.write(topology.FatTree{Down: c.Down, Up: c.Up, Rate: r}.Generate())
}

// Run implements the command.
func (c *torusCmd) Run(p *program, g *commands) error {
	r, err := g.Generate.rate()
	if err != nil {
		return err
	}
	return p.write(topology.Torus{Size: c.Size, Hosts: c.Hosts, Mesh: c.Mesh, Rate: r}.Generate())
}

// Run implements the command.
func (c *dragonflyCmd) Run(p *program, g *commands) error {
	r, err := g.Generate.rate()
	if err != nil {
		return err
	}
	return p.write(topology.Dragonfly{Groups: c.Groups, Switches: c.Switches, Hosts: c.Hosts, Global: c.Global,
		Rate: r}.Generate())
}
