package driver

import (
	"sync"

	"ciddk/ci"
)

// A Pool counts the objects of a kind, up to the limit that CA.Query returns.
type Pool struct {
	Max int // it does not change after the first Take

	mu sync.Mutex
	n  int
}

// Take counts one more object. Status: InsufficientResources.
func (p *Pool) Take(verb string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n >= p.Max {
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "the limit of the adapter is reached"}
	}
	p.n++
	return nil
}

// Give counts one object less.
func (p *Pool) Give() {
	p.mu.Lock()
	p.n--
	p.mu.Unlock()
}

// Count returns the number of objects.
func (p *Pool) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}
