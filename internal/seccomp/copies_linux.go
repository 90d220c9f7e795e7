//go:build amd64 || arm64

package seccomp

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// copies is what a goroutine copies of a program's memory, because the daemon cannot: package devices, section Copies.
// It copies memory that the program has registered, and no other.
type copies struct {
	d *device

	mu    sync.Mutex // held during a copy
	last  uint64     // token
	areas map[uint64]*area
}

// area is memory of a registration.
type area struct {
	addr, size uint64
	isWritable bool
	handle     uint32 // of the MR, if hasHandle
	hasHandle  bool
}

// The commands of uverbs that concern MRs, with the sizes of their headers and requests (package
// internal/kproxy/uverbs).
const (
	regMR        = 9
	reregMR      = 11
	deregMR      = 13
	regMRSize    = 48
	reregMRSize  = 56
	deregMRSize  = 12
	reregMemory  = 1
	reregAccess  = 4
	localWrite   = 1
	writing      = 0x1b // ib_access_writable
	verbsIoctl   = 0xc0181b01
	ioctlHeader  = 24
	ioctlAttr    = 16
	objectMR     = 7
	methodMREnds = 1
)

// registration is a command that makes, changes or destroys an MR.
type registration struct {
	response    uint64 // address of the handle of a new MR, or 0
	handle      uint32 // of an MR that exists
	hasMemory   bool
	hasAccess   bool
	addr, size  uint64
	isWritable  bool
	isWritten   bool // its pages are brought in by writes
	isPermanent bool // the MR exists afterwards
}

// parseRegistration returns what a command does to an MR. It reports false for other commands.
func parseRegistration(b []byte) (*registration, bool) {
	if len(b) < deregMRSize || int(ne.Uint16(b[4:]))*4 != len(b) {
		return nil, false
	}
	switch command := ne.Uint32(b); {
	case command == regMR && len(b) >= regMRSize:
		return &registration{response: ne.Uint64(b[8:]), hasMemory: true, hasAccess: true, addr: ne.Uint64(b[16:]),
			size: ne.Uint64(b[24:]), isWritable: ne.Uint32(b[44:])&localWrite != 0,
			isWritten: ne.Uint32(b[44:])&writing != 0, isPermanent: true}, true
	case command == reregMR && len(b) >= reregMRSize:
		flags := ne.Uint32(b[20:])
		return &registration{handle: ne.Uint32(b[16:]), hasMemory: flags&reregMemory != 0,
			hasAccess: flags&reregAccess != 0, addr: ne.Uint64(b[24:]), size: ne.Uint64(b[32:]),
			isWritable: ne.Uint32(b[52:])&localWrite != 0, isWritten: ne.Uint32(b[52:])&writing != 0,
			isPermanent: true}, true
	case command == deregMR:
		return &registration{handle: ne.Uint32(b[8:])}, true
	}
	return nil, false
}

// destroysMR returns the handle of the MR that an ioctl destroys. It reports false for other ioctls.
func (t *task) destroysMR(q *devices.Request) (handle uint32, ok bool) {
	var b [ioctlHeader + ioctlAttr]byte
	if q.Ioctl != verbsIoctl || readMemory(t.tid, q.Operand, b[:]) != nil || !t.isValid() {
		return 0, false
	}
	ok = ne.Uint16(b[2:]) == objectMR && ne.Uint16(b[4:]) == methodMREnds && ne.Uint16(b[6:]) == 1
	return uint32(ne.Uint64(b[ioctlHeader+8:])), ok
}

// register executes a command that makes, changes or destroys an MR. If the daemon cannot reach the memory, it is
// copied here, and the command is repeated.
func (t *task) register(d *descriptor, q *devices.Request, g *registration) result {
	if err := t.makeResident(d, g); err != nil {
		return failed(err)
	}
	d.dev.registerMu.Lock()
	defer d.dev.registerMu.Unlock()
	if d.dev.copier() == nil {
		r, err := t.callOnce(d, q)
		if err != nil {
			return failed(err)
		}
		if r.Copies == nil {
			done, _ := t.conclude(d, r)
			return done
		}
		d.dev.startCopies(r.Copies)
	}
	return t.registerCopied(d, q, g)
}

