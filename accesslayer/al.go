package accesslayer

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/clock"
)

// AL is an access layer: the registry of HCAs and the root of the object tree. Drivers use it as a ci.Registrar,
// clients use what Open returns. All methods may be called concurrently.
type AL struct {
	cfg  Config
	root *node
	exec serial // the reaper of objects that belong to no adapter
	pnp  *notifier

	mu       sync.Mutex // guards the tree, see node
	seq      uint64
	closed   bool
	adapters []*Adapter       // in order of registration, including those that are being registered or removed
	soles    map[string]*node // the clients that hold a ClientConfig.Sole
}

// New returns an access layer. It starts no goroutine until there is work to do.
func New(cfg Config) *AL {
	al := &AL{cfg: cfg.withDefaults()}
	al.pnp = &notifier{al: al}
	al.root = &node{al: al, kind: kindAL, state: alive, refs: 1, exec: &al.exec}
	return al
}

// Close deregisters every HCA, the newest first, and then closes the clients. It is idempotent. After an error, such as
// a Timeout or a driver that refuses to close, it may be called again. Register and Open return ErrClosed afterwards.
// Close must not be called from a callback.
func (al *AL) Close() error {
	al.mu.Lock()
	al.closed = true
	adapters := slices.Clone(al.adapters)
	al.mu.Unlock()
	var errs []error
	for _, a := range slices.Backward(adapters) {
		if err := al.Deregister(a.info.GUID); err != nil && !errors.Is(err, ci.NotFound) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return al.root.close()
}

// Adapters returns the registered HCAs in order of registration.
func (al *AL) Adapters() []*Adapter {
	al.mu.Lock()
	defer al.mu.Unlock()
	var as []*Adapter
	for _, a := range al.adapters {
		if a.present() {
			as = append(as, a)
		}
	}
	return as
}

// Adapter returns the HCA with a GUID. Status: NotFound (no such HCA, or it is being removed).
func (al *AL) Adapter(guid ci.GUID) (*Adapter, error) { return al.adapter("AL.Adapter", guid) }

func (al *AL) adapter(verb string, guid ci.GUID) (*Adapter, error) {
	for _, a := range al.Adapters() {
		if a.info.GUID == guid {
			return a, nil
		}
	}
	return nil, notRegistered(verb, guid)
}

// AdapterByGID returns the HCA and the port that have gid in their table. Status: NotFound.
func (al *AL) AdapterByGID(gid ci.GID) (a *Adapter, port uint8, err error) {
	a, err = al.find("AL.AdapterByGID", func(a *Adapter) (ok bool) {
		port, _, ok = FindGID(a.Attr(), 0, gid)
		return ok
	})
	return a, port, err
}

// AdapterByPort returns the HCA and the number of the port that has a GUID. Status: NotFound.
func (al *AL) AdapterByPort(guid ci.GUID) (a *Adapter, port uint8, err error) {
	a, err = al.find("AL.AdapterByPort", func(a *Adapter) bool {
		for _, p := range a.Attr().Ports {
			if p.GUID == guid {
				port = p.Num
				return true
			}
		}
		return false
	})
	return a, port, err
}

func (al *AL) find(verb string, match func(*Adapter) bool) (*Adapter, error) {
	for _, a := range al.Adapters() {
		if match(a) {
			return a, nil
		}
	}
	return nil, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: "no registered HCA matches"}
}

// Clock returns the clock of the access layer. Services on it use the same clock.
func (al *AL) Clock() clock.Clock { return al.cfg.Clock }

// Logger returns the logger of the access layer.
func (al *AL) Logger() *slog.Logger { return al.cfg.Logger }
