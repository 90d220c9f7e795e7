package vfio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/bus/internal/vectors"
)

// Function is a PCI function of this machine. It implements bus.Function.
type Function struct {
	k         kernel
	address   string
	container int
	group     int
	device    int
	id        bus.ID
	config    bus.Space
	bars      bus.Spaces
	vectors   int
	canReset  bool
	gone      chan struct{}

	// reach is held for reading by accesses; Close and the function's removal take it for writing.
	reach   sync.RWMutex
	isGone  bool
	mapped  [bus.NumBARs][]byte
	request *vectors.Set // raised when the kernel wants the function back; nil: it cannot

	mu       sync.Mutex // of changes
	closed   bool
	enabled  *vectors.Set
	nextIOVA uint64
	dma      map[uint64][]byte // memory by IOVA; nil for that of MapDMA
}

var _ bus.Function = (*Function)(nil)

// firstIOVA is the device's address of the first memory. It is above the ranges that platforms reserve for interrupts
// and firmware.
const firstIOVA = 1 << 32

// open opens a function on a kernel.
func open(k kernel, address string) (*Function, error) {
	f := &Function{k: k, address: address, container: -1, group: -1, device: -1, gone: make(chan struct{}),
		nextIOVA: firstIOVA, dma: map[uint64][]byte{}}
	if err := f.attach(); err != nil {
		return nil, errors.Join(fmt.Errorf("vfio: %s: %w", address, err), f.Close())
	}
	return f, nil
}

