package umad

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"ciddk/accesslayer/mads"
	"ciddk/internal/kproxy/devices"
	"ciddk/kproxy"
	"ciddk/mad"
)

const (
	// maxWaiting is the maximum number of datagrams that wait for a read. Further requests are dropped.
	maxWaiting = 4096
	// maxPending is the number of requests of a file without a response. Further ones fail with ENOMEM.
	maxPending = 4096
	// maxMessage is the longest message of several datagrams, in bytes, so that a read returns it at once.
	maxMessage = devices.MaxRead - 1024
	// overhead is an estimate of what a datagram holds beside its bytes.
	overhead = 256
)

// packet is what a read returns.
type packet struct {
	header header
	mad    []byte
}

func (p *packet) bytes() int64 { return int64(len(p.mad)) + overhead }

// File is an open umad device file: one client of the session core. It implements devices.Poller and devices.Reader.
type File struct {
	front   *FrontEnd
	place   place
	session *kproxy.Session
	unwatch func()

	stepMu    sync.Mutex // held while agents are created and closed
	receivers []*receiver

	mu         sync.Mutex
	wake       func()
	isReadable bool
	isUsed     bool // an agent was created
	hasPKeys   bool // headers have the P_Key index
	isGone     bool // the port was removed
	isClosed   bool
	agents     [maxAgents]*agent
	list       []*packet
	pending    map[key]context.CancelFunc
}

var (
	_ devices.Poller = (*File)(nil)
	_ devices.Reader = (*File)(nil)
)

func (u *FrontEnd) openFile(session *kproxy.Session, p place) *File {
	f := &File{front: u, place: p, session: session, pending: map[key]context.CancelFunc{}}
	session.Describe(f.describe)
	f.unwatch = u.cfg.MAD.Watch(func(port mads.Port, isThere bool) {
		if port == p.id && !isThere {
			f.remove()
		}
	})
	return f
}

// Device returns the device numbers.
func (f *File) Device() (major, minor uint32) { return deviceMajor, uint32(f.place.index) }

// Bell does nothing.
func (f *File) Bell() {}

// SetWake implements devices.Poller.
func (f *File) SetWake(wake func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake = wake
	f.notify()
}

// notify makes the descriptor readable. mu is held.
func (f *File) notify() {
	if !f.isReadable && f.wake != nil && (f.isGone || len(f.list) > 0) {
		f.isReadable = true
		f.wake()
	}
}

// quiet reports whether the descriptor was readable and no longer is. mu is held.
func (f *File) quiet() bool {
	if !f.isReadable || f.isGone || len(f.list) > 0 {
		return false
	}
	f.isReadable = false
	return true
}

// remove is called when the port was removed.
func (f *File) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isGone = true
	f.notify()
}

// Close closes all agents.
func (f *File) Close() {
	f.session.BeginClose() // a call that waits for the end of others has stepMu
	f.unwatch()
	f.stepMu.Lock()
	defer f.stepMu.Unlock()
	f.mu.Lock()
	f.isClosed = true
	list := f.agents
	f.agents = [maxAgents]*agent{}
	var waiting int64
	for _, p := range f.list {
		waiting += p.bytes()
	}
	f.list = nil
	for _, stop := range f.pending {
		stop()
	}
	f.mu.Unlock()
	f.session.Discharge(waiting)
	for _, a := range list {
		if a != nil {
			f.closeAgent(a)
		}
	}
	_ = f.session.Close() // it has logged the error
}

// Call executes an ioctl or a write.
func (f *File) Call(r *devices.Request) *devices.Reply {
	if !r.IsIoctl {
		if err := f.write(r.Data); err != nil {
			return devices.Fail(errnoOf(err))
		}
		return &devices.Reply{Result: int64(len(r.Data))}
	}
	switch r.Ioctl {
	case ioctlRegister:
		return f.withMemory(r, sizeRegister, func(b []byte) *devices.Reply { return f.register(r, parseRegister(b)) })
	case ioctlRegister2:
		return f.withMemory(r, sizeRegister2, func(b []byte) *devices.Reply {
			return f.register2(r, parseRegister2(b))
		})
	case ioctlUnregister:
		return f.withMemory(r, 4, func(b []byte) *devices.Reply { return f.unregister(ne.Uint32(b)) })
	case ioctlEnablePKey:
		return f.enablePKey()
	}
	return devices.Fail(syscall.ENOTTY)
}

// withMemory executes an ioctl whose argument is the address of a structure.
func (f *File) withMemory(r *devices.Request, size uint64, run func(b []byte) *devices.Reply) *devices.Reply {
	b, ok := r.Load(r.Operand, size)
	if !ok {
		return &devices.Reply{NeedMemory: []devices.Range{{Addr: r.Operand, Size: size}}}
	}
	return run(b)
}

// enablePKey makes headers have the P_Key index.
func (f *File) enablePKey() *devices.Reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isUsed {
		return devices.Fail(syscall.EINVAL)
	}
	f.hasPKeys = true
	return &devices.Reply{}
}

// headerSize returns the size of headers. mu is held.
func (f *File) headerSize() int {
	if f.hasPKeys {
		return sizeHeader
	}
	return sizeHeaderOld
}

// Read implements devices.Reader: it returns the oldest datagram. A buffer with room for the first datagram of a longer
// message receives that one, with the errno ENOSPC and the whole length in the header.
func (f *File) Read(addr, size uint64) *devices.Reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	room := int(size) - f.headerSize()
	switch {
	case room < 0:
		return devices.Fail(syscall.EINVAL)
	case f.isGone || f.isClosed:
		return devices.Fail(syscall.EIO)
	case len(f.list) == 0:
		return &devices.Reply{Errno: syscall.EAGAIN, Wait: true, Quiet: f.quiet()}
	}
	p := f.list[0]
	first := min(len(p.mad), mad.Size)
	if room < first {
		return devices.Fail(syscall.EINVAL)
	}
	b := p.header.encode(f.headerSize())
	if room < len(p.mad) {
		return &devices.Reply{Errno: syscall.ENOSPC,
			Stores: []devices.Store{{Addr: addr, Data: append(b, p.mad[:first]...)}}}
	}
	f.list[0] = nil
	f.list = f.list[1:]
	f.session.Discharge(p.bytes())
	b = append(b, p.mad...)
	return &devices.Reply{Result: int64(len(b)), Stores: []devices.Store{{Addr: addr, Data: b}}, Quiet: f.quiet()}
}

// push adds a packet of an agent to the queue. mu is held.
func (f *File) push(a *agent, p *packet) {
	if f.isClosed || f.agents[a.id] != a || len(f.list) >= maxWaiting ||
		f.session.Charge("umad", p.bytes()) != nil {
		return // as a datagram that the network has lost
	}
	p.header.id = a.id
	f.list = append(f.list, p)
	f.notify()
}

// received returns the packet of a datagram.
func (f *File) received(r *mads.Received) *packet {
	p := &packet{mad: r.MAD, header: header{to: r.From}}
	p.header.to.AV.Global = r.GRH
	p.header.to.AV.GRH.DGID = r.SGID // the sender's
	p.header.length = uint32(f.headerSize() + len(r.MAD))
	return p
}

// describe describes the agents that receive requests.
func (f *File) describe() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.agents {
		if a != nil && a.mask != [2]uint64{} {
			list = append(list, fmt.Sprintf("agent: %v at port %d of %s", a.class, f.place.id.Num, f.place.device))
		}
	}
	return list
}
