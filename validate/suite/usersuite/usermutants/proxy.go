package usermutants

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/usersuite"
)

// proxy returns proxies with a fault.
func proxy() []mutant.Mutant {
	at := func(name, breaks, does string, layer func() ciwrap.Layer) mutant.Mutant {
		return fault(name, breaks, does, func() *usersuite.Fault { return &usersuite.Fault{Driver: layer().Wrap} })
	}
	data := func(name, breaks, does string, change func(*ci.UserBuffer) func()) mutant.Mutant {
		return at(name, breaks, does, func() ciwrap.Layer {
			return ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return dataPD{ciwrap.PD{PD: p}, change} }}
		})
	}
	memory := func(name, breaks, does string, f func(ci.Memory) ci.Memory) mutant.Mutant {
		return at(name, breaks, does, func() ciwrap.Layer {
			return ciwrap.Layer{CA: func(c ci.CA) ci.CA { return memoryCA{ciwrap.CA{CA: c}, f} }}
		})
	}
	return []mutant.Mutant{
		aliased(),
		data("user.no-buffer", "SAS-2.4-08", "the driver receives no private data for a QP", nil),
		data("user.buffer-edited", "SAS-2.4-17", "the first byte of long private data is changed",
			func(ub *ci.UserBuffer) func() {
				if len(ub.In) > 1000 {
					ub.In[0] ^= 1
				}
				return nothing
			}),
		data("user.reply-cut", "SAS-2.4-17", "private data of the driver end at the first zero byte",
			func(ub *ci.UserBuffer) func() {
				return func() {
					for i, b := range ub.Out {
						if b == 0 {
							ub.Out = ub.Out[:i]
							return
						}
					}
				}
			}),
		data("user.descriptors-dropped", "SAS-2.4-14", "the driver's descriptors do not reach the library",
			func(ub *ci.UserBuffer) func() { return func() { ub.OutFiles = nil } }),
		memory("user.memory-refused", "SAS-2.4-02", "the driver cannot reach memory of the process",
			func(ci.Memory) ci.Memory { return nil }),
		memory("user.memory-copied", "SAS-2.4-03", "the driver's writes go to a copy of the process's memory",
			func(m ci.Memory) ci.Memory { return newCopied(m) }),
		memory("user.unmapped-unnoticed", "SAS-2.4-09", "accesses to memory that is not mapped succeed",
			func(m ci.Memory) ci.Memory { return blindMemory{m} }),
		at("user.untracked", "SAS-2.4-07", "a create makes a second CQ that the access layer does not have",
			func() ciwrap.Layer {
				return ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return &spareCQ{PD: ciwrap.PD{PD: p}} }}
			}),
		at("user.events-misrouted", "SAS-2.4-11", "completion events of every process go to the first one",
			func() ciwrap.Layer {
				var mu sync.Mutex
				var first *ci.CQCreate
				return ciwrap.Layer{CQCreate: func(c ci.CQCreate) ci.CQCreate {
					mu.Lock()
					defer mu.Unlock()
					if c.OnCompletion == nil {
						return c
					}
					if first == nil {
						first = &c
					}
					c.OnCompletion, c.Context = first.OnCompletion, first.Context
					return c
				}}
			}),
		at("user.ids-lost", "SAS-2.4-16", "completions that are polled by messages have the wrong ids",
			func() ciwrap.Layer {
				return ciwrap.Layer{CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ { return idCQ{ciwrap.CQ{CQ: q}} }}
			}),
	}
}

func nothing() {}

// dataPD changes the private data of CreateCQ before and after the driver's call. If change is nil, it drops those of
// CreateQP.
type dataPD struct {
	ciwrap.PD
	change func(*ci.UserBuffer) (after func())
}

func (p dataPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	if p.change == nil || c.User == nil {
		return p.PD.CreateCQ(c)
	}
	after := p.change(c.User)
	q, err := p.PD.CreateCQ(c)
	after()
	return q, err
}

