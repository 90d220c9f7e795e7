//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/verbs/internal/ibv"
)

// driverID identifies this driver; it is the same for all devices.
const driverID ci.GUID = 0x02ddcd5642565300

// HCA is a device of this machine.
type HCA struct {
	ci.UnimplementedHCA
	dev      *ibv.Context
	name     string
	extended bool
	attr     ibv.DeviceAttr
	can      abilities
	info     ci.HCAInfo

	channel ibv.Channel // of all CQs with callbacks
	readers []*reader   // of the device's descriptors

	pds, avs, cqs, srqs, qps, mrs, mws driver.Pool

	mu     sync.RWMutex // guards the fields below; held only for lookups
	open   *ca
	closed bool
	cq     map[uintptr]*cq // by the address of the library's object
	qp     map[uintptr]*qp
	srq    map[uintptr]*srq
	groups map[ci.GID]int // QPs attached to each multicast group
}

// Devices returns the names of the machine's RDMA devices.
func Devices() ([]string, error) { return ibv.Devices() }

// Open opens a device. Its name is that of `ibv_devices`.
func Open(c Config) (*HCA, error) {
	dev, err := ibv.Open(c.Device)
	if err != nil {
		return nil, fmt.Errorf("verbs: %w", err)
	}
	h := &HCA{dev: dev, name: c.Device, extended: c.Extended, cq: map[uintptr]*cq{},
		qp: map[uintptr]*qp{}, srq: map[uintptr]*srq{},
		groups: map[ci.GID]int{}}
	if err := h.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("verbs: device %s: %w", c.Device, err), h.stop())
	}
	return h, nil
}

// start reads what does not change, and starts the goroutines that read events.
func (h *HCA) start() (err error) {
	if h.attr, err = h.dev.Query(); err != nil {
		return fmt.Errorf("ibv_query_device: %w", err)
	}
	a := &h.attr
	h.info = ci.HCAInfo{GUID: ci.GUID(ibv.GUID(a.NodeGUID)), DriverID: driverID, VendorID: a.VendorID & 0xffffff,
		DeviceID: uint16(a.VendorPartID), Revision: uint16(a.HwVer), Version: ci.InterfaceVersion}
	if h.info.GUID == 0 {
		return errors.New("the node GUID is zero, and package ci names adapters by GUID")
	}
	for _, l := range []struct {
		p   *driver.Pool
		max int32
	}{{&h.pds, a.MaxPD}, {&h.cqs, a.MaxCQ}, {&h.qps, a.MaxQP}, {&h.mrs, a.MaxMR}, {&h.avs, a.MaxAH},
		{&h.srqs, a.MaxSRQ}, {&h.mws, a.MaxMW}} {
		l.p.Max = limit(l.max)
	}
	if h.can, err = tryAbilities(h.dev, a); err != nil {
		return err
	}
	if h.channel, err = h.dev.CreateChannel(); err != nil {
		return fmt.Errorf("ibv_create_comp_channel: %w", err)
	}
	for fd, read := range map[int]func() error{
		h.dev.AsyncFD(): h.readAsync, h.channel.FD(): h.readCompletion,
	} {
		r, err := newReader(fd, read)
		if err != nil {
			return err
		}
		h.readers = append(h.readers, r)
	}
	return nil
}

// limit returns a limit of the device as a positive int: 0 and numbers that do not fit mean that the device has none.
func limit(n int32) int {
	if n < 0 {
		return 1<<31 - 1
	}
	return int(n)
}

// stop ends the goroutines and closes the device.
func (h *HCA) stop() error {
	for _, r := range h.readers {
		r.close()
	}
	var errs []error
	if h.channel != (ibv.Channel{}) {
		errs = append(errs, h.dev.DestroyChannel(h.channel))
	}
	return errors.Join(append(errs, h.dev.Close())...)
}

// Close closes the device. It is idempotent. Status: ResourceBusy (the CA is open [SAS-2.2-07]).
func (h *HCA) Close() error {
	h.mu.Lock()
	was, isOpen := h.closed, h.open != nil
	h.closed = was || !isOpen
	h.mu.Unlock()
	switch {
	case was:
		return nil
	case isOpen:
		return fail("HCA.Close", ci.ResourceBusy, "the CA is open")
	}
	return h.stop()
}

// Live returns the number of existing objects of each kind, for the leak check of the certifier.
func (h *HCA) Live() map[string]int {
	return map[string]int{"pd": h.pds.Count(), "av": h.avs.Count(), "cq": h.cqs.Count(), "srq": h.srqs.Count(),
		"qp": h.qps.Count(), "mr": h.mrs.Count(), "mw": h.mws.Count()}
}

// Version returns name and firmware of the device, for reports.
func (h *HCA) Version() string {
	return strings.TrimSpace("device " + h.name + ", firmware " + h.attr.Firmware())
}

// Info returns the identity of the adapter, which is constant.
func (h *HCA) Info() ci.HCAInfo { return h.info }

// OpenCA opens the adapter. Status: InvalidParameter (a zero GUID, a nil callback), NotFound, ResourceBusy (already
// open), InvalidState (Close was called).
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, fail(verb, ci.InvalidParameter, "a GUID and a callback are needed")
	case guid != h.info.GUID:
		return nil, fail(verb, ci.NotFound, "")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, fail(verb, ci.InvalidState, "the adapter is closed")
	case h.open != nil:
		return nil, fail(verb, ci.ResourceBusy, "already open")
	}
	h.open = &ca{hca: h}
	h.open.handlers.Open(onEvent, arg)
	return h.open, nil
}

// firmware returns the version of the firmware as package ci has it: major, minor and subminor, 16 bits each.
func firmware(s string) (v uint64) {
	for i, part := range strings.SplitN(s, ".", 3) {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return 0
		}
		v |= n << (32 - 16*i)
	}
	return v
}
