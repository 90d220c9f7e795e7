package accesslayer

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/clock"
)

// AL is an access layer: the registry of HCAs, and the root of the object tree. Drivers see its ci.Registrar side, clients what Open
// returns. All methods may be called concurrently.
type AL struct {
	cfg  Config
	root *node
	exec serial // the reaper of what belongs to no adapter
	pnp  *notifier

	mu       sync.Mutex // the tree: see node
	seq      uint64
	closed   bool
	adapters []*Adapter       // in order of registration, being registered and being removed included
	soles    map[string]*node // who holds what there is one of: ClientConfig.Sole
}

// New makes an access layer. It runs nothing until there is something to do.
func New(cfg Config) *AL {
	al := &AL{cfg: cfg.withDefaults()}
	al.pnp = &notifier{al: al}
	al.root = &node{al: al, kind: kindAL, state: alive, refs: 1, exec: &al.exec}
	return al
}

// Close removes every HCA as Deregister does, the newest first, then closes the clients. It is idempotent; after an error (a Timeout, a
// driver that does not let go) it may be called again. Afterwards Register and Open answer ErrClosed. Not from a callback.
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

// Adapters lists the HCAs that are present, in order of registration.
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

// AdapterByGID finds the HCA, and the port of it, that has gid in its table.
func (al *AL) AdapterByGID(gid ci.GID) (a *Adapter, port uint8, err error) {
	a, err = al.find("AL.AdapterByGID", func(a *Adapter) (ok bool) {
		port, _, ok = FindGID(a.Attr(), 0, gid)
		return ok
	})
	return a, port, err
}

// AdapterByPort finds the HCA, and the number of the port, by the port's GUID.
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
	return nil, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: "no HCA that is present matches"}
}

// Clock is what the access layer's time comes from; its services use it too.
func (al *AL) Clock() clock.Clock { return al.cfg.Clock }

// Logger is the access layer's.
func (al *AL) Logger() *slog.Logger { return al.cfg.Logger }
