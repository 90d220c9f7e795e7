package driver

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// Refs counts the objects that depend on an object. Every object has one. It implements the three rules of Destroy:
// Destroy fails with ResourceBusy while another object depends on this one; verbs of a destroyed object fail with its
// Invalid…Handle; and no object can depend on a destroyed one. The zero value is that of a new object.
type Refs struct {
	mu        sync.Mutex
	n         int
	destroyed atomic.Bool  // it changes with mu
	running   sync.RWMutex // read by the uses; before mu
}

// Get adds a dependent object. It returns false if this one is destroyed.
func (r *Refs) Get() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.destroyed.Load() {
		return false
	}
	r.n++
	return true
}

// Put removes a dependent object.
func (r *Refs) Put() {
	r.mu.Lock()
	r.n--
	r.mu.Unlock()
}

// GetAll adds a dependent object to all of list, or to none. In the second case it returns the index of a destroyed
// one.
func GetAll(list ...*Refs) (destroyed int, ok bool) {
	for i, r := range list {
		if !r.Get() {
			PutAll(list[:i])
			return i, false
		}
	}
	return 0, true
}

// PutAll removes a dependent object of all of list.
func PutAll(list []*Refs) {
	for _, r := range list {
		r.Put()
	}
}

// Count returns the number of dependent objects.
func (r *Refs) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Alive reports whether the object has not been destroyed. It takes no lock.
func (r *Refs) Alive() bool { return !r.destroyed.Load() }

// Use begins a verb, or work of the driver, during which the object remains: Destroy waits for Done. It returns false
// if the object is destroyed. Uses of an object do not nest.
func (r *Refs) Use() bool {
	r.running.RLock()
	if r.destroyed.Load() {
		r.running.RUnlock()
		return false
	}
	return true
}

// Done ends a use.
func (r *Refs) Done() { r.running.RUnlock() }

// BeginDestroy marks the object as destroyed, and waits for its uses. It fails if the object is destroyed already, with
// the status invalid, or if another object depends on it. The caller then destroys the object in the hardware.
func (r *Refs) BeginDestroy(verb string, invalid ci.Status) error {
	if err := r.mark(verb, invalid, nil); err != nil {
		return err
	}
	r.running.Lock()
	defer r.running.Unlock()
	return nil
}

// Revive takes BeginDestroy back, after the hardware has not destroyed the object.
func (r *Refs) Revive() { r.destroyed.Store(false) }

// DestroyIf waits for the uses of the object, and destroys it if command returns no error. It is for objects that the
// hardware may keep: until command has returned, verbs of other goroutines wait for its result. It fails as
// BeginDestroy does, or with the error of command.
func (r *Refs) DestroyIf(verb string, invalid ci.Status, command func() error) error {
	r.running.Lock()
	defer r.running.Unlock()
	return r.mark(verb, invalid, command)
}

// mark marks the object as destroyed if it can be, and if command returns no error. A nil command does nothing.
func (r *Refs) mark(verb string, invalid ci.Status, command func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.destroyed.Load():
		return &ci.Error{Verb: verb, Status: invalid}
	case r.n > 0:
		return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: "other objects depend on it"}
	}
	if command != nil {
		if err := command(); err != nil {
			return err
		}
	}
	r.destroyed.Store(true)
	return nil
}