// makeResident brings in the pages of memory that is registered, which Linux pins, so that no access of the daemon
// finds a page missing that the program has to supply (userfaultfd). Error: EFAULT if that is not possible although the
// memory is mapped with the rights that the daemon needs. The daemon rejects memory that is not.
func (t *task) makeResident(d *descriptor, g *registration) error {
	if !g.hasMemory || g.addr+g.size < g.addr || g.addr+g.size > math.MaxInt64 {
		return nil
	}
	isResident := populate(t.tid, g.addr, g.size, g.isWritten)
	if isResident && g.isWritten && !g.isWritable {
		isResident = d.dev.checkMapped(g.addr, g.size, true) == nil
	}
	if !isResident && d.dev.checkMapped(g.addr, g.size, g.isWritable) == nil {
		return syscall.EFAULT
	}
	return nil
}

// registerCopied is register when memory is copied here.
func (t *task) registerCopied(d *descriptor, q *devices.Request, g *registration) result {
	c := d.dev.copier()
	if g.hasMemory && g.size > 0 {
		token, err := c.add(g)
		if err != nil {
			return failed(err)
		}
		q.Token = token
	}
	r, err := t.callOnce(d, q)
	if err != nil {
		c.remove(q.Token)
		return failed(err)
	}
	isDone := r.Errno == 0
	if isDone && g.response != 0 {
		isDone = len(r.Stores) > 0 && r.Stores[0].Addr == g.response && len(r.Stores[0].Data) >= 4
		if isDone {
			g.handle = ne.Uint32(r.Stores[0].Data)
		}
	}
	if isDone {
		c.settle(g, q.Token)
	} else {
		c.remove(q.Token)
	}
	done, _ := t.conclude(d, r)
	return done
}

// copier returns the copies of a device, nil if there are none.
func (d *device) copier() *copies {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies
}

// startCopies starts the goroutine that serves a socket, which it then owns.
func (d *device) startCopies(socket *os.File) {
	c := &copies{d: d, areas: map[uint64]*area{}}
	d.mu.Lock()
	d.copies = c
	d.refs++ // of the goroutine, which uses the pidfd
	d.mu.Unlock()
	go func() {
		native.ServeCopies(socket, c.copy)
		socket.Close()
		d.release()
	}()
}

// add returns the token of new memory. Error: EFAULT.
func (c *copies) add(g *registration) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isWritable := g.isWritable
	if !g.hasAccess { // the MR keeps its rights
		isWritable = c.isWritable(g.handle)
	}
	if err := c.d.checkMapped(g.addr, g.size, isWritable); err != nil {
		return 0, err
	}
	c.last++
	c.areas[c.last] = &area{addr: g.addr, size: g.size, isWritable: isWritable}
	return c.last, nil
}

// isWritable reports whether the daemon may write to the memory of an MR. mu is held.
func (c *copies) isWritable(handle uint32) bool {
	for _, a := range c.areas {
		if a.hasHandle && a.handle == handle {
			return a.isWritable
		}
	}
	return false
}

// remove removes memory.
func (c *copies) remove(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.areas, token)
}

// settle applies a command that succeeded. token is that of its memory, or 0.
func (c *copies) settle(g *registration, token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, a := range c.areas {
		switch isOld := a.hasHandle && a.handle == g.handle && t != token; {
		case !isOld:
		case !g.isPermanent || g.hasMemory:
			delete(c.areas, t)
		case g.hasAccess:
			a.isWritable = g.isWritable
		}
	}
	if a := c.areas[token]; a != nil {
		a.handle, a.hasHandle = g.handle, true
	}
}

// copy executes a copy. Error: EFAULT; ESRCH.
func (c *copies) copy(q *schema.Copy, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.areas[q.Token]
	size := uint64(q.Length)
	isWrite := q.Kind == schema.CopyWrite
	if a == nil || q.Addr < a.addr || size > a.size || q.Addr-a.addr > a.size-size || isWrite && !a.isWritable {
		return syscall.EFAULT
	}
	if unix.PidfdSendSignal(numberOf(c.d.process), 0, nil, 0) != nil { // the number may be that of another process
		return syscall.ESRCH
	}
	if isWrite {
		return writeMemory(c.d.pid, q.Addr, data)
	}
	return readMemory(c.d.pid, q.Addr, data)
}

// checkMapped validates that memory of the process exists, with the rights to it. Error: EFAULT.
func (d *device) checkMapped(addr, size uint64, isWritable bool) error {
	if addr+size < addr {
		return syscall.EFAULT
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", d.pid))
	if err != nil {
		return syscall.EFAULT
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights); err != nil || len(rights) < 2 {
			return syscall.EFAULT
		}
		isUsable := rights[0] == 'r' && (rights[1] == 'w' || !isWritable)
		switch {
		case to <= addr:
			continue
		case from > addr || !isUsable:
			return syscall.EFAULT
		case to-addr >= size:
			return nil
		}
		addr, size = to, size-(to-addr)
	}
	return syscall.EFAULT
}
