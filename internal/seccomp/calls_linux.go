//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
)

// The requests of ioctl that every file has.
const (
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
	fioasync = 0x5452
)

// onDevice executes a call whose first argument is a descriptor of the range.
func (t *task) onDevice() result {
	number := t.int(0)
	if second, ok := transferCalls[t.nr]; ok && !t.numbers.has(number) {
		number = t.int(second)
	}
	switch t.nr {
	case unix.SYS_FCNTL:
		if cmd := t.int(1); cmd != unix.F_DUPFD && cmd != unix.F_DUPFD_CLOEXEC {
			return proceed
		}
	case unix.SYS_IOCTL:
		switch uint32(t.args[1]) {
		case fioclex, fionclex, fionbio, fioasync:
			return proceed
		}
	}
	d, ok := t.descriptor(number)
	if !ok {
		return proceed
	}
	defer d.release()
	if isCopy := t.nr == unix.SYS_DUP || t.nr == unix.SYS_DUP3 || t.nr == unix.SYS_FCNTL; d.isNetlink && !isCopy {
		return t.onNetlink(d)
	}
	switch t.nr {
	case unix.SYS_WRITE:
		return t.write(d, t.args[1], t.args[2])
	case unix.SYS_READ:
		return t.read(d, t.args[1], t.args[2])
	case unix.SYS_IOCTL:
		if uint32(t.args[1]) == shareBells && d.dev != nil {
			return t.shareBells(d)
		}
		q := &devices.Request{IsIoctl: true, Ioctl: uint64(uint32(t.args[1])), Operand: t.args[2]}
		if handle, ok := t.destroysMR(q); ok && d.dev != nil {
			return t.register(d, q, &registration{handle: handle})
		}
		return t.call(d, q)
	case unix.SYS_DUP:
		return t.duplicate(d, 0)
	case unix.SYS_FCNTL:
		if t.int(1) == unix.F_DUPFD_CLOEXEC {
			return t.duplicate(d, unix.O_CLOEXEC)
		}
		return t.duplicate(d, 0)
	case unix.SYS_DUP3:
		return t.duplicateAt(d, t.int(1), uint32(t.args[2]))
	}
	return t.otherCall(d)
}

// otherCall executes the calls that libraries do not make on devices.
func (t *task) otherCall(d *descriptor) result {
	switch t.nr {
	case unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_LSEEK:
		return result{errno: syscall.ESPIPE}
	case unix.SYS_PREADV2, unix.SYS_PWRITEV2:
		if int64(t.args[3]) != -1 { // not the position, which devices do not have
			return result{errno: syscall.ESPIPE}
		}
		return t.vector(d, t.nr == unix.SYS_PWRITEV2)
	case unix.SYS_READV, unix.SYS_WRITEV:
		return t.vector(d, t.nr == unix.SYS_WRITEV)
	case unix.SYS_FALLOCATE:
		return result{errno: syscall.ENODEV}
	}
	if slices.Contains(socketCalls, t.nr) {
		return result{errno: syscall.ENOTSOCK}
	}
	return result{errno: syscall.EINVAL}
}

// vector executes a vector as the kernel does on files without calls for vectors: one call for each part, until one
// fails or transfers less.
func (t *task) vector(d *descriptor, isWrite bool) result {
	const most, size = 1024, 16
	count := int(t.args[2])
	if count < 0 || count > most {
		return result{errno: syscall.EINVAL}
	}
	b := make([]byte, count*size)
	if len(b) > 0 {
		if err := readMemory(t.tid, t.args[1], b); err != nil {
			return failed(err)
		}
	}
	total := int64(0)
	for ; len(b) > 0; b = b[size:] {
		addr, n := ne.Uint64(b), ne.Uint64(b[8:])
		var r result
		if isWrite {
			r = t.write(d, addr, n)
		} else {
			r = t.read(d, addr, n)
		}
		if r.errno != 0 && total == 0 {
			return r
		}
		if r.errno != 0 {
			break
		}
		if total += r.value; uint64(r.value) < n {
			break
		}
	}
	return result{value: total}
}

