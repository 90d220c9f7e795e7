//go:build amd64 || arm64

package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/kproxy/devices"
)

// The files that are redirected.
var redirected = []string{"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad",
	"/sys/class/misc/rdma_cm", deviceDir}

const deviceDir = "/dev/infiniband"

// place is a file of the tree.
type place struct {
	name string // that the program uses
	file string // in the directory of the tree
}

// isIn reports whether a path is a directory or below it.
func isIn(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// redirect returns the place of a path. It reports false for paths that are not redirected.
func redirect(root, name string) (place, bool) {
	if !path.IsAbs(name) {
		return place{}, false
	}
	slash := ""
	if strings.HasSuffix(name, "/") { // it must be a directory
		slash = "/"
	}
	name = path.Clean(name)
	for _, dir := range redirected {
		if isIn(name, dir) {
			return place{name, filepath.Join(root, name) + slash}, true
		}
	}
	return place{}, false
}

// place returns the place that a call's path argument names.
func (t *task) place(n int) (place, bool) {
	name, err := readPath(t.tid, t.args[n])
	if err != nil || !t.isValid() { // the kernel reports the error
		return place{}, false
	}
	return redirect(t.root, name)
}

// device returns the numbers of a device file. It reports false for other files.
func (p *place) device() (major, minor uint32, ok bool) {
	if !isIn(p.name, deviceDir) {
		return 0, 0, false
	}
	b, err := os.ReadFile(p.file)
	if err != nil {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(string(b), "%d:%d", &major, &minor)
	return major, minor, n == 2 && err == nil
}

// openAt opens a file of the tree, or a device file.
func (t *task) openAt(flags int) result {
	p, ok := t.place(1)
	if !ok {
		return proceed
	}
	if _, _, ok := p.device(); ok && flags&unix.O_PATH == 0 {
		const create = unix.O_CREAT | unix.O_EXCL
		switch {
		case flags&create == create:
			return result{errno: syscall.EEXIST}
		case flags&unix.O_DIRECTORY != 0:
			return result{errno: syscall.ENOTDIR}
		}
		return t.openDevice(p, flags)
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_PATH == 0 {
		return failed(p.refuse(flags))
	}
	flags &^= unix.O_TRUNC
	fd, err := t.openLive(p, flags)
	if err == errNotLive { //nolint:errorlint // openLive returns it as it is
		fd, err = unix.Open(p.file, flags&^(unix.O_CREAT|unix.O_EXCL)|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	_, err = add(t.listener, &addition{id: t.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, source: uint32(fd),
		numberFlags: uint32(flags & unix.O_CLOEXEC)})
	if err != nil {
		return failed(err)
	}
	return result{isSent: true}
}

// refuse returns the error of an open for writing: the files of the tree cannot be written, and others cannot be
// created, as in sysfs. All programs of the user share the tree.
func (p *place) refuse(flags int) error {
	if _, err := os.Lstat(p.file); errors.Is(err, unix.ENOTDIR) {
		return unix.ENOTDIR
	} else if err != nil && flags&unix.O_CREAT == 0 {
		return unix.ENOENT
	}
	return unix.EACCES
}

// errNotLive is the error of openLive for a file whose content does not change, or if the daemon does not answer.
var errNotLive = errors.New("not live")

// contentTimeout is the time in which the daemon returns the content of a file.
const contentTimeout = 5 * time.Second

// openLive opens a file of the tree with the content that the daemon has now.
func (t *task) openLive(p place, flags int) (fd int, err error) {
	const others = unix.O_ACCMODE | unix.O_DIRECTORY | unix.O_PATH
	if !strings.HasPrefix(p.name, "/sys/") || flags&others != unix.O_RDONLY {
		return -1, errNotLive
	}
	b, err := devices.ReadContent(t.socket, p.name, contentTimeout)
	switch {
	case errors.Is(err, unix.ENOENT) && !errors.Is(err, devices.ErrNoAnswer):
		return -1, unix.ENOENT
	case err != nil:
		return -1, errNotLive
	}
	if fd, err = unix.MemfdCreate("sysfs", unix.MFD_CLOEXEC); err != nil {
		return -1, err
	}
	n, err := unix.Pwrite(fd, b, 0)
	if err == nil && n < len(b) {
		err = unix.ENOSPC
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o444)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openAt2 is openAt for openat2, whose flags are in memory. Calls with rules of resolution are the kernel's.
func (t *task) openAt2() result {
	how := make([]byte, 24) // u64 flags, u64 mode, u64 resolve
	if readMemory(t.tid, t.args[2], how) != nil || ne.Uint64(how[16:]) != 0 {
		return proceed
	}
	return t.openAt(int(int32(ne.Uint64(how))))
}

func (t *task) access() result {
	p, ok := t.place(1)
	if !ok {
		return proceed
	}
	if _, _, ok := p.device(); ok && t.args[2]&unix.X_OK == 0 {
		return result{}
	}
	if err := unix.Access(p.file, uint32(t.args[2])); err != nil {
		return failed(err)
	}
	return result{}
}

func (t *task) readlink() result {
	p, ok := t.place(1)
	if !ok {
		return proceed
	}
	b := make([]byte, max(0, min(t.int(3), unix.PathMax)))
	if len(b) == 0 {
		return failed(unix.EINVAL)
	}
	n, err := unix.Readlink(p.file, b)
	if err == nil {
		err = writeMemory(t.tid, t.args[2], b[:n])
	}
	if err != nil {
		return failed(err)
	}
	return result{value: int64(n)}
}

const deviceMode = unix.S_IFCHR | 0o666

// The status of a file in sysfs, which has the size of a page.
const (
	sysfsMode = unix.S_IFREG | 0o444
	sysfsSize = 4096
)

// isSysfs reports whether a file with a mode is one in sysfs.
func (p *place) isSysfs(mode uint32) bool {
	return strings.HasPrefix(p.name, "/sys/") && mode&unix.S_IFMT == unix.S_IFREG
}

// statPath stores the status of a file of the tree.
func (t *task) statPath(addr uint64, flags int) result {
	p, ok := t.place(1)
	if !ok {
		return proceed
	}
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, p.file, &st, flags&unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed(err)
	}
	if major, minor, ok := p.device(); ok {
		st.Mode, st.Rdev, st.Size = deviceMode, unix.Mkdev(major, minor), 0
	}
	if p.isSysfs(st.Mode) {
		st.Mode, st.Size = sysfsMode, sysfsSize
	}
	return t.store(addr, &st)
}

// statxPath is statPath for statx.
func (t *task) statxPath() result {
	p, ok := t.place(1)
	if !ok {
		return proceed
	}
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p.file, t.int(2)&^unix.AT_EMPTY_PATH, t.int(3), &st)
	if err != nil {
		return failed(err)
	}
	if major, minor, ok := p.device(); ok {
		st.Mode, st.Size = deviceMode, 0
		st.Rdev_major, st.Rdev_minor = major, minor
	}
	if p.isSysfs(uint32(st.Mode)) {
		st.Mode, st.Size = sysfsMode, sysfsSize
	}
	return t.store(t.args[4], &st)
}

// store stores a structure at an address of the program.
func (t *task) store(addr uint64, v any) result {
	b, err := binary.Append(nil, ne, v)
	if err == nil {
		err = writeMemory(t.tid, addr, b)
	}
	if err != nil {
		return failed(err)
	}
	return result{}
}

// statDescriptor stores the status of a device file that is open.
func (t *task) statDescriptor(addr uint64, mask int) result {
	d, ok := t.descriptor(t.int(0))
	if !ok {
		return proceed
	}
	defer d.release()
	if t.nr != unix.SYS_STATX {
		st := d.stat
		st.Mode, st.Rdev, st.Size = deviceMode, unix.Mkdev(d.major, d.minor), 0
		return t.store(addr, &st)
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, d.path, 0, mask, &st); err != nil {
		return failed(err)
	}
	st.Mode, st.Size = deviceMode, 0
	st.Rdev_major, st.Rdev_minor = d.major, d.minor
	return t.store(addr, &st)
}
