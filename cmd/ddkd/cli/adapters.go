package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// adapters are the adapters of a daemon. Methods may be called concurrently.
type adapters struct {
	al  *accesslayer.AL
	log *slog.Logger

	change sync.Mutex // held by add, remove and close

	mu   sync.Mutex // guards list
	list []*openAdapter
}

// openAdapter is an adapter that is in service.
type openAdapter struct {
	adapter
	hca      ci.HCA
	numPorts uint8
}

// guid returns the adapter's GUID as users write it.
func (a *openAdapter) guid() string { return guidText(a.hca.Info().GUID) }

func guidText(g ci.GUID) string { return fmt.Sprintf("%016x", uint64(g)) }

// snapshot returns the adapters, the oldest first.
func (s *adapters) snapshot() []*openAdapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// add opens an adapter and registers it: the hardware is ready before clients can see it. [SAS-2.2-03, SAS-2.2-10]
func (s *adapters) add(ctx context.Context, a adapter) (*openAdapter, error) {
	s.change.Lock()
	defer s.change.Unlock()
	h, err := a.driver.Open(ctx, maps.Clone(a.settings), s.log)
	if err != nil {
		return nil, err
	}
	x := &openAdapter{adapter: a, hca: h}
	if err := s.al.Register(h); err != nil {
		return nil, errors.Join(err, x.close())
	}
	if found, err := s.al.Adapter(h.Info().GUID); err == nil { // else it is being removed, by its driver
		x.numPorts = uint8(len(found.Attr().Ports))
	}
	s.mu.Lock()
	s.list = append(s.list, x)
	s.mu.Unlock()
	s.log.Info("adapter added", "guid", x.guid(), "driver", a.driver.Name, "settings", a.settings)
	return x, nil
}

// remove takes an adapter out of service, in the order of SAS 2.2: the access layer informs the clients and destroys
// their objects, then it closes the CA, and then the hardware stops. An error leaves the adapter in the list, and
// remove may be called again. [SAS-2.2-05 … -09]
func (s *adapters) remove(name string) (*openAdapter, error) {
	s.change.Lock()
	defer s.change.Unlock()
	a, err := s.find(name)
	if err != nil {
		return nil, err
	}
	// NotFound: an earlier remove failed after this step.
	if err := s.al.Deregister(a.hca.Info().GUID); err != nil && !errors.Is(err, ci.NotFound) {
		return nil, err
	}
	if err := a.close(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.list = slices.DeleteFunc(s.list, func(x *openAdapter) bool { return x == a })
	s.mu.Unlock()
	s.log.Info("adapter removed", "guid", a.guid())
	return a, nil
}

// find returns the adapter with a GUID, or the only one that has name as the value of a key, such as its address.
func (s *adapters) find(name string) (*openAdapter, error) {
	list := s.snapshot()
	if n, err := strconv.ParseUint(name, 16, 64); err == nil {
		for _, a := range list {
			if a.hca.Info().GUID == ci.GUID(n) {
				return a, nil
			}
		}
	}
	list = slices.DeleteFunc(list, func(a *openAdapter) bool {
		return !slices.Contains(slices.Collect(maps.Values(a.settings)), name)
	})
	switch len(list) {
	case 0:
		return nil, &ci.Error{Verb: verbAdapter, Status: ci.NotFound,
			Detail: fmt.Sprintf("no adapter %q (use a GUID or an address that ddkd adapter list prints)", name)}
	case 1:
		return list[0], nil
	}
	return nil, &ci.Error{Verb: verbAdapter, Status: ci.InvalidParameter,
		Detail: fmt.Sprintf("%d adapters have %q (use a GUID)", len(list), name)}
}

// close stops the hardware.
func (a *openAdapter) close() error {
	if c, ok := a.hca.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// close stops the hardware of all adapters. The access layer is closed before.
func (s *adapters) close() error {
	s.change.Lock()
	defer s.change.Unlock()
	var errs []error
	for _, a := range slices.Backward(s.snapshot()) {
		errs = append(errs, a.close())
	}
	return errors.Join(errs...)
}