func (t *task) read(d *descriptor, addr, size uint64) result {
	return t.retry(d, func() (*devices.Reply, error) { return devices.Read(d.conn, addr, size) })
}

// duplicate copies a descriptor to a free number of the range.
func (t *task) duplicate(d *descriptor, flags uint32) result {
	fd, err := t.copyDescriptor(d.number)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return t.give(fd, flags)
}

// duplicateAt copies a descriptor to a number. Outside the range, its calls would not be executed.
func (t *task) duplicateAt(d *descriptor, number int, flags uint32) result {
	switch {
	case number == d.number || flags&^unix.O_CLOEXEC != 0:
		return proceed
	case !t.numbers.has(number):
		return result{errno: syscall.EBUSY}
	}
	fd, err := t.copyDescriptor(d.number)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return t.giveAt(fd, number, flags)
}

func (t *task) write(d *descriptor, addr, size uint64) result {
	if size > devices.MaxWrite {
		return result{errno: syscall.EINVAL}
	}
	b := make([]byte, size)
	if err := readMemory(t.tid, addr, b); err != nil {
		return failed(err)
	}
	if !t.isValid() {
		return failed(unix.EINTR) // nobody receives it
	}
	if g, ok := parseRegistration(b); ok && d.dev != nil {
		return t.register(d, &devices.Request{Data: b}, g)
	}
	return t.call(d, &devices.Request{Data: b})
}

// call executes a call, and waits if it would block and the descriptor is a blocking one.
func (t *task) call(d *descriptor, q *devices.Request) result {
	return t.retry(d, func() (*devices.Reply, error) { return t.callOnce(d, q) })
}

// retry executes a call, and repeats it as call does.
func (t *task) retry(d *descriptor, call func() (*devices.Reply, error)) result {
	for {
		reply, err := call()
		if err != nil {
			return failed(err)
		}
		r, wait := t.conclude(d, reply)
		if !wait {
			return r
		}
		if errno := t.await(d, time.Time{}); errno != 0 {
			return result{errno: errno}
		}
	}
}

// callOnce executes a call.
func (t *task) callOnce(d *descriptor, q *devices.Request) (*devices.Reply, error) {
	r, err := devices.Call(d.conn, q)
	for n := 0; err == nil && len(r.NeedMemory) > 0; n++ {
		if n == maxRepeats { // another thread changes the memory
			err = syscall.EFAULT
			break
		}
		if q, err = t.withMemory(q, r.NeedMemory); err == nil {
			r, err = devices.Call(d.conn, q)
		}
	}
	if err == nil && r.NeedFile {
		return t.callWith(d, q, int(r.Number))
	}
	return r, err
}

// conclude does what a reply asks for. wait reports that the call would block.
func (t *task) conclude(d *descriptor, r *devices.Reply) (_ result, wait bool) {
	if r.Quiet {
		devices.Discard(d.conn)
	}
	done := t.accept(d, r)
	if r.Wait && done.errno == syscall.EAGAIN {
		wait = isBlocking(d.conn)
	}
	return done, wait
}

// maxRepeats is the number of times that a call is repeated because it needs memory of the program. A call needs its
// header, its attributes, and the memory that these refer to.
const maxRepeats = 8

// withMemory returns a call with memory of the program.
func (t *task) withMemory(q *devices.Request, list []devices.Range) (*devices.Request, error) {
	with := *q
	with.Memory = nil
	for _, m := range list {
		m.Data = make([]byte, m.Size)
		if err := readMemory(t.tid, m.Addr, m.Data); err != nil {
			return nil, err
		}
		with.Memory = append(with.Memory, m)
	}
	if !t.isValid() {
		return nil, unix.EINTR // nobody receives it
	}
	return &with, nil
}

