package cmid

import (
	"context"
	crand "crypto/rand"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/internal/hold"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/clock"
)

// Manager creates IDs, connections and listeners. All methods may be called concurrently.
type Manager struct {
	client   *accesslayer.Client
	al       *accesslayer.AL
	cm       cm.Service
	resolver resolve.Resolver
	sa       *sa.Client  // nil: none
	wheel    clock.Wheel // of keepalive and of steps
	ports    Ports
	pnp      *accesslayer.PnP
	own      []func() error // close what New and Open created, in order of creation
	random   func() uint64

	closing  *hold.Once
	closeErr error

	opening hold.Mutex // held while an HCA is opened

	mu      sync.Mutex
	closed  bool
	ids     map[*ID]struct{}
	devices map[ci.GUID]*device
}

// device is the Manager's open of an HCA.
type device struct {
	ca *accesslayer.CA
	pd *accesslayer.PD
}

// AL returns the access layer, for programs that create objects of their own.
func (m *Manager) AL() *accesslayer.AL { return m.al }

// unpredictable returns a source whose numbers cannot be guessed.
func unpredictable() *rand.Rand {
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	return rand.New(rand.NewChaCha8(seed))
}

// New creates a Manager that uses HCAs through client, and the services in cfg. The objects that it opens and creates
// belong to the client, too. Status: InvalidParameter (no client, no CM, an empty range), ErrClosed (of client).
func New(client *accesslayer.Client, cfg Config) (*Manager, error) {
	if client == nil || ci.IsNil(cfg.CM) {
		return nil, failure.Invalid("cmid.New", "a client and Config.CM are needed")
	}
	m := &Manager{client: client, al: client.AL(), cm: cfg.CM, resolver: cfg.Resolver, closing: hold.NewOnce(),
		opening: hold.NewMutex(), ids: map[*ID]struct{}{}, devices: map[ci.GUID]*device{}}
	m.wheel.Init(m.al.Clock())
	if cfg.Rand == nil {
		cfg.Rand = unpredictable()
	}
	var mu sync.Mutex // rand.Rand has none
	m.random = func() uint64 { mu.Lock(); defer mu.Unlock(); return cfg.Rand.Uint64() }
	var err error
	if m.ports = cfg.Ports; m.ports == nil {
		if m.ports, err = NewPortTable(cfg.Ephemeral, m.random); err != nil {
			return nil, err
		}
	}
	if m.pnp, err = client.RegisterPnP(accesslayer.PnPConfig{Remove: m.removed}); err != nil {
		return nil, err
	}
	if cfg.OnClose != nil {
		m.own = append(m.own, cfg.OnClose)
	}
	m.own = append(m.own, func() error { return failure.UnlessGone(m.pnp.Destroy()) })
	if m.sa = cfg.SA; m.sa == nil && cfg.MAD != nil {
		m.sa = sa.New(m.al, cfg.MAD, sa.Config{})
		m.own = append(m.own, m.sa.Close)
	}
	if m.resolver == nil {
		r := resolve.NewSystem(m.al, m.sa)
		m.resolver = r
		m.own = append(m.own, r.Close)
	}
	return m, nil
}

// SA returns the client of the subnet administrator that the Manager uses, or nil if there is none. Programs share it,
// since only one client of a port can have subscriptions. It is closed with the Manager, unless it is Config.SA.
func (m *Manager) SA() *sa.Client { return m.sa }

// Close closes all listeners and IDs, and the services if Open created them. It is idempotent. Do not call it from a
// callback.
func (m *Manager) Close() error {
	m.closing.Do(func() {
		m.mu.Lock()
		m.closed = true
		ids := slices.Collect(maps.Keys(m.ids))
		m.mu.Unlock()
		var errs []error
		for _, i := range ids {
			errs = append(errs, i.Close())
		}
		m.wheel.Stop()
		m.mu.Lock()
		devices := m.devices
		m.devices = nil
		m.mu.Unlock()
		for _, d := range devices {
			errs = append(errs, failure.UnlessGone(d.ca.Destroy()))
		}
		for _, f := range slices.Backward(m.own) {
			errs = append(errs, f())
		}
		m.closeErr = errors.Join(errs...)
	})
	return m.closeErr
}

// add adds an ID to those that Close closes.
func (m *Manager) add(i *ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return net.ErrClosed
	}
	m.ids[i] = struct{}{}
	return nil
}

func (m *Manager) forget(i *ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ids, i)
}

// NewID creates an ID. Close it after use.
// Errors: InvalidParameter (an invalid combination of port space, type and service), net.ErrClosed.
func (m *Manager) NewID(cfg IDConfig) (*ID, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	i := newID(m, cfg)
	if err := m.add(i); err != nil {
		return nil, failure.Op("create", Addr{Space: cfg.Space}, Addr{}, err)
	}
	return i, nil
}

