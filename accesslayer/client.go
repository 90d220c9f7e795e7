package accesslayer

import (
	"fmt"

	"ciddk/ci"
)

// Client is one user of the access layer, and the root of all objects that it creates. Close destroys all of them, so
// that a program, or a daemon on behalf of one, leaves nothing behind.
type Client struct{ n *node }

func (c *Client) node() *node { return c.n }

// Close destroys everything that the client has created, and waits for it, at most Config.DrainTimeout; then it returns
// ci.Timeout, and the destruction continues. It is idempotent: later calls wait for the first and return its result. It
// must not be called from a callback of the client's objects.
func (c *Client) Close() error { return c.n.close() }

// CloseAsync is Close for callbacks: it returns at once. onDone, if not nil, is called at the end, after all other
// callbacks of the client's objects. Status: InvalidALHandle with ErrClosed if the client is closed already; then
// onDone is not called.
func (c *Client) CloseAsync(onDone func(error)) error { return c.n.destroyAsync(onDone) }

// ClientConfig describes a client.
type ClientConfig struct {
	Name string // for errors and logs
	// Sole, if not empty, names a role that only one client of an access layer can have, such as the owner of QP1. Open
	// fails while another client has the same role.
	Sole string
	// Strict makes the client's objects follow package ci where the access layer does more, for programs that are
	// written for a driver: Destroy returns ResourceBusy for an object that has children or users, a create below a
	// destroyed object returns the status of that object, and OpenCA of an HCA that the client has open returns
	// ResourceBusy. DestroyAsync, Close and Deregister destroy trees as for other clients.
	Strict bool
}

// Open creates a client. Status: ErrClosed; ResourceBusy (another client has the role Sole; the error names it).
func (al *AL) Open(cfg ClientConfig) (*Client, error) {
	const verb = "AL.Open"
	c := &Client{}
	c.n = &node{kind: kindClient, label: cfg.Name, obj: c, strict: cfg.Strict}
	if cfg.Sole != "" {
		if err := al.claim(verb, cfg.Sole, c.n); err != nil {
			return nil, err
		}
	}
	err := c.n.make(al.root, verb, nothing)
	if err != nil && cfg.Sole != "" {
		al.mu.Lock()
		c.n.onDestroyed()
		al.mu.Unlock()
	}
	return made(c, err)
}

// claim reserves a role for a client until the client is destroyed.
func (al *AL) claim(verb, sole string, n *node) error {
	al.mu.Lock()
	defer al.mu.Unlock()
	if holder := al.soles[sole]; holder != nil {
		hint := "share it, or close that client first"
		if holder.state >= destroying {
			hint = "it is being closed: wait for its end"
		}
		return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: fmt.Sprintf("%s: in use by client %q (%s)", sole,
			holder.label, hint)}
	}
	if al.soles == nil {
		al.soles = map[string]*node{}
	}
	al.soles[sole] = n
	n.onDestroyed = func() {
		if al.soles[sole] == n {
			delete(al.soles, sole)
		}
	}
	return nil
}

// Objects returns the number of the client's objects by kind, such as "PD", including those whose destruction is not
// complete. The client itself is not among them.
func (c *Client) Objects() map[string]int {
	c.n.al.mu.Lock()
	defer c.n.al.mu.Unlock()
	count := map[string]int{}
	c.n.eachBelow(func(n *node) { count[n.kind.String()]++ })
	return count
}

// eachBelow calls f for every descendant of n. al.mu is held.
func (n *node) eachBelow(f func(*node)) {
	for k := n.first; k != nil; k = k.next {
		f(k)
		k.eachBelow(f)
	}
}

// AL returns the access layer of the client.
func (c *Client) AL() *AL { return c.n.al }

// OpenCA opens an HCA by its GUID. All opens of all clients share one open of the driver. Events of the CA and its
// ports are delivered to onEvent, which may be nil, one at a time on a goroutine of the access layer. Status: NotFound
// (no such HCA), InvalidState with ErrClosed (the HCA is being removed, or the client is closed), ResourceBusy (the
// client is strict and has the HCA open).
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
		return nil, kindAdapter.parentClosed(verb)
	}
	ca := &CA{verbs: caVerbs{a.ca}, a: a, onEvent: onEvent}
	// Each open has its own reaper, so that a driver's destroy that waits for one client's callback does not delay
	// other clients.
	ca.n = &node{kind: kindCA, obj: ca, exec: &serial{}}
	if c.n.strict {
		ca.n.allowed = func() error { return c.notOpen(verb, a) }
	}
	return made(ca, ca.n.make(c.n, verb, nothing, a.n))
}

// notOpen returns an error if the client has an HCA open, whose destruction has not begun: it is linked until after the
// callback that reports the end. al.mu is held.
func (c *Client) notOpen(verb string, a *Adapter) error {
	for k := c.n.first; k != nil; k = k.next {
		if ca, ok := k.obj.(*CA); ok && ca.a == a && k.state < destroying {
			return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: "the client, which is strict, has the HCA " +
				"open"}
		}
	}
	return nil
}

// HCA returns the plain view of an HCA, for code that is written against package ci. Objects that are created through
// it are tracked, shared and destroyed like those of OpenCA. Its OpenCA may be called several times, unless the client
// is strict. Status: NotFound (no such HCA, or it is being removed).
func (c *Client) HCA(guid ci.GUID) (ci.HCA, error) {
	a, err := c.n.al.adapter("Client.HCA", guid)
	if err != nil {
		return nil, err
	}
	return clientHCA{c: c, a: a}, nil
}

// notRegistered returns the error of every verb for a GUID that no HCA has.
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

func (h clientHCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the GUID is zero, or onEvent is nil"}
	case guid != h.a.info.GUID:
		return nil, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: fmt.Sprintf("this HCA is %016x",
			uint64(h.a.info.GUID))}
	}
	ca, err := h.c.OpenCA(guid, func(_ *CA, e ci.Event) { e.Context = arg; onEvent(e) })
	if err != nil {
		return nil, err
	}
	return ca.CI(), nil
}
