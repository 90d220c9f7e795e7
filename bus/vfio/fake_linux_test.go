package vfio

import (
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/bus/bustest"
)

// Descriptors of the fake kernel.
const (
	fakeContainer = 100 + iota
	fakeGroup
	fakeDevice
)

// regionShift separates regions in the device's file, as in Linux.
const regionShift = 40

// fake is a kernel with one function, whose device is a model. It keeps VFIO's rules of order.
type fake struct {
	d      *bustest.Device
	memory *bus.Map
	// groupStatus, isPCI and the like change what the kernel reports.
	groupStatus uint32
	info        uint32
	version     int
	extension   int
	fail        map[uint32]error // of ioctls
	mmap        []byte           // of BAR 0, if it can be mapped

	reach sync.RWMutex // held by accesses to the device; unplug waits for them

	mu        sync.Mutex
	isOpen    map[int]bool
	contained bool
	iommu     bool
	sizes     map[uint64]uint64 // of mappings, by IOVA
	allocated int               // bytes
	vectors   []int             // eventfds, of the fake
	request   int
	gone      bool // the device was removed
}

func newFake(d *bustest.Device) *fake {
	return &fake{d: d, memory: bus.NewMap(), groupStatus: groupViable, info: infoReset | infoPCI, extension: 1,
		fail: map[uint32]error{}, isOpen: map[int]bool{}, sizes: map[uint64]uint64{}, request: -1}
}

func (k *fake) Memory() *bus.Map { return k.memory }

func (k *fake) Interrupt(v int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v >= 0 && v < len(k.vectors) {
		raise(k.vectors[v])
	}
}

func raise(fd int) { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (k *fake) open(path string) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd := map[string]int{"/dev/vfio/vfio": fakeContainer, "/dev/vfio/7": fakeGroup}[path]
	if fd == 0 {
		return -1, &os.PathError{Op: "open", Path: path, Err: unix.ENOENT}
	}
	if k.isOpen[fd] && fd == fakeGroup {
		return -1, unix.EBUSY
	}
	k.isOpen[fd] = true
	return fd, nil
}

func (k *fake) close(fd int) error {
	k.mu.Lock()
	if !k.isOpen[fd] {
		k.mu.Unlock()
		return unix.EBADF
	}
	delete(k.isOpen, fd)
	if fd == fakeDevice {
		k.replace(nil)
		if k.request >= 0 {
			unix.Close(k.request)
			k.request = -1
		}
	}
	k.mu.Unlock()
	if fd == fakeDevice && !k.gone {
		k.d.Reset()
		k.d.Config().Reset()
		k.d.Detach()
	}
	if fd == fakeContainer {
		k.memory.Clear()
	}
	return nil
}

func (k *fake) readlink(path string) (string, error) {
	if path != "/sys/bus/pci/devices/0000:03:00.0/iommu_group" {
		return "", &os.PathError{Op: "readlink", Path: path, Err: fs.ErrNotExist}
	}
	return "../../../../kernel/iommu_groups/7", nil
}

func (k *fake) ioctlInt(fd int, request uint32, arg int) (int, error) {
	if err := k.fail[request]; err != nil {
		return 0, err
	}
	k.mu.Lock()
	switch {
	case !k.isOpen[fd]:
		k.mu.Unlock()
		return 0, unix.EBADF
	case fd == fakeDevice && request == deviceReset:
		k.mu.Unlock() // the model may raise interrupts
		command := make([]byte, 2)
		k.d.Config().Read(bus.ConfigCommand, command)
		k.d.Reset()
		k.d.Config().Reset()
		k.d.Config().Write(bus.ConfigCommand, command) // Linux restores the configuration space
		return 0, nil
	}
	defer k.mu.Unlock()
	switch {
	case fd == fakeContainer && request == getAPIVersion:
		return k.version, nil
	case fd == fakeContainer && request == checkExtension && arg == type1v2:
		return k.extension, nil
	case fd == fakeContainer && request == setIOMMU && arg == type1v2 && k.contained:
		k.iommu = true
		return 0, nil
	}
	return 0, unix.ENOTTY
}

func (k *fake) ioctl(fd int, request uint32, arg []byte) (int, error) {
	if err := k.fail[request]; err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isOpen[fd] {
		return 0, unix.EBADF
	}
	switch fd {
	case fakeGroup:
		return k.groupIoctl(request, arg)
	case fakeContainer:
		if request == iommuUnmapDMA && isSize(arg, dmaUnmapSize) {
			iova, n := native.Uint64(arg[8:]), native.Uint64(arg[16:])
			if k.sizes[iova] != n {
				return 0, unix.EINVAL
			}
			delete(k.sizes, iova)
			_, err := k.memory.Remove(iova, n)
			return 0, err
		}
	case fakeDevice:
		return k.deviceIoctl(request, arg)
	}
	return 0, unix.ENOTTY
}

// isSize checks a structure that begins with its size.
func isSize(arg []byte, n int) bool { return len(arg) >= n && int(native.Uint32(arg)) == len(arg) }

