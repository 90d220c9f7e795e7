package umad

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/kproxy"
)

// Config describes a front end. All fields are required.
type Config struct {
	Core    *kproxy.Server
	MAD     mads.Service
	Devices *uverbs.FrontEnd
}

// FrontEnd implements the umad and issm device files of a daemon's ports. It implements devices.FrontEnd.
type FrontEnd struct {
	cfg Config

	mu       sync.Mutex
	indexes  map[mads.Port]int // also of ports that were removed
	managers map[mads.Port]bool
}

var _ devices.FrontEnd = (*FrontEnd)(nil)

// New returns a front end.
func New(cfg Config) (*FrontEnd, error) {
	if cfg.Core == nil || cfg.MAD == nil || cfg.Devices == nil {
		return nil, errors.New("umad: Config.Core, Config.MAD or Config.Devices is nil")
	}
	return &FrontEnd{cfg: cfg, indexes: map[mads.Port]int{}, managers: map[mads.Port]bool{}}, nil
}

// The numbers of the device files, which Linux has used for the first 64 ports since 2005.
const (
	deviceMajor = 231
	firstManage = 64 // minor number of issm0; that of umad0 is 0
	maxPorts    = 64
)

const (
	deviceDir  = "/dev/infiniband"
	umadName   = "umad"
	manageName = "issm"
	sysfsDir   = "/sys/class/infiniband_mad"
)

// place is a port of a device.
type place struct {
	id     mads.Port
	device string // name
	parent int    // index of the device
	index  int    // of the device files
}

// ports returns the ports that have device files. A port keeps its index, also if the adapter is removed and added
// again.
func (u *FrontEnd) ports() (list []place) {
	served := u.cfg.MAD.Ports()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, d := range u.cfg.Devices.Devices() {
		for _, p := range served {
			if p.CA != d.GUID {
				continue
			}
			i, ok := u.indexes[p]
			if !ok {
				i = len(u.indexes)
				u.indexes[p] = i
			}
			if i < maxPorts {
				list = append(list, place{p, d.Name, d.Index, i})
			}
		}
	}
	return list
}

// Tree returns the device files, with their numbers, and their files in sysfs.
func (u *FrontEnd) Tree() []devices.Entry {
	file := func(name, format string, args ...any) devices.Entry {
		return devices.Entry{Path: name, Data: fmt.Appendf(nil, format+"\n", args...)}
	}
	t := []devices.Entry{file(path.Join(sysfsDir, "abi_version"), "%d", abiVersion)}
	for _, p := range u.ports() {
		for name, minor := range map[string]int{umadName: p.index, manageName: firstManage + p.index} {
			name += strconv.Itoa(p.index)
			dir, entries := devices.ClassDevice(devices.FunctionDir(p.parent), path.Base(sysfsDir), name,
				devices.DeviceFile(deviceMajor, minor, name))
			t = append(append(t, entries...), file(path.Join(deviceDir, name), "%d:%d", deviceMajor, minor),
				file(path.Join(dir, "dev"), "%d:%d", deviceMajor, minor), file(path.Join(dir, "ibdev"), "%s", p.device),
				file(path.Join(dir, "port"), "%d", p.id.Num))
		}
	}
	return t
}

// Open opens a device file for a client. Errors: ENOENT; EACCES (the client is neither root nor the daemon's user);
// ENOMEM (too many clients); those of openManager.
func (u *FrontEnd) Open(name string, peer kproxy.Peer) (devices.File, error) {
	base, ok := strings.CutPrefix(name, deviceDir+"/")
	if !ok {
		return nil, syscall.ENOENT
	}
	for _, p := range u.ports() {
		index := strconv.Itoa(p.index)
		if base != umadName+index && base != manageName+index {
			continue
		}
		session, err := u.cfg.Core.Open(peer, 64, name)
		if err != nil {
			return nil, errnoOf(err)
		}
		if session.Privileged(name) != nil {
			_ = session.Close() // it has logged the error
			return nil, syscall.EACCES
		}
		if base == manageName+index {
			return u.openManager(session, p)
		}
		return u.openFile(session, p), nil
	}
	return nil, syscall.ENOENT
}

// errnoOf returns the errno that Linux returns for an error.
func errnoOf(err error) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	if errors.Is(err, accesslayer.ErrClosed) {
		return syscall.EIO
	}
	switch ci.StatusOf(err) {
	case ci.InsufficientResources, ci.InsufficientMemory:
		return syscall.ENOMEM
	case ci.Unsupported:
		return syscall.EPROTONOSUPPORT
	case ci.InvalidPort:
		return syscall.EPIPE
	}
	return syscall.EINVAL
}
