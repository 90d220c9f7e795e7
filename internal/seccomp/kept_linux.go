//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sweepInterval is the time between two looks for descriptors that the program has closed.
const sweepInterval = 200 * time.Millisecond

// kept contains copies of the sockets that the supervisor has installed in programs, where it cannot copy them from
// there: the profiles of container runtimes permit pidfd_getfd only with CAP_SYS_PTRACE. A copy is closed when no
// process has the socket, so the daemon learns a little later that the program has closed it.
type kept struct {
	mu      sync.Mutex
	sockets map[inode]*keptSocket
	isSwept bool // a goroutine looks for closed sockets
}

type keptSocket struct {
	fd     int
	uses   int // installations that are not complete
	misses int // consecutive looks that did not find it
}

// newKept returns an empty set, or nil if descriptors can be copied from programs.
func newKept() *kept {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil
	}
	defer unix.Close(self)
	fd, err := unix.PidfdGetfd(self, self, 0)
	if err != nil {
		return &kept{sockets: map[inode]*keptSocket{}}
	}
	unix.Close(fd)
	return nil
}

// during calls install, which installs a descriptor in a program. If it is a socket, a copy is kept.
func (k *kept) during(fd int, install func() (int, error)) (int, error) {
	var st unix.Stat_t
	if k == nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return install()
	}
	key := inode{st.Dev, st.Ino}
	if err := k.hold(key, fd); err != nil {
		return -1, err
	}
	defer k.unhold(key)
	return install()
}

func (k *kept) hold(key inode, fd int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sockets[key]
	if s == nil {
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s = &keptSocket{fd: copied}
		k.sockets[key] = s
	}
	s.uses++
	if !k.isSwept {
		k.isSwept = true
		go k.sweep()
	}
	return nil
}

func (k *kept) unhold(key inode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sockets[key]
	s.uses--
	s.misses = 0
}

// copy returns a copy of the socket that a program has at a path in /proc.
func (k *kept) copy(path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return -1, syscall.EBADF
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sockets[inode{st.Dev, st.Ino}]
	if s == nil {
		return -1, syscall.EBADF
	}
	return unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
}

// sweep closes the copies of sockets that no process has, until there are none.
func (k *kept) sweep() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for range tick.C {
		if k.drop(openSockets()) {
			return
		}
	}
}

// drop closes the copies of sockets that were not found twice: a process can pass a socket on between two looks. It
// reports whether none is left, which ends the sweep.
func (k *kept) drop(found map[inode]bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, s := range k.sockets {
		if found[key] || s.uses > 0 {
			s.misses = 0
			continue
		}
		if s.misses++; s.misses > 1 {
			unix.Close(s.fd)
			delete(k.sockets, key)
		}
	}
	k.isSwept = len(k.sockets) > 0
	return !k.isSwept
}

// openSockets returns the sockets of the processes other than this one whose descriptors may be seen.
func openSockets() map[inode]bool {
	found := map[inode]bool{}
	own := fmt.Sprintf("/proc/%d", os.Getpid())
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, process := range processes {
		if process == own {
			continue
		}
		entries, err := os.ReadDir(process + "/fd")
		if err != nil { // another user's, or it has ended
			continue
		}
		for _, e := range entries {
			var st unix.Stat_t
			if unix.Stat(process+"/fd/"+e.Name(), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
				found[inode{st.Dev, st.Ino}] = true
			}
		}
	}
	return found
}

// isForbidden reports whether an error of pidfd_getfd is that of a profile.
func isForbidden(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) }
