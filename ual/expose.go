package ual

import (
	"errors"
	"slices"
	"sync"

	"ciddk/ci"
)

// exposures are memory that daemons may reach by its address, without a registration, in the order of addresses.
var exposures struct {
	sync.Mutex
	list []*pinned
}

// Expose permits the daemons of this process's clients to copy from and to memory, until release. A vendor's user
// library calls it for queues that it has allocated, before it names their addresses in private data: the driver then
// reaches them by ci.Process.Memory also where the system does not permit cross-memory copies. Memory of NewMemory is
// exposed until Close.
//
// release waits for a copy in progress. It is idempotent. Error: memory that cannot be pinned, or that overlaps exposed
// memory.
func Expose(m ci.Memory) (release func(), err error) {
	if ci.IsNil(m) || m.Len() == 0 || m.Addr()+m.Len() < m.Addr() {
		return nil, errors.New("ual: no memory to expose")
	}
	unpin, err := m.Pin()
	if err != nil {
		return nil, err
	}
	p := &pinned{mem: m, addr: m.Addr(), length: m.Len(), unpin: unpin}
	x := &exposures
	x.Lock()
	defer x.Unlock()
	i := findExposure(p.addr + p.length - 1)
	if i > 0 && x.list[i-1].addr+x.list[i-1].length > p.addr {
		unpin()
		return nil, errors.New("ual: the memory is exposed already, or a part of it")
	}
	x.list = slices.Insert(x.list, i, p)
	return sync.OnceFunc(func() {
		x.Lock()
		i := slices.Index(x.list, p)
		x.list = slices.Delete(x.list, i, i+1)
		x.Unlock()
		p.end()
	}), nil
}

// findExposure returns the number of exposures that begin at or below an address. The mutex of exposures is held.
func findExposure(addr uint64) int {
	i, _ := slices.BinarySearchFunc(exposures.list, addr, func(p *pinned, addr uint64) int {
		if p.addr <= addr {
			return -1
		}
		return 1
	})
	return i
}

// exposedAt returns the exposed memory that contains an address, or nil if there is none.
func exposedAt(addr uint64) *pinned {
	exposures.Lock()
	defer exposures.Unlock()
	if i := findExposure(addr); i > 0 {
		return exposures.list[i-1]
	}
	return nil
}

// exposesMemory reports whether the process has exposed memory.
func exposesMemory() bool {
	exposures.Lock()
	defer exposures.Unlock()
	return len(exposures.list) > 0
}
