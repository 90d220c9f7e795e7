package guest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

var errClosed = errors.New("guest: network is closed")

// namespace is a network namespace without a name, and a thread in it. Processes that the thread starts are in the
// namespace, and end with the thread (parent-death signal). The kernel removes the namespace when its last process
// ends.
type namespace struct {
	jobs chan func()
	quit chan struct{}
	done chan struct{} // closed when the thread has ended
	once sync.Once
	tid  int

	processes sync.WaitGroup // that the thread started

	mu   sync.Mutex
	live map[*os.Process]struct{} // processes that have not been waited for
}

func newNamespace() (*namespace, error) {
	n := &namespace{jobs: make(chan func()), quit: make(chan struct{}), done: make(chan struct{}),
		live: map[*os.Process]struct{}{}}
	started := make(chan error)
	onThread(func() {
		defer close(n.done)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			started <- fmt.Errorf("guest: new network namespace: %w", err)
			return
		}
		n.tid = unix.Gettid()
		started <- nil
		for {
			select {
			case j := <-n.jobs:
				j()
			case <-n.quit:
				return
			}
		}
	})
	if err := <-started; err != nil {
		<-n.done
		return nil, err
	}
	return n, nil
}

// onThread calls f on a thread that ends with it: the runtime ends a thread that its goroutine leaves locked, so that
// no other goroutine gets into the namespace. The first thread of the program would not end, and /proc/net is that of
// the first thread.
func onThread(f func()) {
	found := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onThread(f) // on another one, since this one is locked
			runtime.UnlockOSThread()
			close(found)
			return
		}
		close(found)
		f()
	}()
	<-found
}

// do runs f on the thread. f must not block for long, because all users of the namespace share the thread.
func (n *namespace) do(f func() error) error {
	res := make(chan error, 1)
	select {
	case n.jobs <- func() { res <- f() }:
		return <-res
	case <-n.quit:
		return errClosed
	}
}

// close ends the thread and its processes, and returns when they have ended.
func (n *namespace) close() {
	n.once.Do(func() { close(n.quit) })
	<-n.done
	// The parent-death signal is for a test that is killed. It does not do here: the runtime parks a program's first
	// thread, where it ends any other.
	n.mu.Lock()
	for p := range n.live {
		_ = unix.Kill(-p.Pid, unix.SIGKILL) // it may have ended
	}
	n.mu.Unlock()
	n.processes.Wait()
}

// newTap creates a tap in the namespace, which exists as long as its descriptor. It has no virtio header, and therefore
// no checksum or segmentation offload: its frames are those of a physical link.
func (n *namespace) newTap(name string) (f *os.File, err error) {
	err = n.do(func() error {
		fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", tunDevice, err)
		}
		req, err := unix.NewIfreq(name)
		if err == nil {
			req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
		}
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("tap %s: %w", name, err)
		}
		f = os.NewFile(uintptr(fd), name)
		return nil
	})
	return f, err
}
