//go:build amd64 || arm64

package seccomp

import (
	"os"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/memfd"
	"ciddk/internal/rings"
)

// ring starts the send queue of a QP. It reports false if the QP has no bell.
func (d *device) ring(handle uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	index, ok := d.bells[handle]
	if !ok || d.header == nil {
		return false
	}
	if d.header.Mark(index) {
		devices.Wake(d.conn)
	}
	return true
}

func (d *device) setBell(b *devices.Bell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	isSet := b.IsSet && b.Index < rings.MaxUserQPs
	delete(d.bells, b.Handle)
	if isSet {
		d.bells[b.Handle] = b.Index
	}
	switch {
	case d.table == nil:
	case isSet:
		rings.SetBell(d.table, b.Handle, b.Index)
	default:
		rings.RemoveBell(d.table, b.Handle)
	}
}

// The command that starts a send queue: post send without requests (package internal/kproxy/uverbs).
const (
	postSend     = 28
	doorbellSize = 32
)

// ring completes a call that starts a send queue, without another goroutine: it is the most frequent one, and a program
// that polls for its effect leaves few processors for the supervisor. It reports false for other calls, and if the
// queue has no bell.
func (t *task) ring() bool {
	if t.nr != unix.SYS_WRITE || t.args[2] != doorbellSize {
		return false
	}
	d, ok := t.descriptor(t.int(0))
	if !ok {
		return false
	}
	defer d.release()
	var b [doorbellSize]byte
	if d.dev == nil || readMemory(t.tid, t.args[1], b[:]) != nil || !t.isValid() {
		return false
	}
	isBell := ne.Uint32(b[:]) == postSend && ne.Uint16(b[4:]) == doorbellSize/4 && ne.Uint32(b[20:]) == 0
	if !isBell || !d.dev.ring(ne.Uint32(b[16:])) {
		return false
	}
	t.respond(result{value: doorbellSize})
	return true
}

// shareBells is the ioctl by which the library of a program gets what it needs to start send queues without a call: the
// memory with the adapter's header, if the argument is 0, and otherwise the table of bells. Both have another open file
// than the device file, which the program can therefore close while they are mapped.
const shareBells = 0x6b01

func (t *task) shareBells(d *descriptor) result {
	var f *os.File
	var err error
	if t.args[2] == 0 {
		f, err = os.OpenFile(d.path, os.O_RDWR, 0)
	} else {
		f, err = d.dev.newTable()
	}
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	if !t.isValid() {
		return failed(unix.EINTR) // nobody receives it
	}
	_, err = add(t.listener, &addition{id: t.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, source: uint32(numberOf(f)),
		numberFlags: unix.O_CLOEXEC})
	if err != nil {
		return failed(err)
	}
	return result{isSent: true}
}

// newTable returns a new table of the bells.
func (d *device) newTable() (*os.File, error) {
	f, err := memfd.Create("ddkrun", rings.BellsSize)
	if err != nil {
		return nil, err
	}
	table, err := unix.Mmap(numberOf(f), 0, rings.BellsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.Close()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropTable()
	d.table = table
	for handle, index := range d.bells {
		rings.SetBell(table, handle, index)
	}
	return f, nil
}

// dropTable empties the table, which the program may still have. The caller holds mu.
func (d *device) dropTable() {
	if d.table == nil {
		return
	}
	clear(d.table)
	_ = unix.Munmap(d.table) // it is a mapping
	d.table = nil
}
