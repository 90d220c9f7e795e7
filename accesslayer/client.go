package accesslayer

import (
	"fmt"

	"ciddk/ci"
)

// Client is one user of the access layer, and the root of all that it makes. Its destruction takes everything below with it: that is
// how a program, or a daemon on behalf of one, is sure to leave nothing behind.
type Client struct{ n *node }

func (c *Client) node() *node { return c.n }

// Close destroys everything that the client has created, and waits for it, at most Config.DrainTimeout; then it returns
// ci.Timeout, and the destruction continues. It is idempotent: later calls wait for the first and return its result. It
// must not be called from a callback of the client's objects.
func (c *Client) Close() error { return c.n.close() }

// CloseAsync is Close for callbacks: it returns at once. onDone, if not nil, is called at the end, after all other
// callbacks of the client's objects. Status: InvalidALHandle with ErrClosed if the client is closed already; then onDone
// is not called.
func (c *Client) CloseAsync(onDone func(error)) error { return c.n.destroyAsync(onDone) }

// ClientConfig describes a client.
type ClientConfig struct {
	Name string // for errors and logs
	// Sole, if not empty, names what there is one of per access layer and this client is to hold: as long as it is not gone, another
	// client with the same is refused.
	Sole string
}

// Open makes a client. Status: ErrClosed; ResourceBusy (another client holds Sole; the error names it).
func (al *AL) Open(cfg ClientConfig) (*Client, error) {
	const verb = "AL.Open"
	c := &Client{}
	c.n = &node{kind: kindClient, label: cfg.Name, obj: c}
	if cfg.Sole != "" {
		if err := al.claim(verb, cfg.Sole, c.n); err != nil {
			return nil, err
		}
	}
	err := c.n.make(al.root, verb, nothing)
	if err != nil && cfg.Sole != "" {
		al.mu.Lock()
		c.n.gone()
		al.mu.Unlock()
	}
	return made(c, err)
}

// claim gives a client what there is one of, until the client is gone.
func (al *AL) claim(verb, sole string, n *node) error {
	al.mu.Lock()
	defer al.mu.Unlock()
	if holder := al.soles[sole]; holder != nil {
		how := "share that one, or close it first"
		if holder.state >= destroying {
			how = "which is being closed: wait for the end of that"
		}
		return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: fmt.Sprintf("%s of this access layer: held by the client %q, %s", sole, holder.label, how)}
	}
	if al.soles == nil {
		al.soles = map[string]*node{}
	}
	al.soles[sole] = n
	n.gone = func() {
		if al.soles[sole] == n {
			delete(al.soles, sole)
		}
	}
	return nil
}

// AL is the access layer that the client belongs to.
func (c *Client) AL() *AL { return c.n.al }

// OpenCA opens an HCA by its GUID. Any number of opens, of any number of clients, share the one open of the driver. Events of the
// CA and its ports come to onEvent, which may be nil, one at a time, on a goroutine of the access layer.
// Status: NotFound (no such HCA), InvalidState with ErrClosed (on its way out; client closed).
func (c *Client) OpenCA(guid ci.GUID, onEvent func(*CA, ci.Event)) (*CA, error) {
	const verb = "Client.OpenCA"
	al := c.n.al
	var a *Adapter
	al.mu.Lock()
	for _, b := range al.adapters {
		if b.info.GUID == guid && b.n.state != creating {
			a = b
		}
	}
	ok := a != nil && a.present()
	al.mu.Unlock()
	switch {
	case a == nil:
		return nil, notRegistered(verb, guid)
	case !ok:
		return nil, kindAdapter.dying(verb)
	}
	ca := &CA{verbs: caVerbs{a.ca}, a: a, onEvent: onEvent}
	// Each open has its own reaper: a driver's destroy that waits for one client's callback does not hold up another client.
	ca.n = &node{kind: kindCA, obj: ca, exec: &serial{}}
	return made(ca, ca.n.make(c.n, verb, nothing, a.n))
}

// HCA is an HCA seen through this client, for code that is written against package ci: what it makes is tracked, shared and destroyed as
// if made here. Its OpenCA may be called several times. Status: NotFound (no such HCA, or it is being removed).
func (c *Client) HCA(guid ci.GUID) (ci.HCA, error) {
	a, err := c.n.al.adapter("Client.HCA", guid)
	if err != nil {
		return nil, err
	}
	return clientHCA{c: c, a: a}, nil
}

// notRegistered is the error of every verb that gets a GUID which no HCA has.
func notRegistered(verb string, guid ci.GUID) error {
	return &ci.Error{Verb: verb, Status: ci.NotFound,
		Detail: fmt.Sprintf("no HCA with GUID %016x is registered", uint64(guid))}
}

type clientHCA struct {
	ci.UnimplementedHCA
	c *Client
	a *Adapter
}

func (h clientHCA) Info() ci.HCAInfo { return h.a.info }

func (h clientHCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), ctx any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "zero GUID or nil onEvent"}
	case guid != h.a.info.GUID:
		return nil, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: fmt.Sprintf("this HCA is %016x", uint64(h.a.info.GUID))}
	}
	ca, err := h.c.OpenCA(guid, func(_ *CA, e ci.Event) { e.Context = ctx; onEvent(e) })
	if err != nil {
		return nil, err
	}
	return ca.CI(), nil
}