// attach opens container, group and device, and reads what the function has.
func (f *Function) attach() error {
	link, err := f.k.readlink(path.Join("/sys/bus/pci/devices", f.address, "iommu_group"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no such function, or no IOMMU: %w (intel_iommu=on or amd_iommu=on, and lspci -D)", err)
	} else if err != nil {
		return err
	}
	if f.container, err = f.k.open("/dev/vfio/vfio"); err != nil {
		return fmt.Errorf("%w (modprobe vfio-pci)", err)
	}
	if v, err := f.k.ioctlInt(f.container, getAPIVersion, 0); err != nil || v != apiVersion {
		return errors.Join(fmt.Errorf("version %d of VFIO's interface, want %d", v, apiVersion), err)
	}
	if ok, err := f.k.ioctlInt(f.container, checkExtension, type1v2); err != nil || ok == 0 {
		return errors.Join(errors.New("no type 1 IOMMU (modprobe vfio_iommu_type1)"), err)
	}
	if err := f.join(path.Base(link)); err != nil {
		return err
	}
	if f.device, err = f.k.ioctl(f.group, groupGetDeviceFD, append([]byte(f.address), 0)); err != nil {
		f.device = -1
		return err
	}
	return f.describe()
}

// join opens the function's IOMMU group and puts it into the container.
func (f *Function) join(group string) (err error) {
	if f.group, err = f.k.open(path.Join("/dev/vfio", group)); err != nil {
		return fmt.Errorf("IOMMU group %s: %w (bind the function to vfio-pci)", group, err)
	}
	status := words(groupStatusSize, 0)
	if _, err := f.k.ioctl(f.group, groupGetStatus, status); err != nil {
		return err
	}
	if native.Uint32(status[4:])&groupViable == 0 {
		return fmt.Errorf("IOMMU group %s has other functions that are not bound to vfio-pci", group)
	}
	if _, err := f.k.ioctl(f.group, groupSetContain, words(uint32(f.container))); err != nil {
		return err
	}
	_, err = f.k.ioctlInt(f.container, setIOMMU, type1v2)
	return err
}

// describe reads regions and interrupts.
func (f *Function) describe() error {
	info := words(deviceInfoSize, 0, 0, 0)
	if _, err := f.k.ioctl(f.device, deviceGetInfo, info); err != nil {
		return err
	}
	flags := native.Uint32(info[4:])
	if flags&infoPCI == 0 {
		return errors.New("it is not a PCI function")
	}
	f.canReset = flags&infoReset != 0
	for i := range uint32(bus.NumBARs) {
		r, err := f.region(i)
		if err != nil {
			return err
		}
		if r.size == 0 || r.flags&(regionRead|regionWrite) == 0 {
			continue
		}
		if r.flags&regionMmap != 0 {
			// Without a mapping, registers are reached by system calls.
			f.mapped[i], _ = f.k.mapFile(f.device, int64(r.off), int(r.size))
		}
		f.bars[i] = bus.NewSpace(r.size, access{f, int(i), int64(r.off)})
	}
	r, err := f.region(regionConfig)
	if err != nil {
		return err
	}
	f.config = bus.NewSpace(r.size, access{f, regionConfig, int64(r.off)})
	f.id = bus.ID{Vendor: f.config.Read16(bus.ConfigVendorID), Device: f.config.Read16(bus.ConfigDeviceID)}
	if f.vectors, err = f.irqs(irqMSIX); err != nil {
		return err
	}
	return f.watch()
}

func (f *Function) region(i uint32) (region, error) {
	b := append(words(regionInfoSize, 0, i, 0), make([]byte, 16)...)
	if _, err := f.k.ioctl(f.device, deviceGetRegion, b); err != nil {
		return region{}, fmt.Errorf("region %d: %w", i, err)
	}
	return parseRegion(b), nil
}

// irqs returns how many interrupts an index has.
func (f *Function) irqs(index uint32) (int, error) {
	b := words(irqInfoSize, 0, index, 0)
	if _, err := f.k.ioctl(f.device, deviceGetIRQ, b); err != nil {
		return 0, fmt.Errorf("interrupts %d: %w", index, err)
	}
	return int(native.Uint32(b[12:])), nil
}

// watch waits for the kernel's request to give the function back, if it has such requests.
func (f *Function) watch() error {
	if n, err := f.irqs(irqRequest); err != nil || n == 0 {
		return nil // an old kernel: the removal waits for Close
	}
	s, err := vectors.New(1)
	if err != nil {
		return err
	}
	if err := f.assign(irqRequest, s); err != nil {
		return errors.Join(err, s.Close())
	}
	s.Serve(func(int) { f.leave() })
	f.request = s
	return nil
}

// leave makes the function one that has gone.
func (f *Function) leave() {
	f.reach.Lock()
	defer f.reach.Unlock()
	if !f.isGone {
		f.isGone = true
		close(f.gone)
	}
}

// assign assigns the eventfds of a set to interrupts.
func (f *Function) assign(index uint32, s *vectors.Set) error {
	var fds []int
	for _, file := range s.Files {
		raw, err := file.SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
	}
	_, err := f.k.ioctl(f.device, deviceSetIRQs, setIRQs(index, fds...))
	return err
}

// access is a space's accesses. n is a BAR, or regionConfig.
type access struct {
	f   *Function
	n   int
	off int64 // in the device's file
}

// memory returns the mapping of the space. reach is held.
func (a access) memory() []byte {
	if a.n < bus.NumBARs {
		return a.f.mapped[a.n]
	}
	return nil
}

func (a access) Load(off uint64, size int) (uint64, error) {
	a.f.reach.RLock()
	defer a.f.reach.RUnlock()
	if a.f.isGone {
		return 0, bus.ErrGone
	}
	if m := a.memory(); m != nil && size >= 4 {
		if size == 4 {
			return uint64(fromNative32(load32(m, off))), nil
		}
		return fromNative64(load64(m, off)), nil
	}
	var b [8]byte
	n, err := a.f.k.pread(a.f.device, b[:size], a.off+int64(off))
	if err == nil && n != size {
		err = unix.EIO
	}
	return bus.Number(b[:size]), err
}

func (a access) Store(off uint64, size int, v uint64) error {
	a.f.reach.RLock()
	defer a.f.reach.RUnlock()
	if a.f.isGone {
		return bus.ErrGone
	}
	if m := a.memory(); m != nil && size >= 4 {
		if size == 4 {
			store32(m, off, fromNative32(uint32(v)))
		} else {
			store64(m, off, fromNative64(v))
		}
		return nil
	}
	var b [8]byte
	bus.PutNumber(b[:size], v)
	_, err := a.f.k.pwrite(a.f.device, b[:size], a.off+int64(off))
	return err
}

// ID returns vendor and device ID.
func (f *Function) ID() bus.ID { return f.id }

// Location returns the function's address.
func (f *Function) Location() string { return f.address }

// Config returns the configuration space.
func (f *Function) Config() bus.Space { return f.config }

// BAR returns a base address register.
func (f *Function) BAR(n int) (bus.Space, error) { return f.bars.BAR(n) }

// NumVectors returns the number of interrupt vectors (MSI-X).
func (f *Function) NumVectors() int { return f.vectors }

// Gone is closed when the kernel wants the function back.
func (f *Function) Gone() <-chan struct{} { return f.gone }

// check returns why the function cannot be used. mu is held.
func (f *Function) check() error {
	if f.closed {
		return bus.ErrClosed
	}
	f.reach.RLock()
	defer f.reach.RUnlock()
	if f.isGone {
		return bus.ErrGone
	}
	return nil
}

// AllocDMA allocates memory that the device can reach.
func (f *Function) AllocDMA(size int) (*bus.DMA, error) {
	size, err := bus.DMASize(size)
	if err != nil {
		return nil, err
	}
	b, err := f.k.allocate(size)
	if err != nil {
		return nil, fmt.Errorf("vfio: %w", err)
	}
	d, err := f.share(bus.Memory{Bytes: b}, true)
	if err != nil {
		return nil, errors.Join(err, f.k.unmap(b))
	}
	return d, nil
}

// MapDMA makes memory of the process reachable for the device: the pages that have it. The caller keeps it in place.
func (f *Function) MapDMA(m bus.Memory) (*bus.DMA, error) { return f.share(m, false) }

// share maps memory for the device. The function owns memory that it allocated.
func (f *Function) share(m bus.Memory, owned bool) (*bus.DMA, error) {
	offset, n, err := bus.Pages(m.Bytes)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(); err != nil {
		return nil, err
	}
	iova := f.nextIOVA
	arg := words(dmaMapSize, dmaRead|dmaWrite, 0, 0)
	arg = native.AppendUint64(native.AppendUint64(arg, iova), n)
	if err := f.k.ioctlMemory(f.container, iommuMapDMA, arg, dmaMapAddress, m.Bytes); err != nil {
		if errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w (the limit on locked memory, ulimit -l, must cover all DMA memory)", err)
		}
		return nil, fmt.Errorf("vfio: mapping %d bytes at %#x: %w", n, iova, err)
	}
	f.nextIOVA += n + uint64(os.Getpagesize()) // an access beyond the end fails
	f.dma[iova] = nil
	if owned {
		f.dma[iova] = m.Bytes
	}
	return bus.NewDMA(m, iova+offset, func() error { return f.unshare(iova, n) }), nil
}

