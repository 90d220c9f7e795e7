package ucm

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	abi "ciddk/internal/ucmabi"
	"ciddk/kproxy"
)

// Config describes a front end. All fields are required.
type Config struct {
	Core    *kproxy.Server
	Manager *cmid.Manager
	// Number returns the number of the RDMA device of an adapter, and whether there is one: the library opens a device
	// again if it has another number. Default: there are none, and the library looks for the GUID only.
	Number func(ci.GUID) (uint32, bool)
}

// FrontEnd implements the rdma_cm device file. It implements devices.FrontEnd.
type FrontEnd struct {
	cfg Config

	mu        sync.Mutex // only locks of File, Session, rdmacm and cm are taken while it is held
	ids       map[uint32]*id
	byCM      map[*cmid.ID]*id
	nextID    uint32
	groups    map[uint32]*group
	byGroup   map[*cmid.Group]*group
	nextGroup uint32
}

var _ devices.FrontEnd = (*FrontEnd)(nil)

// New returns a front end.
func New(cfg Config) (*FrontEnd, error) {
	if cfg.Core == nil || cfg.Manager == nil {
		return nil, errors.New("ucm: Config.Core or Config.Manager is nil")
	}
	return &FrontEnd{cfg: cfg, ids: map[uint32]*id{}, byCM: map[*cmid.ID]*id{}, groups: map[uint32]*group{},
		byGroup: map[*cmid.Group]*group{}}, nil
}

// The numbers of the device file: that of miscellaneous devices, and one that Linux assigns as it likes.
const (
	deviceMajor = 10
	deviceMinor = 251
)

const (
	deviceName = "rdma_cm"
	deviceFile = "/dev/infiniband/" + deviceName
)

// Tree returns the device file, with its numbers, and its files in sysfs.
func (u *FrontEnd) Tree() []devices.Entry {
	numbers := fmt.Appendf(nil, "%d:%d\n", deviceMajor, deviceMinor)
	dir, list := devices.ClassDevice("", "misc", deviceName, devices.DeviceFile(deviceMajor, deviceMinor, deviceName))
	return append(list, devices.Entry{Path: deviceFile, Data: numbers},
		devices.Entry{Path: dir + "/dev", Data: numbers},
		devices.Entry{Path: dir + "/abi_version", Data: fmt.Appendf(nil, "%d\n", abi.AbiVersion)})
}

// Open opens the device file for a client. Error: ENOENT; ENOMEM (too many clients); EIO.
func (u *FrontEnd) Open(name string, p kproxy.Peer) (devices.File, error) {
	if name != deviceFile {
		return nil, syscall.ENOENT
	}
	session, err := u.cfg.Core.Open(p, 64, name)
	if err != nil {
		return nil, errnoOf(err)
	}
	f := &File{front: u, session: session}
	f.channel = cmid.NewEventChannel(f.ready)
	// Linux has no such events. Alternate paths are not supported.
	f.channel.Ignore(cmid.EventReadyToUse, cmid.EventDelayed, cmid.EventAlternate)
	session.Describe(f.describe)
	return f, nil
}

// free returns a number that a table does not have, from next on. Number 0 is not used.
func free[T any](table map[uint32]T, next *uint32) uint32 {
	for {
		*next = *next%math.MaxInt32 + 1
		if _, ok := table[*next]; !ok {
			return *next
		}
	}
}

// errnoOf returns the errno that Linux returns for an error.
func errnoOf(err error) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	switch ci.StatusOf(err) {
	case ci.InsufficientResources, ci.InsufficientMemory, ci.MaxMcastQPsReached:
		return syscall.ENOMEM
	case ci.Unsupported:
		return syscall.EOPNOTSUPP
	case ci.InvalidPermission:
		return syscall.EPERM
	case ci.ResourceBusy:
		return syscall.EBUSY
	case ci.Timeout:
		return syscall.ETIMEDOUT
	}
	return syscall.EINVAL
}