func (p dataPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if p.change == nil {
		c.User = nil
	}
	return p.PD.CreateQP(c)
}

// aliased returns a proxy that does not copy: the driver receives the bytes of the application's library.
func aliased() mutant.Mutant {
	return fault("user.buffer-not-copied", "SAS-2.4-06", "the driver receives the application's own bytes",
		func() *usersuite.Fault {
			var mu sync.Mutex
			var theirs []byte
			return &usersuite.Fault{
				Library: func(l *ci.UserLibrary) *ci.UserLibrary {
					x := *l
					x.CreateCQ.Pre = func(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
						err := l.CreateCQ.Pre(a, ub)
						mu.Lock()
						defer mu.Unlock()
						theirs = ub.In
						return err
					}
					return &x
				},
				Driver: ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
					return dataPD{ciwrap.PD{PD: p}, func(ub *ci.UserBuffer) func() {
						mu.Lock()
						defer mu.Unlock()
						if len(theirs) == len(ub.In) {
							ub.In = theirs
						}
						return nothing
					}}
				}}.Wrap,
			}
		})
}

// memoryCA changes what Process.Memory returns. A nil memory is an error.
type memoryCA struct {
	ciwrap.CA
	f func(ci.Memory) ci.Memory
}

func (c memoryCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	return c.CA.OpenUser(memoryProcess{p, c.f}, ub)
}

type memoryProcess struct {
	ci.Process
	f func(ci.Memory) ci.Memory
}

func (p memoryProcess) Memory(addr, n uint64, a ci.Access) (ci.Memory, error) {
	m, err := p.Process.Memory(addr, n, a)
	if err != nil {
		return nil, err
	}
	if m = p.f(m); m == nil {
		return nil, &ci.Error{Verb: "Process.Memory", Status: ci.InvalidPermission}
	}
	return m, nil
}

// copied is a copy of a memory.
type copied struct {
	ci.Memory
	b []byte
}

func newCopied(m ci.Memory) ci.Memory {
	c := &copied{m, make([]byte, m.Len())}
	_, _ = m.ReadAt(c.b, 0) // a memory that cannot be read stays zero
	return c
}

func (c *copied) ReadAt(p []byte, off int64) (int, error)  { return copy(p, c.b[off:]), nil }
func (c *copied) WriteAt(p []byte, off int64) (int, error) { return copy(c.b[off:], p), nil }

// blindMemory is a memory without errors.
type blindMemory struct{ ci.Memory }

func (m blindMemory) ReadAt(p []byte, off int64) (int, error) {
	_, _ = m.Memory.ReadAt(p, off) // the fault
	return len(p), nil
}

func (m blindMemory) WriteAt(p []byte, off int64) (int, error) {
	_, _ = m.Memory.WriteAt(p, off) // the fault
	return len(p), nil
}

// spareCQ creates a second CQ with each one. It destroys them with the PD's next Destroy after a failed one.
type spareCQ struct {
	ciwrap.PD
	mu    sync.Mutex
	spare []ci.CQ
	tries int
}

func (p *spareCQ) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	if q, err := p.PD.CreateCQ(ci.CQCreate{Size: c.Size, User: &ci.UserBuffer{}}); err == nil {
		p.mu.Lock()
		p.spare = append(p.spare, q)
		p.mu.Unlock()
	}
	return p.PD.CreateCQ(c)
}

func (p *spareCQ) Destroy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries++; p.tries > 1 {
		for _, q := range p.spare {
			_ = q.Destroy() // so that the run ends
		}
		p.spare = nil
	}
	if len(p.spare) > 0 {
		return nil // the access layer believes that the PD is destroyed
	}
	return p.PD.Destroy()
}

// idCQ is a CQ whose completions have wrong ids.
type idCQ struct{ ciwrap.CQ }

func (q idCQ) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	for i := range wc[:n] {
		wc[i].ID++
	}
	return n, err
}
