package uverbs

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/kproxy"
)

// Config describes a front end. All fields but Name are required.
type Config struct {
	AL        *accesslayer.AL
	Core      *kproxy.Server
	Providers []Provider
	// Name is the beginning of the names of all devices, for which ValidName is true. Default: that of the provider.
	// Programs without RDMA netlink need the default.
	Name string
	// Counters returns what an adapter has counted. Optional.
	Counters func(ci.GUID) Counters
}

// MaxName is the maximum length of Config.Name. Linux's names have at most 63 bytes.
const MaxName = 48

// ValidName reports whether the names of devices can begin with a text: letters, digits, hyphens and underscores.
func ValidName(text string) bool {
	const others = "-_"
	for _, c := range text {
		isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !isLetter && (c < '0' || c > '9') && !strings.ContainsRune(others, c) {
			return false
		}
	}
	return text != "" && len(text) <= MaxName
}

// A Provider describes how a driver works with a user library of rdma-core.
type Provider struct {
	Library string // HCAInfo.Library of the adapters
	// Name is the beginning of the names of devices, by which libibverbs finds the user library where there is no RDMA
	// netlink.
	Name string
	ABI  int // version of the library's ABI
	// Driver is the number by which libibverbs finds the user library where there is RDMA netlink (enum
	// rdma_driver_id).
	Driver uint32
	// Command is the UserBuffer.Command by which the driver knows that the private data of a verb is the driver data of
	// the library's commands.
	Command uint32
	// BellOffset is the offset of a u32 in the driver data of a new QP: the index of its bell. 0: there are no bells.
	BellOffset int
}

// Device is an RDMA device.
type Device struct {
	Index int    // of the device file: uverbs0 …
	Name  string // such as rxe_ddk0
	GUID  ci.GUID
	// Number identifies the device until the adapter is removed. If it is added again, it gets a new one, by which
	// programs know that their contexts are of a device that has gone (Linux, assign_name: xa_alloc_cyclic).
	Number uint32

	provider *Provider
	attr     *ci.CAAttr
	info     ci.HCAInfo
	counters func(ci.GUID) Counters
}

// Attr returns the attributes of the adapter. They are not changed.
func (d *Device) Attr() *ci.CAAttr { return d.attr }

// SystemGUID returns the GUID of the system, that of the node if the adapter has none.
func (d *Device) SystemGUID() ci.GUID { return systemGUID(d.attr.GUID, d.attr.SystemGUID) }

// FirmwareText returns the version of the firmware, such as 1.0.0.
func (d *Device) FirmwareText() string {
	v := d.attr.Firmware
	return fmt.Sprintf("%d.%d.%d", v>>32&0xffff, v>>16&0xffff, v&0xffff)
}

// FileName returns the name of the device file, such as uverbs0.
func (d *Device) FileName() string { return fileName + strconv.Itoa(d.Index) }

// Numbers returns the numbers of the device file.
func (d *Device) Numbers() (major, minor uint32) { return deviceMajor, firstMinor + uint32(d.Index) }

// ABI returns the version of the user library's ABI.
func (d *Device) ABI() int { return d.provider.ABI }

// Driver returns the number of the user library's driver.
func (d *Device) Driver() uint32 { return d.provider.Driver }

// FrontEnd implements the uverbs device files of a daemon's adapters. It implements devices.FrontEnd.
type FrontEnd struct {
	cfg Config

	mu      sync.Mutex
	places  map[ci.GUID]*place // of adapters, also of those that were removed
	numbers uint32             // that were assigned
}

// place is what the devices of one GUID have in common.
type place struct {
	index   int
	adapter *accesslayer.Adapter // the last one
	number  uint32               // of its device
}

var _ devices.FrontEnd = (*FrontEnd)(nil)

// New returns a front end.
func New(cfg Config) (*FrontEnd, error) {
	if cfg.AL == nil || cfg.Core == nil {
		return nil, errors.New("uverbs: Config.AL or Config.Core is nil")
	}
	if cfg.Name != "" && !ValidName(cfg.Name) {
		return nil, fmt.Errorf("uverbs: Config.Name %q: want at most %d letters, digits, hyphens and underscores",
			cfg.Name, MaxName)
	}
	return &FrontEnd{cfg: cfg, places: map[ci.GUID]*place{}}, nil
}

// The numbers of the first device file. Linux has used them for the first 32 devices since 2005.
const (
	deviceMajor = 231
	firstMinor  = 192
)

// Devices returns the devices: the adapters that have a provider. A device keeps its index and its name, also if the
// adapter is removed and added again.
func (u *FrontEnd) Devices() []Device {
	var list []Device
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range u.cfg.AL.Adapters() {
		p := u.provider(a.Info().Library)
		if p == nil {
			continue
		}
		guid := a.GUID()
		at := u.places[guid]
		if at == nil {
			at = &place{index: len(u.places)}
			u.places[guid] = at
		}
		if at.adapter != a {
			at.adapter, at.number = a, u.numbers
			u.numbers++
		}
		list = append(list, Device{Index: at.index, Name: cmp.Or(u.cfg.Name, p.Name) + strconv.Itoa(at.index),
			GUID: guid, Number: at.number, provider: p, attr: a.Attr(), info: a.Info(), counters: u.cfg.Counters})
	}
	return list
}

// Number returns the number of the device with a GUID, and whether there is one.
func (u *FrontEnd) Number(guid ci.GUID) (number uint32, ok bool) {
	for _, d := range u.Devices() {
		if d.GUID == guid {
			return d.Number, true
		}
	}
	return 0, false
}

func (u *FrontEnd) provider(library string) *Provider {
	for i := range u.cfg.Providers {
		if u.cfg.Providers[i].Library == library {
			return &u.cfg.Providers[i]
		}
	}
	return nil
}

const (
	deviceDir  = "/dev/infiniband"
	fileName   = "uverbs"
	classVerbs = "infiniband_verbs"
	classIB    = "infiniband"
	classesDir = "/sys/class"
)

// Open opens a device file for a client. Error: ENOENT; ENOMEM (too many clients); EIO.
func (u *FrontEnd) Open(name string, p kproxy.Peer) (devices.File, error) {
	index, ok := strings.CutPrefix(name, path.Join(deviceDir, fileName))
	if !ok {
		return nil, syscall.ENOENT
	}
	for _, d := range u.Devices() {
		if strconv.Itoa(d.Index) != index {
			continue
		}
		session, err := u.cfg.Core.Open(p, 64, name)
		if err != nil {
			return nil, errnoOf(err)
		}
		return &File{front: u, dev: d, session: session, objects: map[uint32]*object{}}, nil
	}
	return nil, syscall.ENOENT
}
