package sa

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// Config holds the settings of a Client. The zero value selects the defaults.
type Config struct {
	// Timeout is how long the client waits for a response before it sends the request again; 0: 1 s.
	Timeout time.Duration
	// Retries is the maximum number of times that the client repeats a request without a response, and separately the
	// maximum number of times that it repeats one for which the administrator was too busy; 0: 5.
	Retries int
	// MaxTable is the size of the longest table that the client accepts, in bytes; 0: 4 MiB. The MAD services have a
	// limit of their own (mads.Config.MaxMessage).
	MaxTable int
}

const defaultMaxTable = 4 << 20

// Client is a client of the subnet administrator. All methods may be called concurrently.
type Client struct {
	al  *accesslayer.AL
	svc mads.Service
	cfg Config

	notices noticeCount

	receiving sync.Mutex // held while receivers are added and removed; taken before mu

	mu      sync.Mutex
	closed  bool
	agents  map[mads.Port]mads.Agent
	backoff map[*request]struct{} // requests that wait before they are repeated

	pnp       *accesslayer.Client // nil until there is a watcher
	watchers  map[watcher]struct{}
	shares    map[shareKey]*share // of the registrations among the watchers
	known     map[mads.Port]known
	receivers map[mads.Port]*receiver // of notices
}

// ErrClosed is the error of requests of a closed Client.
var ErrClosed = errors.New("sa: closed")

// StatusError is a response with an error status.
type StatusError struct {
	Attribute uint16 // of the request
	Status    uint16 // such as mad.StatusSANoRecords
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("sa: %s: %s", mad.AttributeName(mad.ClassSubnetAdmin, e.Attribute),
		mad.Status(e.Status).Text(mad.ClassSubnetAdmin))
}

// New creates a client that uses MAD services on the HCAs of an access layer. The caller closes it.
func New(al *accesslayer.AL, svc mads.Service, cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	if cfg.Retries == 0 {
		cfg.Retries = 5
	}
	if cfg.MaxTable <= 0 {
		cfg.MaxTable = defaultMaxTable
	}
	cfg.MaxTable = max(cfg.MaxTable, mad.SADataLen)
	return &Client{al: al, svc: svc, cfg: cfg, agents: map[mads.Port]mads.Agent{}, backoff: map[*request]struct{}{},
		watchers: map[watcher]struct{}{}, shares: map[shareKey]*share{}, known: map[mads.Port]known{},
		receivers: map[mads.Port]*receiver{}}
}

// Close ends pending requests with ErrClosed. It does not wait for their done functions, or for callbacks. It ends
// memberships, services and subscriptions: it sends the requests for that, and does not wait for the responses. It is
// idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	backoff, pnp := c.backoff, c.pnp
	c.backoff = nil
	watchers := slices.Collect(maps.Keys(c.watchers))
	c.mu.Unlock()
	for r := range backoff {
		r.stopBackoff()
		go r.done(nil, ErrClosed)
	}
	for _, w := range watchers {
		w.close()
	}
	c.mu.Lock()
	agents, receivers := c.agents, c.receivers
	c.agents, c.receivers = nil, nil
	c.mu.Unlock()
	var errs []error
	for _, a := range agents {
		errs = append(errs, a.Close())
	}
	for _, r := range receivers {
		if r.agent != nil {
			errs = append(errs, r.agent.Close())
		}
	}
	if pnp != nil {
		errs = append(errs, pnp.CloseAsync(nil))
	}
	return errors.Join(errs...)
}

// agent returns the agent of a port. It registers one if the port has none; created reports that.
func (c *Client) agent(port mads.Port) (a mads.Agent, created bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, ErrClosed
	}
	if a = c.agents[port]; a != nil {
		return a, false, nil
	}
	a, err = c.svc.Register(mads.AgentConfig{Name: "SA client", Port: port, Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true})
	if err != nil {
		return nil, false, err
	}
	c.agents[port] = a
	return a, true, nil
}

// forget removes an agent that was closed with its port.
func (c *Client) forget(port mads.Port, a mads.Agent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agents[port] == a {
		delete(c.agents, port)
	}
}

// unlessClosed returns ErrClosed instead of err if the client is closed.
func (c *Client) unlessClosed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.closed {
		return ErrClosed
	}
	return err
}

// defaultPKey is the partition that all ports share with the administrator (10.9.1.2).
const defaultPKey ci.PKey = 0xffff

// administrator returns the address of the administrator: the subnet manager's LID (IBTA 15.3.2), in the default
// partition, at whatever index of the port's table that is.
func (c *Client) administrator(port mads.Port) (to mads.Address, err error) {
	if c.al == nil || ci.IsNil(c.svc) {
		return to, failure(ci.InvalidParameter, "New was called without an access layer or without MAD services", nil)
	}
	a, err := c.al.Adapter(port.CA)
	if err != nil { // InvalidPort, as mads.Service.Register returns for such a port
		return to, failure(ci.InvalidPort, "the port does not exist", err)
	}
	p, err := a.Port(port.Num)
	switch {
	case err != nil:
		return to, err
	case p.Link != ci.LinkInfiniBand:
		return to, failure(ci.InvalidPort, "an Ethernet port has no subnet administrator", nil)
	case p.SMLID == 0:
		return to, failure(ci.InvalidPortState, fmt.Sprintf("port %d of CA %016x has no subnet manager (is one "+
			"running?)",
			port.Num, uint64(port.CA)), nil)
	}
	index, _, err := a.FindPKey(port.Num, defaultPKey)
	if err != nil {
		return to, err
	}
	av := ci.AVAttr{Port: port.Num, DLID: p.SMLID, SL: ci.SL(p.SMSL)}
	return mads.Address{AV: av, QPN: 1, PKeyIndex: index}, nil
}

func failure(s ci.Status, detail string, err error) error {
	return &ci.Error{Verb: "sa.Do", Status: s, Detail: detail, Err: err}
}