// callWith repeats a call with a descriptor of the program.
func (t *task) callWith(d *descriptor, q *devices.Request, number int) (*devices.Reply, error) {
	fd, err := t.copyDescriptor(number)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "attached")
	defer f.Close()
	with := *q
	with.Number, with.File = int32(number), f
	r, err := devices.Call(d.conn, &with)
	if err == nil && len(r.NeedMemory) > 0 { // another thread has changed the memory
		err = syscall.EFAULT
	}
	if err == nil && r.NeedFile {
		err = syscall.EBADF
	}
	if err == nil && r.QuietFile {
		devices.Discard(fd)
	}
	return r, err
}

// accept does what a reply asks for. It closes the descriptors.
func (t *task) accept(d *descriptor, r *devices.Reply) result {
	defer func() {
		for _, f := range r.Files {
			f.File.Close()
		}
		for _, f := range []*os.File{r.Memory, r.Copies} {
			if f != nil {
				f.Close()
			}
		}
	}()
	if !t.isValid() {
		return failed(unix.EINTR) // nobody receives it
	}
	if r.Bell != nil && d.dev != nil {
		d.dev.setBell(r.Bell)
	}
	for _, s := range r.Stores {
		if s.Addr == 0 {
			continue
		}
		if err := writeMemory(t.tid, s.Addr, s.Data); err != nil {
			return failed(err)
		}
	}
	if r.Memory != nil {
		if out := t.replace(d, r.Memory); out.errno != 0 {
			return out
		}
	}
	for _, f := range r.Files {
		fd := numberOf(f.File)
		n, err := t.kept.during(fd, func() (int, error) {
			return add(t.listener, &addition{id: t.id, source: uint32(fd), numberFlags: unix.O_CLOEXEC})
		})
		if err == nil && f.Addr != 0 {
			err = writeMemory(t.tid, f.Addr, ne.AppendUint32(nil, uint32(n)))
		}
		if err != nil {
			return failed(err)
		}
	}
	return result{value: r.Result, errno: r.Errno}
}

// cloexecOf returns whether exec closes a descriptor, as a flag.
func (t *task) cloexecOf(d *descriptor) uint32 {
	b, err := os.ReadFile(strings.Replace(t.procPath(d.number), "/fd/", "/fdinfo/", 1))
	if err != nil {
		return d.dev.cloexec
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			if flags, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32); err == nil {
				return uint32(flags) & unix.O_CLOEXEC
			}
		}
	}
	return d.dev.cloexec
}

// replace installs the memory of the program's queues at the number of the device file.
func (t *task) replace(d *descriptor, memory *os.File) result {
	if d.dev == nil {
		return failed(syscall.EIO)
	}
	if err := d.dev.setMemory(memory); err != nil {
		return failed(err)
	}
	return t.lend(memory, d.dev, func(fd int) result {
		if err := t.install(fd, d.number, t.cloexecOf(d), 0); err != nil {
			return failed(err)
		}
		return result{}
	})
}

// restart is the errno by which the kernel handles a signal and then restarts the call, if its handler wants that
// (ERESTARTSYS). A thread for which the kernel has no signal would see it.
const restart = syscall.Errno(512)

// await returns when a descriptor is readable, or else an errno: EAGAIN after a limit that is not zero.
func (t *task) await(d *descriptor, limit time.Time) syscall.Errno {
	defer t.waiting.Add(-1)
	p := []unix.PollFd{{Fd: int32(d.conn), Events: unix.POLLIN}}
	check := int(max(signalCheck, t.waiting.Add(1)))
	for late := 0; ; {
		n, err := unix.Poll(p, check)
		switch {
		case n > 0:
			return 0
		case err != nil && !errors.Is(err, unix.EINTR):
			return errnoOf(err)
		case !t.isValid():
			return restart // the call has ended, and no errno reaches the thread
		case !limit.IsZero() && !time.Now().Before(limit):
			return syscall.EAGAIN
		}
		switch t.signal() {
		case noSignal:
			late = 0
		case ownSignal:
			return restart
		case sharedSignal:
			if late++; late > lateSignal && t.interrupt() == nil {
				return restart
			} else if late > stuckSignal {
				return syscall.EINTR
			}
		}
	}
}
