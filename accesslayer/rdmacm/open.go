package rdmacm

import (
	"errors"
	"math/rand/v2"
	"slices"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
)

// OpenConfig describes what Open and OpenHCA create. The zero value is ready for use.
type OpenConfig struct {
	// AccessLayer is the configuration of the access layer that OpenHCA creates: clock, logger and so on. Open does not
	// use it.
	AccessLayer accesslayer.Config
	// MAD and CM are the configurations of the services.
	MAD mads.Config
	CM  cm.Config
	// Resolver and Ephemeral are those of cmid.Config.
	Resolver  resolve.Resolver
	Ephemeral [2]uint16
	// Rand is the source of all random numbers in the services: PSNs, ports, communication and transaction IDs. CM.Rand
	// and MAD.FirstAgent are derived from it, unless they are set. nil: unpredictable. Together with a clock
	// (AccessLayer.Clock, or a testing/synctest bubble) and a seeded HCA and network, a run can be repeated.
	Rand *rand.Rand
	// MemoryAddr, if not nil, returns the address of a Memory of n bytes for peers, a multiple of 4096. nil: that of
	// the storage, which is another one in each run.
	MemoryAddr func(n uint64) uint64
	// OnClose, if not nil, is called at the end of Manager.Close, to close what the Manager depends on.
	OnClose func() error
}

// seed derives the random sources of the services. Each of them has a lock of its own.
func (c *OpenConfig) seed() {
	if c.Rand == nil {
		return
	}
	if c.CM.Rand == nil {
		c.CM.Rand = rand.New(rand.NewPCG(c.Rand.Uint64(), c.Rand.Uint64()))
	}
	if c.MAD.FirstAgent == 0 {
		c.MAD.FirstAgent = c.Rand.Uint32() | 1
	}
}

func (c *OpenConfig) onClose() func() error {
	if c.OnClose == nil {
		return func() error { return nil }
	}
	return c.OnClose
}

// closeAll calls the functions in reverse order.
func closeAll(own []func() error) error {
	var errs []error
	for _, f := range slices.Backward(own) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Open creates a Manager with services of its own on an access layer: MAD services and a connection manager. An access
// layer has at most one, because QP1 and the port spaces have one owner. The parts of a program share the Manager, as
// they share the network of their host. Errors: ResourceBusy (there are MAD services already; the error names their
// owner, and after their Close, Open succeeds), those of accesslayer.AL.Open, mads.New and cm.New.
func Open(al *accesslayer.AL, cfg OpenConfig) (*Manager, error) {
	if al == nil {
		return nil, failure.Invalid("rdmacm.Open", "an access layer is needed")
	}
	cfg.seed()
	own := []func() error{cfg.onClose()}
	// OnClose is called only by the Close of a Manager.
	fail := func(err error) (*Manager, error) { return nil, errors.Join(err, closeAll(own[1:])) }
	if cfg.MAD.Name == "" {
		cfg.MAD.Name = "rdmacm.Open"
	}
	client, err := al.Open(accesslayer.ClientConfig{Name: "rdmacm"})
	if err != nil {
		return nil, err
	}
	own = append(own, client.Close)
	svc, err := mads.New(al, cfg.MAD)
	if err != nil {
		return fail(err)
	}
	own = append(own, svc.Close)
	c, err := cm.New(al, svc, cfg.CM)
	if err != nil {
		return fail(err)
	}
	own = append(own, c.Close)
	ids, err := cmid.New(client, cmid.Config{CM: c, MAD: svc, Resolver: cfg.Resolver, Ephemeral: cfg.Ephemeral,
		Rand: cfg.Rand, OnClose: func() error { return closeAll(own) }})
	if err != nil {
		return fail(err)
	}
	return &Manager{ids: ids, memoryAddr: cfg.MemoryAddr}, nil
}

// OpenHCA creates a Manager for one HCA of any driver, with an access layer and services of its own. It is the one call
// that programs need which use no other part of the access layer. Manager.Close closes all of it. The HCA belongs to
// the caller, who closes it after the Manager. Errors: those of accesslayer.AL.Register and of Open.
func OpenHCA(hca ci.HCA, cfg OpenConfig) (*Manager, error) {
	al := accesslayer.New(cfg.AccessLayer)
	if err := al.Register(hca); err != nil {
		return nil, errors.Join(err, al.Close())
	}
	onClose := cfg.onClose()
	cfg.OnClose = func() error { return errors.Join(al.Close(), onClose()) }
	m, err := Open(al, cfg)
	if err != nil {
		return nil, errors.Join(err, al.Close())
	}
	return m, nil
}