func (k *fake) groupIoctl(request uint32, arg []byte) (int, error) {
	switch {
	case request == groupGetStatus && isSize(arg, groupStatusSize):
		native.PutUint32(arg[4:], k.groupStatus)
		return 0, nil
	case request == groupSetContain && len(arg) == 4 && native.Uint32(arg) == fakeContainer:
		k.contained = true
		return 0, nil
	case request == groupGetDeviceFD && string(arg) == "0000:03:00.0\x00" && k.iommu:
		k.isOpen[fakeDevice] = true
		k.d.Attach(k)
		return fakeDevice, nil
	}
	return 0, unix.EINVAL
}

func (k *fake) deviceIoctl(request uint32, arg []byte) (int, error) {
	switch {
	case k.gone:
		return 0, unix.ENODEV
	case request == deviceGetInfo && isSize(arg, deviceInfoSize):
		native.PutUint32(arg[4:], k.info)
		native.PutUint32(arg[8:], 9)
		native.PutUint32(arg[12:], 5)
		return 0, nil
	case request == deviceGetRegion && isSize(arg, regionInfoSize):
		i := native.Uint32(arg[8:])
		flags, size := uint32(regionRead|regionWrite), uint64(bus.ConfigSize)
		if i < bus.NumBARs {
			size = k.d.BARs()[i].Size
		}
		if size == 0 {
			flags = 0
		}
		if i == 0 && k.mmap != nil {
			flags |= regionMmap
		}
		native.PutUint32(arg[4:], flags)
		native.PutUint64(arg[16:], size)
		native.PutUint64(arg[24:], uint64(i)<<regionShift)
		return 0, nil
	case request == deviceGetIRQ && isSize(arg, irqInfoSize):
		n := map[uint32]int{irqMSIX: k.d.NumVectors(), irqRequest: 1}[native.Uint32(arg[8:])]
		native.PutUint32(arg[12:], uint32(n))
		return 0, nil
	case request == deviceSetIRQs && isSize(arg, setIRQsSize):
		return 0, k.setIRQs(arg)
	}
	return 0, unix.EINVAL
}

func (k *fake) setIRQs(arg []byte) error {
	flags, index, n := native.Uint32(arg[4:]), native.Uint32(arg[8:]), int(native.Uint32(arg[16:]))
	if flags == irqDataNone|irqTrigger && n == 0 {
		k.replace(nil)
		return nil
	}
	if flags != irqDataFD|irqTrigger || len(arg) != setIRQsSize+4*n {
		return unix.EINVAL
	}
	var fds []int
	for ; n > 0; n-- {
		// The process may close its descriptor.
		fd, err := unix.Dup(int(native.Uint32(arg[len(arg)-4*n:])))
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	if index == irqRequest {
		k.request = fds[0]
		return nil
	}
	k.replace(fds)
	return nil
}

func (k *fake) replace(fds []int) {
	for _, fd := range k.vectors {
		unix.Close(fd)
	}
	k.vectors = fds
}

func (k *fake) ioctlMemory(fd int, request uint32, arg []byte, at int, memory []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail[request]; err != nil {
		return err
	}
	iova, n := native.Uint64(arg[16:]), native.Uint64(arg[24:])
	if fd != fakeContainer || request != iommuMapDMA || at != dmaMapAddress || !isSize(arg, dmaMapSize) ||
		native.Uint32(arg[4:]) != dmaRead|dmaWrite {
		return unix.EINVAL
	}
	offset, size, err := bus.Pages(memory)
	if err != nil || n != size {
		return unix.EINVAL
	}
	k.sizes[iova] = n
	return k.memory.Add(iova+offset, uint64(len(memory)), memory, true)
}

func (k *fake) pread(fd int, b []byte, off int64) (int, error) {
	k.reach.RLock()
	defer k.reach.RUnlock()
	if fd != fakeDevice || k.hasGone() {
		return 0, unix.EIO
	}
	n, at := off>>regionShift, uint64(off)&(1<<regionShift-1)
	if n == regionConfig {
		k.d.Config().Read(at, b)
	} else {
		bus.PutNumber(b, k.d.ReadBAR(int(n), at, len(b)))
	}
	return len(b), nil
}

func (k *fake) pwrite(fd int, b []byte, off int64) (int, error) {
	k.reach.RLock()
	defer k.reach.RUnlock()
	if fd != fakeDevice || k.hasGone() {
		return 0, unix.EIO
	}
	n, at := off>>regionShift, uint64(off)&(1<<regionShift-1)
	if n == regionConfig {
		bus.WriteConfig(k.d, at, b)
	} else {
		k.d.WriteBAR(int(n), at, len(b), bus.Number(b))
	}
	return len(b), nil
}

func (k *fake) mapFile(fd int, off int64, n int) ([]byte, error) {
	if fd != fakeDevice || off != 0 || n != len(k.mmap) {
		return nil, unix.EINVAL
	}
	return k.mmap, nil
}

func (k *fake) allocate(n int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allocated += n
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func (k *fake) unmap(b []byte) error {
	if len(k.mmap) > 0 && &b[0] == &k.mmap[0] {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allocated -= len(b)
	return unix.Munmap(b)
}

// unplug removes the device, and makes the kernel want the function back.
func (k *fake) unplug() {
	k.reach.Lock()
	defer k.reach.Unlock()
	k.mu.Lock()
	k.gone = true
	raise(k.request)
	k.mu.Unlock()
	k.d.Detach()
}

func (k *fake) hasGone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone
}
