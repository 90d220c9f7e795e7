package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the number of symbolic links in a path, as Linux limits it.
const maxLinks = 40

// Dir creates a directory with the mode 0700, and its parents, unless they exist. It returns the path without symbolic
// links. Error: the path is relative; another user owns the directory or can write to it; another user can replace it
// or one of its parents, or a link that leads there. Nothing is created in a directory of another user.
func Dir(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: want an absolute path", path)
	}
	w := &walk{uid: uint32(os.Geteuid()), rest: split(path), fd: -1}
	defer func() { unix.Close(w.fd) }()
	if err := w.enter(unix.AT_FDCWD, "/", 0); err != nil {
		return "", err
	}
	w.rootOwner = w.at.Uid
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return "", err
		}
	}
	if w.at.Uid != w.uid || w.at.Mode&writable != 0 {
		return "", fmt.Errorf("%s belongs to another user (%d), or others can write to it (mode %#o)", w.path(),
			w.at.Uid, w.at.Mode&0o7777)
	}
	return w.path(), nil
}

// writable are the bits of the mode with which others can write.
const writable = 0o022

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// A walk follows a path by the descriptors of its directories.
type walk struct {
	uid, rootOwner uint32
	names, rest    []string // the path so far, and what remains
	links          int
	fd             int // of the directory so far
	at             unix.Stat_t
}

func (w *walk) path() string { return "/" + strings.Join(w.names, "/") }

// enter makes a directory the current one.
func (w *walk) enter(dir int, name string, flags int) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Join(w.path(), name), Err: err}
	}
	unix.Close(w.fd)
	w.fd = fd
	return unix.Fstat(fd, &w.at)
}

// isTrusted reports whether the owner of a directory or link at a depth may be relied upon. In a user namespace, root
// can be a user without a number, who has the root directory: the same user may have the entries of it.
func (w *walk) isTrusted(owner uint32, depth int) bool {
	return owner == 0 || owner == w.uid || owner == w.rootOwner && depth <= 1
}

// step goes to the next directory of the path. In a directory in which others can write, an entry is safe if the sticky
// bit keeps others than its owner from replacing it.
func (w *walk) step() error {
	name := w.rest[0]
	if name == "." || name == ".." && len(w.names) == 0 {
		w.rest = w.rest[1:]
		return nil
	}
	if !w.isTrusted(w.at.Uid, len(w.names)) {
		return fmt.Errorf("%s belongs to another user (%d)", w.path(), w.at.Uid)
	}
	isShared := w.at.Mode&writable != 0
	if isShared && w.at.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("others can write to %s (mode %#o)", w.path(), w.at.Mode&0o7777)
	}
	if name == ".." {
		w.names, w.rest = w.names[:len(w.names)-1], w.rest[1:]
		return w.enter(w.fd, name, 0)
	}
	var st unix.Stat_t
	err := unix.Fstatat(w.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Mkdirat(w.fd, name, 0o700); err == nil || errors.Is(err, unix.EEXIST) { // another process has
			err = unix.Fstatat(w.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		}
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: filepath.Join(w.path(), name), Err: err}
	}
	w.rest = w.rest[1:]
	if isShared && !w.isTrusted(st.Uid, len(w.names)+1) {
		return fmt.Errorf("%s belongs to another user (%d)", filepath.Join(w.path(), name), st.Uid)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return w.follow(name)
	}
	if err := w.enter(w.fd, name, unix.O_NOFOLLOW); err != nil {
		return err
	}
	w.names = append(w.names, name)
	return nil
}

// follow goes on at the target of a link.
func (w *walk) follow(name string) error {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.fd, name, b)
	if w.links++; err == nil && w.links > maxLinks {
		err = unix.ELOOP
	}
	if err != nil {
		return &os.PathError{Op: "readlink", Path: filepath.Join(w.path(), name), Err: err}
	}
	target := string(b[:n])
	w.rest = append(split(target), w.rest...)
	if filepath.IsAbs(target) {
		w.names = nil
		return w.enter(unix.AT_FDCWD, "/", 0)
	}
	return nil
}
