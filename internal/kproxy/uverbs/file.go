package uverbs

import (
	"errors"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// kind is the kind of an object as the ABI distinguishes them.
type kind uint8

const (
	kindPD kind = 1 + iota
	kindAH
	kindMR
	kindMW
	kindCQ
	kindQP
	kindSRQ
)

// object is an object of an open file.
type object struct {
	kind   kind
	handle schema.Handle
	typ    ci.QPType // of a QP
	sigAll bool      // of a QP

	mcasts map[mcast]schema.Handle // of a QP: by the request that attached it

	bellIndex uint32 // of a QP
	hasBell   bool

	isZeroBased atomic.Bool // of a region: accessZeroBased is set
}

// channel is a completion event channel. The program names it by a descriptor.
type channel struct {
	queue schema.Handle
	info  os.FileInfo
}

// File is an open uverbs device file: one client of the session core. It implements devices.File.
type File struct {
	front   *FrontEnd
	dev     Device
	session *kproxy.Session

	mu       sync.Mutex
	opening  bool // a get context is in progress or was executed
	ca       schema.Handle
	async    schema.Handle // event queue
	bell     *os.File      // that wakes the adapter
	events   *os.File      // the program's end of async, until an ioctl requests it
	isClosed bool
	objects  map[uint32]*object
	next     uint32 // handle
	channels []channel

	channelMu sync.Mutex // held while channels are removed, and while a CQ with a channel is created

	mcastMu sync.Mutex // guards the attachments of all QPs

	pdMu sync.Mutex
	pd   schema.Handle // in which CQs are created, or 0
}

var _ devices.File = (*File)(nil)

// Device returns the device numbers.
func (f *File) Device() (major, minor uint32) { return f.dev.Numbers() }

// Close closes the session, which destroys everything.
func (f *File) Close() {
	f.mu.Lock()
	events := f.events
	f.events, f.isClosed = nil, true
	f.mu.Unlock()
	if events != nil {
		events.Close()
	}
	_ = f.session.Close() // it has logged the error
}

// one is what wakes an adapter.
var one = []byte{1}

// Bell wakes the adapter.
func (f *File) Bell() {
	f.mu.Lock()
	bell := f.bell
	f.mu.Unlock()
	if bell != nil {
		_, _ = bell.Write(one) // it fails if the adapter is gone
	}
}

// Call executes a write or an ioctl.
func (f *File) Call(r *devices.Request) *devices.Reply {
	if r.IsIoctl {
		return f.ioctl(r)
	}
	m, c, err := parse(r)
	if err == nil && m.context && !f.hasContext() {
		err = syscall.EINVAL
	}
	if err == nil {
		err = m.run(f, c)
	}
	if c != nil && (c.reply.NeedFile || c.reply.Copies != nil) {
		return &c.reply
	}
	if err != nil {
		for _, d := range c.descriptors() {
			d.File.Close()
		}
		return devices.Fail(errnoOf(err))
	}
	return c.finish()
}

// descriptors returns the descriptors that a call that failed has made.
func (c *call) descriptors() []devices.Descriptor {
	if c == nil {
		return nil
	}
	return c.reply.Files
}

func (f *File) hasContext() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ca != 0
}

// lookup returns an object. Errors: ENOENT: the file has no such handle; EINVAL: it is one of another kind
// (rdma_lookup_get_uobject). Kernels of before 2025 return EINVAL for both from many commands.
func (f *File) lookup(k kind, handle uint32) (*object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locked(k, uint64(handle))
}

// locked is lookup for a caller that holds mu.
func (f *File) locked(k kind, handle uint64) (*object, error) {
	if handle > math.MaxUint32 || f.objects[uint32(handle)] == nil {
		return nil, syscall.ENOENT
	}
	if o := f.objects[uint32(handle)]; o.kind == k {
		return o, nil
	}
	return nil, syscall.EINVAL
}

