//go:build amd64 || arm64

package seccomp

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// isLive reports whether the content of a file of the tree changes: those of ports do.
func isLive(name string) bool { return strings.Contains(name, "/ports/") }

// liveFiles are the files with changing content that programs have looked at last. A program that looks at a file by
// its path, opens it and looks at what it has opened, as cp does, finds the same inode.
type liveFiles struct {
	mu    sync.Mutex
	files map[string]*liveFile
}

type liveFile struct {
	file    *os.File
	content []byte
	inode   inode
}

// maxLive is the number of files that are kept. Each takes a descriptor.
const maxLive = 16

// file returns the file of a path, with the content that it had last. mu is held.
func (l *liveFiles) file(name string) (*liveFile, error) {
	if f := l.files[name]; f != nil {
		return f, nil
	}
	if len(l.files) >= maxLive {
		for _, f := range l.files {
			f.file.Close()
		}
		clear(l.files)
	}
	fd, err := unix.MemfdCreate("sysfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := &liveFile{file: os.NewFile(uintptr(fd), "sysfs")}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Fchmod(fd, 0o444)
	}
	if err != nil {
		f.file.Close()
		return nil, err
	}
	f.inode = inode{st.Dev, st.Ino}
	if l.files == nil {
		l.files = map[string]*liveFile{}
	}
	l.files[name] = f
	return f, nil
}

// open opens the file of a path, for reading, with a content. Those who have it open see the content, too.
func (l *liveFiles) open(name string, b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.file(name)
	if err != nil {
		return -1, err
	}
	if !bytes.Equal(f.content, b) {
		if _, err := f.file.WriteAt(b, 0); err != nil {
			return -1, err
		}
		if err := f.file.Truncate(int64(len(b))); err != nil {
			return -1, err
		}
		f.content = bytes.Clone(b)
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// inode returns the inode of the file that open opens. It reports false for a path that is not live.
func (l *liveFiles) inode(name string) (inode, bool) {
	if !isLive(name) {
		return inode{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.file(name)
	if err != nil { // the program sees that of the tree
		return inode{}, false
	}
	return f.inode, true
}
