//go:build amd64 || arm64

package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
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

// hostDirs are the directories below devices of the host that have its adapters, which are hidden.
var hostDirs = []string{"infiniband", "infiniband_verbs", "infiniband_mad", "infiniband_cm"}

// isRedirected reports whether a clean path is that of a file of the tree, or of one that is hidden.
func isRedirected(name string) bool {
	isOfHost := strings.HasPrefix(name, "/sys/") && slices.ContainsFunc(strings.Split(name, "/"),
		func(part string) bool { return slices.Contains(hostDirs, part) })
	return isOfHost || slices.ContainsFunc(redirected, func(dir string) bool { return isIn(name, dir) })
}

// redirect returns the place of an absolute path. It reports false for paths that are not redirected.
func redirect(root, name string) (place, bool) {
	slash := ""
	if strings.HasSuffix(name, "/") { // it must be a directory
		slash = "/"
	}
	name = path.Clean(name)
	if !path.IsAbs(name) || !isRedirected(name) {
		return place{}, false
	}
	return place{name, filepath.Join(root, name) + slash}, true
}

// place returns the place that the path argument of a call names. All these calls have a directory as the first one.
func (t *task) place() (place, bool) {
	name, err := readPath(t.tid, t.args[1])
	if err == nil && name != "" && !path.IsAbs(name) {
		name, err = t.absolute(name)
	}
	if err != nil || !t.isValid() { // the kernel reports the error
		return place{}, false
	}
	return redirect(t.root, name)
}

// absolute returns an absolute path for one that is relative to the directory of a call.
func (t *task) absolute(name string) (string, error) {
	link := fmt.Sprintf("/proc/%d/cwd", t.tid)
	if dir := t.int(0); dir != unix.AT_FDCWD {
		link = t.procPath(dir)
	}
	dir, err := os.Readlink(link)
	if err != nil {
		return "", err
	}
	if below, ok := strings.CutPrefix(dir, t.root); ok && strings.HasPrefix(below, "/") {
		dir = below
	}
	return dir + "/" + name, nil
}

// isInSysfs reports whether a place is one in sysfs.
func (p *place) isInSysfs() bool { return strings.HasPrefix(p.name, "/sys/") }

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
	p, ok := t.place()
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
func (t *task) openLive(p place, flags int) (live int, err error) {
	const others = unix.O_ACCMODE | unix.O_DIRECTORY | unix.O_PATH
	if !p.isInSysfs() || flags&others != unix.O_RDONLY {
		return -1, errNotLive
	}
	b, err := devices.ReadContent(t.socket, p.name, contentTimeout)
	switch {
	case errors.Is(err, unix.ENOENT) && !errors.Is(err, devices.ErrNoAnswer):
		return -1, unix.ENOENT
	case err != nil:
		return -1, errNotLive
	}
	fd, err := unix.MemfdCreate("sysfs", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	n, err := unix.Pwrite(fd, b, 0)
	if err == nil && n < len(b) {
		err = unix.ENOSPC
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o444)
	}
	if err == nil { // not to be written
		live, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	unix.Close(fd)
	return live, err
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
	p, ok := t.place()
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
	p, ok := t.place()
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

// attribute returns or lists extended attributes, which the files of the tree do not have.
func (t *task) attribute(isList bool) result {
	p, ok := t.place()
	if !ok {
		return proceed
	}
	if _, err := os.Lstat(p.file); err != nil {
		return failed(err)
	}
	if isList {
		return result{}
	}
	return result{errno: syscall.ENODATA}
}

// fileSystem stores the status of the file system of a file of the tree.
func (t *task) fileSystem() result {
	p, ok := t.place()
	if !ok {
		return proceed
	}
	var st unix.Statfs_t
	if err := unix.Statfs(p.file, &st); err != nil {
		return failed(err)
	}
	if p.isInSysfs() {
		st.Type = unix.SYSFS_MAGIC
	}
	return t.store(t.args[2], &st)
}

const deviceMode = unix.S_IFCHR | 0o666

// The status of a file in sysfs, which has the size of a page.
const (
	sysfsMode = unix.S_IFREG | 0o444
	sysfsSize = 4096
)

// isSysfs reports whether a file with a mode is one in sysfs.
func (p *place) isSysfs(mode uint32) bool {
	return p.isInSysfs() && mode&unix.S_IFMT == unix.S_IFREG
}

// statPath stores the status of a file of the tree.
func (t *task) statPath(addr uint64, flags int) result {
	p, ok := t.place()
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
	p, ok := t.place()
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
