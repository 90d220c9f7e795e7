package kernelcm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	abi "ciddk/internal/ucmabi"
)

var ne = binary.NativeEndian

// path is the kernel's connection manager.
const path = "/dev/infiniband/rdma_cm"

// device is an open device file: a channel of events, and the IDs whose events they are.
type device struct {
	file *os.File
	raw  syscall.RawConn
	done chan struct{} // closed when no more events are read

	mu   sync.Mutex
	ids  map[uint64]*kernelID // by the number that events carry
	next uint64
	lost error // why there are no more events
}

// kernelID is an ID of the kernel (struct rdma_cm_id).
type kernelID struct {
	d   *device
	num uint32 // the kernel's
	uid uint64 // ours

	// handle receives the events, one at a time, on the goroutine that reads them. It must not block. device.mu guards
	// it.
	handle func(*abi.EventResp)
}

func openDevice() (*device, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		err = &os.PathError{Op: "open", Path: path, Err: err}
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = fmt.Errorf("%w: load the module rdma_ucm", err)
		case errors.Is(err, os.ErrPermission):
			err = fmt.Errorf("%w: the program needs the right to open it for reading and writing", err)
		}
		return nil, err
	}
	d := &device{file: os.NewFile(uintptr(fd), path), done: make(chan struct{}), ids: map[uint64]*kernelID{}}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, d.file.Close())
	}
	go d.read()
	return d, nil
}

// close closes the file, which destroys all IDs.
func (d *device) close() error {
	err := d.file.Close()
	<-d.done
	return err
}

// do executes a command. r, if not nil, receives the reply, whose address is at the beginning of the request, or behind
// the number of a new ID.
func (d *device) do(cmd uint32, q, r any) error {
	var errno error
	err := d.raw.Control(func(fd uintptr) { errno = command(int(fd), cmd, q, r) })
	if errors.Is(err, os.ErrClosed) || err == nil && errno == nil {
		return err
	}
	return errors.Join(err, errno)
}

func command(fd int, cmd uint32, q, r any) error {
	b, err := binary.Append(make([]byte, abi.HeaderSize), ne, q)
	if err != nil {
		return err
	}
	var reply []byte
	if r != nil {
		reply = make([]byte, binary.Size(r))
		var pin runtime.Pinner
		defer pin.Unpin()
		pin.Pin(&reply[0])
		at := abi.HeaderSize
		if cmd == abi.CmdCreateID {
			at += 8
		}
		ne.PutUint64(b[at:], addressOf(reply))
	}
	ne.PutUint32(b, cmd)
	ne.PutUint16(b[4:], uint16(len(b)-abi.HeaderSize))
	ne.PutUint16(b[6:], uint16(len(reply)))
	if _, err := syscall.Write(fd, b); err != nil {
		return err
	}
	if r != nil {
		_, err = binary.Decode(reply, ne, r)
	}
	return err
}

// read passes events to their IDs until the file is closed.
func (d *device) read() {
	defer close(d.done)
	for {
		var e abi.EventResp
		var errno error
		err := d.raw.Read(func(fd uintptr) bool {
			errno = command(int(fd), abi.CmdGetEvent, &abi.GetEvent{}, &e)
			return !errors.Is(errno, syscall.EAGAIN)
		})
		switch {
		case err != nil:
			d.end(err)
			return
		case errors.Is(errno, syscall.EINTR):
			continue
		case errno != nil:
			d.end(errno)
			return
		}
		d.mu.Lock()
		x := d.ids[e.UID]
		var handle func(*abi.EventResp)
		if x != nil {
			handle = x.handle
		}
		d.mu.Unlock()
		switch {
		case handle != nil:
			handle(&e)
		case e.Event == abi.EventConnectRequest: // the listener was closed meanwhile
			_ = d.do(abi.CmdDestroyID, &abi.ByID{ID: e.ID}, &abi.EventsResp{})
		}
	}
}

// end is called when no more events come: every ID receives the removal of its device.
func (d *device) end(why error) {
	d.mu.Lock()
	d.lost = why
	var all []func(*abi.EventResp)
	for _, x := range d.ids {
		if x.handle != nil {
			all = append(all, x.handle)
		}
	}
	d.mu.Unlock()
	for _, handle := range all {
		handle(&abi.EventResp{Event: abi.EventDeviceRemoval})
	}
}

// newID creates an ID for a port space.
func (d *device) newID(space uint16, handle func(*abi.EventResp)) (*kernelID, error) {
	x := d.add(handle)
	typ := uint8(abi.TypeRC)
	if space == abi.SpaceUDP {
		typ = abi.TypeUD
	}
	var r abi.IDResp
	if err := d.do(abi.CmdCreateID, &abi.CreateID{UID: x.uid, PS: space, QPType: typ}, &r); err != nil {
		d.forget(x)
		return nil, fmt.Errorf("a new ID of the kernel's connection manager: %w", err)
	}
	x.num = r.ID
	return x, nil
}

// add creates our side of an ID, with the number that its events carry.
func (d *device) add(handle func(*abi.EventResp)) *kernelID {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	x := &kernelID{d: d, uid: d.next, handle: handle}
	d.ids[x.uid] = x
	return x
}

func (d *device) forget(x *kernelID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ids, x.uid)
}

// setHandle has the events of the ID passed to another function.
func (x *kernelID) setHandle(handle func(*abi.EventResp)) error {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	x.handle = handle
	return x.d.lost
}

// destroy destroys the ID. Events that were read already may still be handled. It may be called more than once.
func (x *kernelID) destroy() {
	x.d.mu.Lock()
	_, is := x.d.ids[x.uid]
	delete(x.d.ids, x.uid)
	x.d.mu.Unlock()
	if is { // an error means that the file is closed
		_ = x.d.do(abi.CmdDestroyID, &abi.ByID{ID: x.num}, &abi.EventsResp{})
	}
}
