package alsuite

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// scripted stands above the driver, and returns or does what the case has set. The zero value changes nothing.
type scripted struct {
	mu     sync.Mutex
	info   func(*ci.HCAInfo)
	open   func(raise func(ci.Event)) error                 // called by OpenCA, before the driver
	query  func(n int, a *ci.CAAttr) (*ci.CAAttr, error)    // called by Query, with a copy, the nth since set
	modify func(num uint8, f ci.PortField, a ci.PortModify) // called by Modify instead of the driver
	fail   error                                            // result of Modify, if modify is set

	queries, modifies, opens int // calls since set
	raise                    func(ci.Event)
}

// set replaces the script.
func (s *scripted) set(edit func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info, s.open, s.query = nil, nil, nil
	s.modify, s.fail = nil, nil
	s.queries, s.modifies, s.opens = 0, 0, 0
	if edit != nil {
		edit(s)
	}
}

// counts returns the numbers of opens, queries and calls of Modify since set.
func (s *scripted) counts() [3]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [3]int{s.opens, s.queries, s.modifies}
}

// event delivers an event of the driver to the consumer that has opened the CA last.
func (s *scripted) event(e ci.Event) {
	s.mu.Lock()
	raise := s.raise
	s.mu.Unlock()
	raise(e)
}

func (s *scripted) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		HCA: func(h ci.HCA) ci.HCA { return scriptedHCA{ciwrap.HCA{HCA: h}, s} },
		CA:  func(c ci.CA) ci.CA { return scriptedCA{ciwrap.CA{CA: c}, s} },
	})
}

type scriptedHCA struct {
	ciwrap.HCA
	s *scripted
}

func (h scriptedHCA) Info() ci.HCAInfo {
	i := h.HCA.Info()
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.s.info != nil {
		h.s.info(&i)
	}
	return i
}

func (h scriptedHCA) OpenCA(guid ci.GUID, fn func(ci.Event), ctx any) (ci.CA, error) {
	raise := func(e ci.Event) { e.Context = ctx; fn(e) }
	h.s.mu.Lock()
	h.s.opens++
	h.s.raise = raise
	open := h.s.open
	h.s.mu.Unlock()
	if open != nil {
		if err := open(raise); err != nil {
			return nil, err
		}
	}
	return h.HCA.OpenCA(guid, fn, ctx)
}

type scriptedCA struct {
	ciwrap.CA
	s *scripted
}

func (c scriptedCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.queries++
	if c.s.query == nil {
		return a, nil
	}
	return c.s.query(c.s.queries, copyAttr(a))
}

func (c scriptedCA) Modify(num uint8, f ci.PortField, a ci.PortModify) error {
	c.s.mu.Lock()
	c.s.modifies++
	modify, fail := c.s.modify, c.s.fail
	c.s.mu.Unlock()
	if modify == nil {
		return c.CA.Modify(num, f, a)
	}
	modify(num, f, a)
	return fail
}
