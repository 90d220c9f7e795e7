package sa

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// Config tunes a Client. The zero value is good.
type Config struct {
	// Timeout is how long to wait for an answer before asking again; 0: 1 s. Retries is how often that is done, and how often an
	// administrator that is busy is asked again; 0: 5.
	Timeout time.Duration
	Retries int
}

// Client asks. All methods may be called concurrently.
type Client struct {
	al  *accesslayer.AL
	svc mads.Service
	cfg Config

	mu     sync.Mutex
	closed bool
	agents map[mads.Port]mads.Agent
}

// ErrClosed is in the errors of a Client that was closed.
var ErrClosed = errors.New("sa: closed")

// StatusError is the administrator's refusal.
type StatusError struct {
	Attribute uint16 // asked for
	Status    uint16 // mad.StatusSANoRecords and so on
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("sa: %s: %s", mad.AttributeName(mad.ClassSubnetAdmin, e.Attribute), mad.Status(e.Status).Text(mad.ClassSubnetAdmin))
}

// New makes a client of MAD services on the HCAs of an access layer. Close it.
func New(al *accesslayer.AL, svc mads.Service, cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	if cfg.Retries == 0 {
		cfg.Retries = 5
	}
	return &Client{al: al, svc: svc, cfg: cfg, agents: map[mads.Port]mads.Agent{}}
}

// Close ends requests in progress with ErrClosed. It is idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	agents := c.agents
	c.agents = nil
	c.mu.Unlock()
	var errs []error
	for _, a := range agents {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// Do sends a request from a port, and gives the answer. Of req, Method, Attribute, ComponentMask and Data count.
// Errors: *StatusError; status Timeout; InvalidPort (no such port, or Ethernet); InvalidPortState (the port knows no subnet manager); NotFound
// (the port is not in the default partition);
// ErrorStatus (an answer that is none); the context's; ErrClosed.
func (c *Client) Do(ctx context.Context, port mads.Port, req *mad.SA) (*mad.SA, error) {
	to, err := c.administrator(port)
	if err != nil {
		return nil, err
	}
	req.Header = mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin, ClassVersion: mad.ClassVersionSubnetAdmin,
		Method: req.Method, Attribute: req.Attribute, Modifier: req.Modifier}
	b := make([]byte, mad.Size)
	req.Put(b)
	for tries := 0; ; tries++ {
		m, err := c.once(ctx, port, &mads.Message{To: to, MAD: b, Timeout: c.cfg.Timeout, Retries: c.cfg.Retries})
		if err != nil {
			return nil, err
		}
		var resp mad.SA
		switch err := mad.ParseSA(m.MAD[:min(len(m.MAD), mad.Size)], &resp); {
		case err != nil:
			return nil, bad("sa.Do", ci.ErrorStatus, "the answer cannot be read", err)
		case resp.Status&mad.StatusBusy != 0 && tries < c.cfg.Retries:
			if err := c.sleep(ctx, c.cfg.Timeout/4<<min(tries, 4)); err != nil {
				return nil, err
			}
			continue
		case resp.Status != mad.StatusOK:
			return nil, &StatusError{Attribute: req.Attribute, Status: resp.Status}
		case resp.Attribute != req.Attribute:
			return nil, bad("sa.Do", ci.ErrorStatus, fmt.Sprintf("the answer is a %s, the question was a %s",
				mad.AttributeName(mad.ClassSubnetAdmin, resp.Attribute), mad.AttributeName(mad.ClassSubnetAdmin, req.Attribute)), nil)
		}
		return &resp, nil
	}
}

func bad(verb string, s ci.Status, detail string, err error) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail, Err: err}
}

// once asks with the port's agent. The agent may be of a port that has gone and come back: then it is closed, and a new one is made.
func (c *Client) once(ctx context.Context, port mads.Port, m *mads.Message) (*mads.Received, error) {
	for fresh := false; ; fresh = true {
		a, made, err := c.agent(port)
		if err != nil {
			return nil, err
		}
		r, err := a.Do(ctx, m)
		if err == nil || fresh || made || !errors.Is(err, accesslayer.ErrClosed) {
			return r, c.unlessClosed(err)
		}
		c.mu.Lock()
		if c.agents[port] == a {
			delete(c.agents, port)
		}
		c.mu.Unlock()
	}
}

func (c *Client) unlessClosed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.closed {
		return ErrClosed
	}
	return err
}

func (c *Client) agent(port mads.Port) (a mads.Agent, made bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, ErrClosed
	}
	if a = c.agents[port]; a != nil {
		return a, false, nil
	}
	a, err = c.svc.Register(mads.AgentConfig{Name: "SA client", Port: port, Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin})
	if err != nil {
		return nil, false, err
	}
	c.agents[port] = a
	return a, true, nil
}

// defaultPKey is the partition that everybody shares with the administrator (10.9.1.2).
const defaultPKey ci.PKey = 0xffff

// administrator is at the subnet manager's LID (IBTA 15.3.2), in the default partition, wherever in the port's table that is.
func (c *Client) administrator(port mads.Port) (to mads.Address, err error) {
	const verb = "sa.Do"
	if c.al == nil || ci.IsNil(c.svc) {
		return to, bad(verb, ci.InvalidParameter, "New was given no access layer or no MAD services", nil)
	}
	a, err := c.al.Adapter(port.CA)
	if err != nil {
		return to, err
	}
	p, err := a.Port(port.Num)
	switch {
	case err != nil:
		return to, err
	case p.Link != ci.LinkInfiniBand:
		return to, bad(verb, ci.InvalidPort, "an Ethernet port has no subnet administrator", nil)
	case p.SMLID == 0:
		return to, bad(verb, ci.InvalidPortState, fmt.Sprintf("port %d of CA %016x knows no subnet manager: is one running?", port.Num, uint64(port.CA)), nil)
	}
	index, _, err := a.FindPKey(port.Num, defaultPKey)
	if err != nil {
		return to, err
	}
	return mads.Address{AV: ci.AVAttr{Port: port.Num, DLID: p.SMLID, SL: ci.SL(p.SMSL)}, QPN: 1, PKeyIndex: index}, nil
}

func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	t := c.clock().AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) clock() clock.Clock { return c.al.Clock() }
