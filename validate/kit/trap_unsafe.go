//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package kit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// The kernel's userfaultfd(2) interface: include/uapi/linux/userfaultfd.h.
const (
	uffdUserModeOnly = 1
	uffdAPI          = 0xaa
	uffdWPFeatures   = 1<<0 | 1<<12 // write-protection faults, also of shared memory
	uffdRegisterWP   = 1 << 1
	uffdEventFault   = 0x12
	uffdioAPI        = 0xc018aa3f
	uffdioRegister   = 0xc020aa00
	uffdioProtect    = 0xc018aa06
)

// sysUserfaultfd returns the number of the system call, which is a different one on x86-64.
func sysUserfaultfd() uintptr {
	if runtime.GOARCH == "amd64" {
		return 323
	}
	return 282
}

// Trap is a page of memory with two views. A store to Bytes by any thread of the process waits until the handler has
// run. The handler changes the same memory through Host. So it runs between the load and the store of an operation that
// is not atomic, and before or after an atomic one.
type Trap struct {
	Bytes []byte // for the driver
	Host  []byte // for the certifier

	fd      *os.File
	handler func()
	done    chan struct{}
	resume  func() // undoes hold
}

// hold prepares the runtime for threads that wait in the middle of an instruction. Such a thread occupies a processor
// of the scheduler, and the collector cannot stop it. So hold adds processors and turns off collection. resume undoes
// both.
func hold() (resume func()) {
	const spare = 4
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + spare)
	return func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	}
}

// NewTrap returns a trap. An error means that the system does not support it, and is no finding against the driver.
func NewTrap(handler func()) (*Trap, error) {
	size := os.Getpagesize()
	f, err := os.CreateTemp(trapDir(), "ddk-trap")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := errors.Join(os.Remove(f.Name()), f.Truncate(int64(size))); err != nil {
		return nil, err
	}
	t := &Trap{handler: handler, done: make(chan struct{})}
	for _, view := range []*[]byte{&t.Bytes, &t.Host} {
		if *view, err = syscall.Mmap(
			int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED,
		); err != nil {
			t.unmap()
			return nil, fmt.Errorf("mmap: %w", err)
		}
		(*view)[0] = 0
	}
	if err := t.open(); err != nil {
		t.unmap()
		return nil, fmt.Errorf("userfaultfd: %w", err)
	}
	t.resume = hold()
	go t.serve()
	return t, nil
}

// trapDir returns a directory in memory, because write protection by a descriptor needs shared memory.
func trapDir() string {
	const shm = "/dev/shm"
	if st, err := os.Stat(shm); err == nil && st.IsDir() {
		return shm
	}
	return ""
}

func (t *Trap) open() error {
	fd, _, e := syscall.Syscall(sysUserfaultfd(), syscall.O_CLOEXEC|syscall.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if e != 0 {
		return e
	}
	t.fd = os.NewFile(fd, "userfaultfd")
	api := [3]uint64{uffdAPI, uffdWPFeatures, 0}
	start := uint64(uintptr(unsafe.Pointer(&t.Bytes[0])))
	register := [4]uint64{start, uint64(len(t.Bytes)), uffdRegisterWP, 0}
	err := t.ioctl(uffdioAPI, unsafe.Pointer(&api))
	if err == nil {
		err = t.ioctl(uffdioRegister, unsafe.Pointer(&register))
	}
	if err != nil {
		return errors.Join(err, t.fd.Close())
	}
	return nil
}

// ioctl calls the system. It is safe because p points to a structure of the size that the request has, and the kernel
// does not keep the pointer.
func (t *Trap) ioctl(request uintptr, p unsafe.Pointer) error {
	raw, err := t.fd.SyscallConn()
	if err != nil {
		return err
	}
	var e syscall.Errno
	err = raw.Control(func(fd uintptr) { _, _, e = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(p)) })
	if err != nil {
		return err
	}
	if e != 0 {
		return e
	}
	return nil
}

// protect makes the driver's view read-only, or lets waiting stores continue.
func (t *Trap) protect(on uint64) error {
	arg := [3]uint64{uint64(uintptr(unsafe.Pointer(&t.Bytes[0]))), uint64(len(t.Bytes)), on}
	return t.ioctl(uffdioProtect, unsafe.Pointer(&arg))
}

// Set makes the next store to Bytes wait for the handler. Later stores do not wait.
func (t *Trap) Set() error { return t.protect(1) }

// serve runs the handler for each waiting store until the descriptor is closed.
func (t *Trap) serve() {
	defer close(t.done)
	var msg [32]byte
	for {
		n, err := t.fd.Read(msg[:])
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err == nil && n == len(msg) && msg[0] == uffdEventFault:
			t.handler()
			t.release()
		}
	}
}

// release lets waiting stores continue. It repeats the call if the kernel returns EAGAIN, because mappings of the
// process change, or EINTR.
func (t *Trap) release() {
	for {
		if err := t.protect(0); !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
			return
		}
		runtime.Gosched()
	}
}

// Close ends the trap. The driver must no longer use Bytes.
func (t *Trap) Close() error {
	t.release()
	err := t.fd.Close()
	<-t.done
	t.resume()
	t.unmap()
	return err
}

func (t *Trap) unmap() {
	for _, view := range [][]byte{t.Bytes, t.Host} {
		if view != nil {
			_ = syscall.Munmap(view)
		}
	}
}
