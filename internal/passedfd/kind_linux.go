package passedfd

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Kind is what a descriptor is.
type Kind int

// Kinds of descriptors.
const (
	// a file or directory that may be implemented by a process (FUSE): any system call may wait for it
	Foreign  Kind = iota
	Disk          // a regular file of a file system of the kernel, on a disk
	Memory        // a memfd, or a file of tmpfs or hugetlbfs
	Object        // what is no file: sockets, pipes, devices, and objects of the kernel
	Nameless      // an Object that only descriptors have, such as an eventfd
)

// KindOf returns the kind of a descriptor. None of its system calls waits for a file system.
func KindOf(fd int) Kind {
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
		return Object
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil {
		return Memory
	}
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	if err != nil {
		return Foreign
	}
	switch st.Mode & unix.S_IFMT {
	case 0:
		return Nameless
	case unix.S_IFCHR, unix.S_IFIFO, unix.S_IFSOCK:
		return Object
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err == nil && !strings.HasPrefix(name, "/") { // such as "pidfd:[1]" and "net:[4026531840]", which have a type
		return Object
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && isOnDisk(fd) {
		return Disk
	}
	return Foreign
}

// isOnDisk reports whether a descriptor's mount is one of this process, and has a type that no process implements.
func isOnDisk(fd int) bool {
	id, ok := find("/proc/self/fdinfo/"+strconv.Itoa(fd), func(fields []string) (string, bool) {
		return fields[len(fields)-1], fields[0] == "mnt_id:"
	})
	if !ok {
		return false
	}
	kind, _ := find("/proc/self/mountinfo", func(fields []string) (string, bool) {
		for i, f := range fields { // a single hyphen ends the optional fields (proc(5))
			if f == "-" && i+1 < len(fields) {
				return fields[i+1], fields[0] == id
			}
		}
		return "", false
	})
	switch kind {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "overlay", "ramfs":
		return true
	}
	return false
}

// find returns what match returns for the first line of a file of the kernel that it matches.
func find(path string, match func(fields []string) (string, bool)) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 0 {
			if v, ok := match(fields); ok {
				return v, true
			}
		}
	}
	return "", false
}

// A Number is a descriptor without an os.File, which would have it polled. It implements io.Closer.
type Number int

// Close closes the descriptor.
func (n Number) Close() error { return unix.Close(int(n)) }
