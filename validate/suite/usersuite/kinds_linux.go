package usersuite

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ciddk/validate"
)

// descriptorKind is a descriptor that a process may send with private data.
type descriptorKind struct {
	what string
	f    *os.File
	// whether the driver gets it; others could end the daemon, or keep it waiting
	passes bool
}

// descriptorKinds returns descriptors of the kinds that the system has without rights.
func descriptorKinds(t *validate.T) (list []descriptorKind) {
	dir, err := os.MkdirTemp("", "ddk-validate-")
	if err != nil {
		t.Harness("a folder: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	add := func(what string, passes bool, fd int, err error) {
		if err != nil {
			return // the system, or what the process may do, does not have it
		}
		f := os.NewFile(uintptr(fd), what)
		t.Cleanup(func() { f.Close() })
		list = append(list, descriptorKind{what, f, passes})
	}
	open := func(what string, passes bool, path string, flags int) {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		add(what, passes, fd, err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err == nil {
		add("a pipe", true, pipe[0], nil)
		add("the other end of a pipe", true, pipe[1], nil)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		add("a Unix socket", true, pair[0], nil)
		unix.Close(pair[1])
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	add("a UDP socket", true, fd, err)
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	add("an eventfd", true, fd, err)
	fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	add("an epoll instance", true, fd, err)
	fd, err = unix.PidfdOpen(os.Getpid(), 0)
	add("a pidfd", true, fd, err)
	open("a device", true, "/dev/null", unix.O_RDWR)
	fifo := filepath.Join(dir, "fifo")
	if unix.Mkfifo(fifo, 0o600) == nil {
		open("a named pipe", true, fifo, unix.O_RDWR)
	}
	memory := func(what string, passes bool, seals int) {
		fd, err := unix.MemfdCreate("certifier", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, 4096)
		}
		if err == nil && seals != 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		add(what, passes, fd, err)
	}
	memory("memory that is sealed", true, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)
	memory("memory that is sealed against writing, too", true, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE)
	memory("memory that is not sealed", false, 0)
	memory("memory that may grow", false, unix.F_SEAL_SHRINK)
	memory("memory that may shrink", false, unix.F_SEAL_GROW)
	file := filepath.Join(dir, "file")
	open("a file", false, file, unix.O_RDWR|unix.O_CREAT)
	open("a file for reading", false, file, unix.O_RDONLY)
	open("the path of a file", false, file, unix.O_PATH)
	open("a folder", false, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	open("the path of a folder", false, dir, unix.O_PATH)
	open("a file of the kernel", false, "/proc/self/status", unix.O_RDONLY)
	link := filepath.Join(dir, "link")
	if os.Symlink(file, link) == nil {
		open("a symbolic link", false, link, unix.O_PATH|unix.O_NOFOLLOW)
	}
	return list
}