// defaultLifeTime is 268 ms. The QP waits twice as long for an acknowledgement; a software HCA on a busy machine needs
// tens of milliseconds at worst.
const defaultLifeTime = 16

func (c *IDConfig) complete() error {
	const verb = "Manager.NewID"
	if c.Space == 0 {
		c.Space = TCP
		if c.Service != 0 {
			c.Space = IB
		}
	}
	if c.LifeTime == 0 {
		c.LifeTime = defaultLifeTime
	}
	switch {
	case c.Space == UDP && c.Type == ci.RC:
		c.Type = ci.UD // the zero value
	case c.Space != TCP && c.Space != UDP && c.Space != IB:
		return failure.Invalid(verb, "Space is %v, want TCP, UDP or IB", c.Space)
	case c.Type != ci.RC && c.Type != ci.UC && c.Type != ci.UD:
		return failure.Invalid(verb, "QPs of type %v cannot be connected by IP address", c.Type)
	case c.Space == TCP && c.Type == ci.UD || c.Space == UDP && c.Type != ci.UD:
		return failure.Invalid(verb, "QPs of type %v are not in port space %v", c.Type, c.Space)
	case c.Service != 0 && c.Space != IB:
		return failure.Invalid(verb, "Service is set, and Space is %v, want IB", c.Space)
	}
	return nil
}

// Dial connects to an address, and returns the ID of an established connection, or of datagrams, with its QP. It
// performs all steps. After an error nothing is left. Errors: those of the steps.
func (m *Manager) Dial(ctx context.Context, remote netip.AddrPort, cfg DialConfig) (id *ID, err error) {
	i, err := m.NewID(cfg.ID)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			to := Addr{Space: i.cfg.Space, AddrPort: remote, Service: i.cfg.Service}
			err = failure.Op("dial", Addr{Space: i.cfg.Space}, to, err)
			if cerr := i.Close(); cerr != nil {
				err = errors.Join(err, cerr)
			}
		}
	}()
	if cfg.Local.IsValid() {
		if err := i.Bind(cfg.Local); err != nil {
			return nil, err
		}
	}
	if err := i.ResolveAddr(ctx, remote); err != nil {
		return nil, err
	}
	if err := i.ResolveRoute(ctx); err != nil {
		return nil, err
	}
	if !cfg.NoQP {
		if err := i.CreateQP(cfg.QP); err != nil {
			return nil, err
		}
	}
	if cfg.Setup != nil {
		if err := cfg.Setup(i); err != nil {
			return nil, err
		}
	}
	if err := i.Connect(ctx, cfg.Conn); err != nil {
		return nil, err
	}
	return i, nil
}

// Listen begins to receive requests for an address and port. The zero address and :: stand for all addresses of all
// HCAs, also of those that are added later; 0.0.0.0 stands for all of IPv4. Port 0 is a free port: see Listener.Addr.
// Errors: EADDRINUSE, EADDRNOTAVAIL (no HCA has the address), net.ErrClosed.
func (m *Manager) Listen(local netip.AddrPort, cfg ListenConfig) (*Listener, error) {
	i, err := m.NewID(cfg.ID)
	if err != nil {
		return nil, err
	}
	if err := i.Bind(local); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	l, err := i.Listen(cfg.Backlog)
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return l, nil
}

// Device returns the Manager's open of an HCA, and the PD that its IDs share by default. Both exist until the Manager
// is closed or the HCA is removed. Status: NotFound, ErrClosed.
func (m *Manager) Device(guid ci.GUID) (*accesslayer.CA, *accesslayer.PD, error) {
	m.opening.Lock()
	defer m.opening.Unlock()
	m.mu.Lock()
	d, closed := m.devices[guid], m.closed
	m.mu.Unlock()
	if closed {
		return nil, nil, net.ErrClosed
	}
	// The HCA may have been removed, and added again, while it was opened: then the entry is of the old one.
	if a, err := m.al.Adapter(guid); d != nil && err == nil && a == d.ca.Adapter() {
		return d.ca, d.pd, nil
	}
	ca, err := m.client.OpenCA(guid, nil)
	if err != nil {
		return nil, nil, err
	}
	pd, err := ca.NewPD(ci.PDNormal)
	if err != nil {
		return nil, nil, errors.Join(err, failure.UnlessGone(ca.Destroy()))
	}
	m.mu.Lock()
	if closed = m.closed; !closed {
		m.devices[guid] = &device{ca, pd}
	}
	m.mu.Unlock()
	if closed {
		return nil, nil, errors.Join(net.ErrClosed, failure.UnlessGone(ca.Destroy()))
	}
	return ca, pd, nil
}

// removed is called when an HCA is removed. The access layer destroys its objects afterwards.
func (m *Manager) removed(a *accesslayer.Adapter, _ any) {
	m.mu.Lock()
	delete(m.devices, a.GUID())
	ids := slices.Collect(maps.Keys(m.ids))
	m.mu.Unlock()
	for _, i := range ids {
		i.removed(a.GUID())
	}
}
