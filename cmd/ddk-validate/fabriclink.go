package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/validate"
)

// fabricLink returns two ports of an InfiniBand fabric, which they join as those of other processes do: through a
// socket. The fabric is one that ddk-fabric serves, with the settings fabric and nodes, or one of its own with a switch
// between the ports.
func fabricLink(o validate.Options) (l linkage, err error) {
	name, nodes, err := fabricNodes(o)
	if err != nil {
		return l, err
	}
	where := name
	if name == "" {
		var f *fabric.Fabric
		if f, where, l.close, err = serveFabric(); err != nil {
			return l, err
		}
		l.setLink = func(up bool) error { return setCable(f, nodes[0], up) }
	}
	for _, n := range nodes {
		l.ports = append(l.ports, func() (rvt.Port, error) {
			p, err := join.DialName(context.Background(), where, n, 0)
			if err == nil && name != "" {
				err = awaitManager(p, n, managerTime)
			}
			if err != nil {
				return nil, err
			}
			return p, nil
		})
	}
	if name != "" {
		l.noGroups = "no subnet manager writes the forwarding tables of multicast groups"
	}
	return l, nil
}

// fabricNodes returns the settings of the link: the fabric's name, or "" for one of the certifier's own, and the nodes
// of the two adapters.
func fabricNodes(o validate.Options) (name string, nodes []string, err error) {
	name = o.Values["fabric"]
	nodes = []string{"h1", "h2"}
	if v := o.Values["nodes"]; v != "" {
		nodes = strings.Split(v, ",")
	}
	switch {
	case len(nodes) != 2 || nodes[0] == nodes[1]:
		return "", nil, fmt.Errorf("--set nodes=%s: want two nodes, such as h1,h2", o.Values["nodes"])
	case name == "" && o.Values["nodes"] != "":
		return "", nil, errors.New("--set nodes needs --set fabric, the name of a fabric that ddk-fabric serves")
	}
	return name, nodes, nil
}

// managerTime is the time that a subnet manager has to bring a port up.
const managerTime = 20 * time.Second

// awaitManager waits until the port of a node is active. Otherwise it closes the port and returns an error.
func awaitManager(p *join.Port, name string, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		s := p.Attr().State
		if s == ci.PortActive {
			return nil
		}
		if time.Now().After(deadline) {
			_ = p.Close() // the state is the error to report
			return fmt.Errorf("the port of %s is in state %v after %v, want Active: start a subnet manager on the "+
				"fabric (opensm), or serve the fabric with ddk-fabric serve --configure", name, s, limit)
		}
	}
}

// setCable pulls out or plugs in the cable of a node, and does the work of a subnet manager afterwards.
func setCable(f *fabric.Fabric, node string, up bool) error {
	p, err := f.Port(node, 0)
	if err != nil {
		return err
	}
	if err := p.SetLink(up); err != nil || !up {
		return err
	}
	if err := f.Configure(); err != nil {
		return err
	}
	return flood(f)
}

// serveFabric serves a fabric with the adapters h1 and h2.
func serveFabric() (f *fabric.Fabric, path string, stop func() error, err error) {
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	if err != nil {
		return nil, "", nil, err
	}
	f, err = fabric.New(g, fabric.Config{MTU: mtu})
	if err != nil {
		return nil, "", nil, err
	}
	err = f.Configure()
	if err == nil {
		err = flood(f)
	}
	if err != nil {
		f.Close()
		return nil, "", nil, err
	}
	dir, err := os.MkdirTemp("", "fabric")
	if err != nil {
		f.Close()
		return nil, "", nil, err
	}
	path = filepath.Join(dir, "join.sock")
	k, err := net.Listen("unix", path)
	if err != nil {
		f.Close()
		return nil, "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := join.Serve(f, k, join.Config{})
	return f, path, func() error {
		err := s.Close()
		f.Close()
		return errors.Join(err, os.RemoveAll(dir))
	}, nil
}

// flood makes the switch forward all multicast packets to both adapters, in place of a subnet manager that knows the
// members of the groups.
func flood(f *fabric.Fabric) error {
	p, err := f.Port("h1", 0)
	if err != nil {
		return err
	}
	s := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetDirected,
		ClassVersion: mad.ClassVersionSubnet, Method: mad.Set, TID: 1, Attribute: mad.AttrMulticastTable},
		DrSLID: permissive, DrDLID: permissive}
	s.SetHops(0, 1)
	s.InitialPath[1] = 1
	for i := 0; i < mad.SMPDataLen; i += 2 {
		s.Data[i+1] = 1<<1 | 1<<2 // ports 1 and 2
	}
	for block := range uint32(groupBlocks) {
		s.Modifier = block
		var m ci.MAD
		s.Put(m[:])
		err := p.Send(&fabric.Datagram{SLID: permissive, DLID: permissive, MAD: &m})
		if err != nil && !errors.Is(err, fabric.ErrDiscarded) { // no client takes the response
			return err
		}
	}
	return nil
}

const (
	permissive  = 0xffff
	groupBlocks = 32 // of 32 LIDs each
)