// handleOf returns the session's handle of an object.
func (f *File) handleOf(k kind, handle uint32) (schema.Handle, error) {
	o, err := f.lookup(k, handle)
	if err != nil {
		return 0, err
	}
	return o.handle, nil
}

// add puts an object into the table and returns its handle.
func (f *File) add(o *object) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.objects[f.next] != nil {
		f.next++
	}
	h := f.next
	f.objects[h] = o
	f.next++
	return h
}

// remove destroys an object of the session and takes it out of the table. Of several calls for one object, one finds
// it.
func (f *File) remove(k kind, handle uint32) (*schema.DestroyReply, error) {
	f.mu.Lock()
	o, err := f.locked(k, uint64(handle))
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	delete(f.objects, handle)
	f.mu.Unlock()
	r, err := f.destroy(o)
	if err != nil {
		f.mu.Lock()
		f.objects[handle] = o
		f.mu.Unlock()
		return nil, err
	}
	return r, nil
}

// destroy destroys an object. Error: EBUSY: a QP is attached to a multicast group, as in Linux (uverbs_free_qp).
func (f *File) destroy(o *object) (*schema.DestroyReply, error) {
	f.mcastMu.Lock()
	isAttached := len(o.mcasts) > 0
	f.mcastMu.Unlock()
	if isAttached {
		return nil, syscall.EBUSY
	}
	return do[schema.DestroyReply](f, schema.CmdDestroy, &schema.Object{Handle: o.handle})
}

// destroyer returns the function of a command that destroys an object without events.
func destroyer(k kind) func(f *File, c *call, q *byHandle, _ *none) error {
	return func(f *File, _ *call, q *byHandle, _ *none) error {
		_, err := f.remove(k, q.Handle)
		return err
	}
}

// do executes a request of the session and returns its reply.
func do[R any](f *File, cmd schema.Command, body any) (*R, error) {
	r, err := f.session.Do(&kproxy.Call{Command: cmd, Body: body})
	if err != nil {
		return nil, err
	}
	return r.Body.(*R), nil
}

// private returns the private data of a request: the driver data of the command.
func (f *File) private(c *call) schema.UserBuffer {
	return schema.UserBuffer{Command: f.dev.provider.Command, Status: -1, In: c.in[:min(len(c.in), schema.MaxPrivate)],
		OutCapacity: schema.MaxPrivate, Present: true}
}

// answer takes over the driver data of a reply.
func (c *call) answer(u *schema.UserBufferReply) {
	if u.Copied {
		c.out = u.Out
	}
}

// storeIndirect stores driver data of a command without a reply at the address that is the command's driver data.
func (c *call) storeIndirect() {
	if len(c.out) > 0 && len(c.in) >= 8 {
		c.reply.Stores = append(c.reply.Stores, devices.Store{Addr: ne.Uint64(c.in), Data: c.out})
	}
}

// number returns n as a number of the ABI.
func number[T int | int32 | uint64](n T) uint32 {
	if n < 0 {
		return 0
	}
	return uint32(min(uint64(n), math.MaxUint32))
}

// limit returns n as a size of the session: numbers beyond the largest one are rejected by the driver.
func limit(n uint32) int32 { return int32(min(n, math.MaxInt32)) }

// errnoOf returns the errno that Linux returns for an error of a verb.
func errnoOf(err error) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	switch ci.StatusOf(err) {
	case ci.InsufficientResources, ci.InsufficientMemory, ci.MaxMcastQPsReached:
		return syscall.ENOMEM
	case ci.Unsupported:
		return syscall.EOPNOTSUPP
	case ci.InvalidPermission:
		return syscall.EPERM
	case ci.ResourceBusy:
		return syscall.EBUSY
	case ci.Timeout:
		return syscall.ETIMEDOUT
	case ci.InvalidState, ci.NotFound: // the adapter was removed, or the client is being closed
		return syscall.EIO
	}
	return syscall.EINVAL
}