// unshare ends a mapping.
func (f *Function) unshare(iova, n uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.dma[iova]
	if !ok {
		return nil // Close did it
	}
	delete(f.dma, iova)
	arg := native.AppendUint64(native.AppendUint64(words(dmaUnmapSize, 0), iova), n)
	_, err := f.k.ioctl(f.container, iommuUnmapDMA, arg)
	if b != nil {
		err = errors.Join(err, f.k.unmap(b))
	}
	return err
}

// EnableVectors enables interrupt vectors.
func (f *Function) EnableVectors(n int, fn func(vector int)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return bus.ErrClosed
	}
	if err := bus.CheckVectors(n, f.vectors, fn); err != nil {
		return err
	}
	if err := f.disable(); err != nil || n == 0 {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	v, err := vectors.New(n)
	if err != nil {
		return err
	}
	if err := f.assign(irqMSIX, v); err != nil {
		return errors.Join(fmt.Errorf("vfio: %d vectors: %w", n, err), v.Close())
	}
	v.Serve(fn)
	f.enabled = v
	return nil
}

// disable disables the vectors, and waits until no function of theirs runs. mu is held.
func (f *Function) disable() error {
	v := f.enabled
	if v == nil {
		return nil
	}
	f.enabled = nil
	_, err := f.k.ioctl(f.device, deviceSetIRQs, setIRQs(irqMSIX))
	if f.check() != nil {
		err = nil // the function has gone
	}
	return errors.Join(err, v.Close())
}

// Reset resets the function. The command register is 0 afterwards.
func (f *Function) Reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(); err != nil {
		return err
	}
	if !f.canReset {
		return fmt.Errorf("vfio: %s cannot be reset", f.address)
	}
	if err := f.disable(); err != nil {
		return err
	}
	if _, err := f.k.ioctlInt(f.device, deviceReset, 0); err != nil {
		return fmt.Errorf("vfio: resetting %s: %w", f.address, err)
	}
	f.config.Write16(bus.ConfigCommand, 0) // the kernel restores the configuration space
	return nil
}

// Close releases the function. The kernel resets it, and its driver vfio-pci keeps it.
func (f *Function) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	errs := []error{f.disable()}
	if f.request != nil {
		errs = append(errs, f.request.Close())
	}
	f.reach.Lock()
	f.isGone = true
	for _, m := range f.mapped {
		if m != nil {
			errs = append(errs, f.k.unmap(m))
		}
	}
	f.mapped = [bus.NumBARs][]byte{}
	f.reach.Unlock()
	// The device's file first: the kernel resets the function while its memory is still mapped.
	for _, fd := range []int{f.device, f.group, f.container} {
		if fd >= 0 {
			errs = append(errs, f.k.close(fd))
		}
	}
	for _, b := range f.dma {
		if b != nil {
			errs = append(errs, f.k.unmap(b))
		}
	}
	clear(f.dma)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}
