package umad

import (
	"syscall"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// managerFile is an open issm device file. While it is open, the port's capability mask has the bit of a subnet
// manager.
type managerFile struct {
	front   *FrontEnd
	place   place
	session *kproxy.Session
	ca      schema.Handle
}

var _ devices.File = (*managerFile)(nil)

// openManager opens an issm device file on a session, which the file then owns. Errors: EAGAIN (another program has it
// open); those of setting the capability.
func (u *FrontEnd) openManager(session *kproxy.Session, p place) (devices.File, error) {
	f := &managerFile{front: u, place: p, session: session}
	if session.AfterEndings(func() error { return u.claim(p.id) }) != nil {
		_ = session.Close() // it has logged the error
		return nil, syscall.EAGAIN
	}
	err := f.open()
	if err == nil {
		err = f.set(ci.PortCapSM)
	}
	if err != nil {
		u.unclaim(p.id)
		_ = session.Close() // it has logged the error
		return nil, errnoOf(err)
	}
	return f, nil
}

// open opens the adapter.
func (f *managerFile) open() error {
	// Nobody reads the events: an adapter that is removed makes the calls fail.
	events, file, err := f.session.NewEventQueue(func(b []byte, _ *schema.Event) []byte { return b })
	if err != nil {
		return err
	}
	file.Close()
	r, err := f.session.Do(&kproxy.Call{Command: schema.CmdOpenCA,
		Body: &schema.OpenCA{GUID: f.place.id.CA, Async: events}})
	if err == nil {
		f.ca = r.Body.(*schema.Created).Handle
	}
	return err
}

// claim makes a file the manager of a port. Status: ResourceBusy (the port has one).
func (u *FrontEnd) claim(p mads.Port) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.managers[p] {
		return &ci.Error{Verb: "umad", Status: ci.ResourceBusy, Detail: "the port has a manager"}
	}
	u.managers[p] = true
	return nil
}

func (u *FrontEnd) unclaim(p mads.Port) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.managers, p)
}

// set sets or clears the capability.
func (f *managerFile) set(value ci.PortCap) error {
	_, err := f.session.Do(&kproxy.Call{Command: schema.CmdModifyCA, Body: &schema.ModifyCA{CA: f.ca,
		Port: f.place.id.Num, Set: ci.PortFieldCapability, CapMask: ci.PortCapSM, Capability: value}})
	return err
}

// Device returns the device numbers.
func (f *managerFile) Device() (major, minor uint32) {
	return deviceMajor, firstManage + uint32(f.place.index)
}

// Bell does nothing.
func (f *managerFile) Bell() {}

// Call fails: the file exists to be open.
func (f *managerFile) Call(r *devices.Request) *devices.Reply {
	if r.IsIoctl {
		return devices.Fail(syscall.ENOTTY)
	}
	return devices.Fail(syscall.EINVAL)
}

// Close clears the capability.
func (f *managerFile) Close() {
	f.session.BeginClose()
	_ = f.set(0) // it fails if the adapter was removed
	f.front.unclaim(f.place.id)
	_ = f.session.Close() // it has logged the error
}
