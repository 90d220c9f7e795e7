//go:build linux && (amd64 || arm64)

package ibv

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// soname is the name of the library, which has not changed since 2006.
const soname = "libibverbs.so.1"

// A library is the loaded libibverbs.
type library struct {
	fn    [numSymbols]uintptr
	errno uintptr // __errno_location
}

// load loads the library once for the process. It is never unloaded: providers start threads.
var load = sync.OnceValues(func() (*library, error) {
	handle, err := purego.Dlopen(soname, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be loaded (%w); install rdma-core's library, on Debian libibverbs1 and "+
			"ibverbs-providers", soname, err)
	}
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		return nil, fmt.Errorf("verbs: the C library is not glibc: %w", err)
	}
	versioned, err := purego.Dlsym(libc, "dlvsym")
	if err != nil { // glibc before 2.34 has it in libdl
		if libc, err = purego.Dlopen("libdl.so.2", purego.RTLD_NOW); err == nil {
			versioned, err = purego.Dlsym(libc, "dlvsym")
		}
		if err != nil {
			return nil, fmt.Errorf("verbs: the C library has no versioned symbols: %w", err)
		}
	}
	l := new(library)
	if l.errno, err = purego.Dlsym(purego.RTLD_DEFAULT, "__errno_location"); err != nil {
		return nil, fmt.Errorf("verbs: the C library has no errno: %w", err)
	}
	for i, s := range symbols {
		name, version := cString(s.name), cString(s.version)
		fn, _, _ := purego.SyscallN(versioned, handle, address(name), address(version))
		runtime.KeepAlive(name)
		runtime.KeepAlive(version)
		if fn == 0 && !s.optional {
			return nil, fmt.Errorf("verbs: %s has no %s@%s; rdma-core 31 or later has it", soname, s.name, s.version)
		}
		l.fn[i] = fn
	}
	return l, nil
})

// cString returns s with a zero byte at its end.
func cString(s string) *byte {
	b := heapSlice[byte](len(s) + 1)
	copy(b, s)
	return &b[0]
}

// heap returns a new object on the heap, which does not move, unlike a stack: an address that is passed to the library
// as a number keeps nothing there. It is not inlined, so that the object escapes.
//
//go:noinline
func heap[T any]() *T { return new(T) }

// heapSlice is heap for n objects.
//
//go:noinline
func heapSlice[T any](n int) []T { return make([]T, n) }

// address returns the address of an object from heap, which the caller keeps alive until the call has returned.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// at returns the object of the library at an address.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// call calls a function that returns a pointer, or NULL and errno. The error is a syscall.Errno.
func (l *library) call(s symbol, args ...uintptr) (uintptr, error) { return l.callAt(l.fn[s], args...) }

func (l *library) callAt(fn uintptr, args ...uintptr) (uintptr, error) {
	if fn == 0 {
		return 0, syscall.EOPNOTSUPP
	}
	runtime.LockOSThread() // errno belongs to the thread
	defer runtime.UnlockOSThread()
	loc, _, _ := purego.SyscallN(l.errno)
	*at[int32](loc) = 0
	r, _, _ := purego.SyscallN(fn, args...)
	if r != 0 {
		return r, nil
	}
	if e := *at[int32](loc); e != 0 {
		return 0, syscall.Errno(e)
	}
	return 0, syscall.EIO
}

// do calls a function that returns 0, or an error number, or -1 and errno. The error is a syscall.Errno.
func (l *library) do(s symbol, args ...uintptr) error { return l.doAt(l.fn[s], args...) }

func (l *library) doAt(fn uintptr, args ...uintptr) error {
	if fn == 0 {
		return syscall.EOPNOTSUPP
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	loc, _, _ := purego.SyscallN(l.errno)
	*at[int32](loc) = 0
	r, _, _ := purego.SyscallN(fn, args...)
	return errnoOf(int32(r), func() int32 { return *at[int32](loc) })
}

// errnoOf returns the error of a function that returned r. The verbs return an error number, some providers a negative
// one, and functions that read or write a descriptor -1 with errno.
func errnoOf(r int32, errno func() int32) error {
	switch {
	case r == 0:
		return nil
	case r == -1:
		if e := errno(); e != 0 {
			return syscall.Errno(e)
		}
		return syscall.EIO
	case r < 0:
		return syscall.Errno(-r)
	}
	return syscall.Errno(r)
}
