package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/internal/private"
)

// A request is what a command asks of a running fabric, as one JSON value.
type request struct {
	Do   string `json:"do"` // status, cut, restore, remove, trace
	Node string `json:"node,omitempty"`
	Port int    `json:"port,omitempty"`
	To   string `json:"to,omitempty"` // of trace
}

// A response is the answer, as one JSON value.
type response struct {
	Error  string         `json:"error,omitempty"`
	Status *fabric.Status `json:"status,omitempty"`
	Path   []hop          `json:"path,omitempty"` // of trace
}

// A hop is a port of a route.
type hop struct {
	Node string `json:"node"`
	Port int    `json:"port"`
}

const (
	maxRequest  = 4096
	requestTime = 5 * time.Second
)

// socketPath returns the path of the control socket of a fabric.
func socketPath(name string) string { return join.SocketPath(name, "control") }

// listen opens a socket of a fabric, for its owner.
func listen(name, path string) (net.Listener, error) {
	l, err := private.Replace("unix", path)
	if errors.Is(err, private.ErrServed) {
		return nil, fmt.Errorf("a fabric with the name %q runs already: choose another --name", name)
	}
	return l, err
}

// serveControl answers commands until the listener is closed.
func serveControl(l net.Listener, f *fabric.Fabric) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		conns.Go(func() {
			defer func() { _ = c.Close() }()
			if c.SetDeadline(time.Now().Add(requestTime)) != nil {
				return
			}
			var q request
			var r response
			if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&q); err != nil {
				r.Error = "request: " + err.Error()
			} else if r, err = execute(f, q); err != nil {
				r.Error = err.Error()
			}
			_ = json.NewEncoder(c).Encode(r) // a client that left reads no answer
		})
	}
}

// execute executes a request.
func execute(f *fabric.Fabric, q request) (r response, err error) {
	switch q.Do {
	case "status":
		s := f.Status()
		r.Status = &s
	case "cut", "restore":
		p, err := f.Port(q.Node, q.Port)
		if err != nil {
			return r, err
		}
		return r, p.SetLink(q.Do == "restore")
	case "remove":
		return r, f.RemoveNode(q.Node)
	case "trace":
		to, err := f.Port(q.To, 0)
		if err != nil {
			return r, err
		}
		lid, _ := to.LID()
		if lid == 0 {
			return r, fmt.Errorf("node %q has no LID yet: start a subnet manager", q.To)
		}
		path, err := f.Trace(q.Node, ci.LID(lid))
		for _, p := range path {
			r.Path = append(r.Path, hop{p.Node(), int(p.Num())})
		}
		return r, err
	default:
		return r, fmt.Errorf("unknown request %q", q.Do)
	}
	return r, nil
}

// call sends a request to the running fabric.
func (p *program) call(q request) (r response, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, requestTime)
	defer cancel()
	c, err := join.Connect(ctx, p.name, "control")
	if err != nil {
		return r, fmt.Errorf("no fabric with the name %q runs here (start one with ddk-fabric serve): %w", p.name, err)
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return r, err
	}
	if err := json.NewDecoder(c).Decode(&r); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// A place is a port in the form NODE:PORT, or NODE for the lowest port with a cable.
type place string

// parse returns the parts.
func (l place) parse() (node string, port int) {
	if node, num, ok := strings.Cut(string(l), ":"); ok {
		if n, err := strconv.Atoi(num); err == nil {
			return node, n
		}
	}
	return string(l), 0
}

type cutCmd struct {
	Port place `arg:"" help:"NODE:PORT, or NODE for the lowest port with a cable."`
}

type restoreCmd struct {
	Port place `arg:"" help:"NODE:PORT, or NODE for the lowest port with a cable."`
}

type removeCmd struct {
	Node string `arg:"" help:"Node."`
}

// Run implements the command.
func (c *cutCmd) Run(p *program) error { return p.setLink("cut", c.Port) }

// Run implements the command.
func (c *restoreCmd) Run(p *program) error { return p.setLink("restore", c.Port) }

func (p *program) setLink(do string, at place) error {
	node, port := at.parse()
	_, err := p.call(request{Do: do, Node: node, Port: port})
	return err
}

// Run implements the command.
func (c *removeCmd) Run(p *program) error {
	_, err := p.call(request{Do: "remove", Node: c.Node})
	return err
}
