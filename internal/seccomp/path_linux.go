//go:build amd64 || arm64

package seccomp

import (
	"bytes"
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

// The directories that are redirected, besides those of PCI functions, and the one that has the machine's, too.
var redirected = []string{"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad",
	"/sys/class/misc/rdma_cm", "/sys/devices/virtual/misc/rdma_cm", devices.DriverDir, deviceDir}

const deviceDir = "/dev/infiniband"

// place is a file of the tree, or one of the machine by a path through the tree.
type place struct {
	name string // without links of the tree
	file string // in the directory of the tree, or name
}

// isIn reports whether a path is a directory or below it.
func isIn(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// hostDirs are the directories below devices of the host that have its adapters, which are hidden.
var hostDirs = []string{"infiniband", "infiniband_verbs", "infiniband_mad", "infiniband_cm"}

// isRedirected reports whether a clean path is that of a file of the tree, or of one that is hidden.
func isRedirected(name string) bool {
	isOfDevice := strings.HasPrefix(name, "/sys/") && slices.ContainsFunc(strings.Split(name, "/"),
		func(part string) bool {
			const domain = devices.Domain + ":"
			return strings.HasPrefix(strings.TrimPrefix(part, "pci"), domain) || slices.Contains(hostDirs, part)
		})
	return isOfDevice || name == devices.PCIDevices ||
		slices.ContainsFunc(redirected, func(dir string) bool { return isIn(name, dir) })
}

// maxLinks is the number of links that a path may follow, as in Linux.
const maxLinks = 40

// redirect returns the place of an absolute path, which it resolves as the kernel would: a link of the tree is
// followed, unless it is the last component and isLink. Links of the machine are left to the kernel, except for those
// of sysfs before "..". It reports false for paths that do not lead through the tree.
func redirect(root, name string, isLink bool) (p place, ok bool) {
	if !path.IsAbs(name) {
		return p, false
	}
	at, slash := "/", ""
	if strings.HasSuffix(name, "/") { // it must be a directory
		slash = "/"
	}
	for links := 0; name != ""; {
		part, rest, isDir := strings.Cut(name, "/")
		next := path.Join(at, part)
		name = rest
		file := filepath.Join(root, next)
		switch {
		case part == "" || part == "." || part == "..":
			at = next
			continue
		case isRedirected(next):
			ok = true
		case strings.HasPrefix(next, "/sys/") && strings.Contains(rest, ".."):
			file = next
		default:
			at = next
			continue
		}
		target, err := "", error(nil)
		if isDir || !isLink {
			target, err = os.Readlink(file)
		}
		if target == "" || err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return p, false
		}
		if path.IsAbs(target) {
			at = "/"
		}
		if name = target; isDir {
			name += "/" + rest
		}
	}
	switch {
	case !ok:
		return p, false
	case isRedirected(at):
		return place{at, filepath.Join(root, at) + slash}, true
	}
	return place{at, at + slash}, true
}

// place returns the place that the path argument of a call names. All these calls have a directory as the first one.
// isLink is whether it may be a link.
func (t *task) place(isLink bool) (place, bool) { return redirect(t.root, t.name(), isLink) }

// name returns the absolute path that the path argument of a call names, "" if the kernel reports an error.
func (t *task) name() string {
	name, err := readPath(t.tid, t.args[1])
	if err == nil && name != "" && !path.IsAbs(name) {
		name, err = t.absolute(name)
	}
	if err != nil || !t.isValid() {
		return ""
	}
	return name
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
	dir, _ = t.below(dir)
	return dir + "/" + name, nil
}

// below returns the path of a file as the program knows it, and whether the file is in the tree.
func (t *task) below(file string) (name string, ok bool) {
	name, ok = strings.CutPrefix(file, t.root)
	if !ok || !strings.HasPrefix(name, "/") {
		return file, false
	}
	return name, true
}

// workingDirectory stores the path of the working directory, if it is in the tree.
func (t *task) workingDirectory() result {
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.tid))
	name, ok := t.below(dir)
	if err != nil || !ok || !t.isValid() {
		return proceed
	}
	b := append([]byte(name), 0)
	if uint64(len(b)) > t.args[1] {
		return failed(unix.ERANGE)
	}
	if err := writeMemory(t.tid, t.args[0], b); err != nil {
		return failed(err)
	}
	return result{value: int64(len(b))}
}

// isInSysfs reports whether a place is one of the tree in sysfs.
func (p *place) isInSysfs() bool { return strings.HasPrefix(p.name, "/sys/") && isRedirected(p.name) }

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
	name := t.name()
	if name == preloadList && flags&(unix.O_ACCMODE|unix.O_PATH) == unix.O_RDONLY {
		return t.openPreloadList(flags)
	}
	p, ok := redirect(t.root, name, flags&unix.O_NOFOLLOW != 0)
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
	if flags&unix.O_PATH != 0 { // the kernel installs no such descriptor in the program
		flags &= unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	}
	flags &^= unix.O_TRUNC
	fd, err := t.openLive(p, flags)
	if err == errNotLive { //nolint:errorlint // openLive returns it as it is
		fd, err = unix.Open(p.file, flags&^(unix.O_CREAT|unix.O_EXCL)|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return failed(err)
	}
	return t.giveFile(fd, flags)
}

// giveFile installs a file in the program, whose number the call returns, and closes it here.
func (t *task) giveFile(fd, flags int) result {
	defer unix.Close(fd)
	_, err := add(t.listener, &addition{id: t.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, source: uint32(fd),
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
func (t *task) openLive(p place, flags int) (int, error) {
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
	case isLive(p.name):
		return t.live.open(p.name, b)
	}
	if kept, err := os.ReadFile(p.file); err == nil && bytes.Equal(kept, b) {
		return -1, errNotLive
	}
	return memoryFile("sysfs", b)
}

// memoryFile returns a file with a content, which cannot be written.
func memoryFile(name string, b []byte) (file int, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
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
		file, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	unix.Close(fd)
	return file, err
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
	name := t.name()
	if name == preloadList && t.args[2] == unix.R_OK && t.preloads() {
		return result{}
	}
	p, ok := redirect(t.root, name, t.nr == unix.SYS_FACCESSAT2 && t.int(3)&unix.AT_SYMLINK_NOFOLLOW != 0)
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
	p, ok := t.place(true)
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
	p, ok := t.place(t.nr == unix.SYS_LGETXATTR || t.nr == unix.SYS_LLISTXATTR)
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
func (t *task) fileSystem(addr uint64, name string) result {
	p, ok := redirect(t.root, name, false)
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
	return t.store(addr, &st)
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
	p, ok := t.place(flags&unix.AT_SYMLINK_NOFOLLOW != 0)
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
		if node, ok := t.live.inode(p.name); ok {
			st.Dev, st.Ino = node.dev, node.ino
		}
	}
	return t.store(addr, &st)
}

// statxPath is statPath for statx.
func (t *task) statxPath() result {
	p, ok := t.place(t.int(2)&unix.AT_SYMLINK_NOFOLLOW != 0)
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
		if node, ok := t.live.inode(p.name); ok {
			st.Dev_major, st.Dev_minor, st.Ino = unix.Major(node.dev), unix.Minor(node.dev), node.ino
		}
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
