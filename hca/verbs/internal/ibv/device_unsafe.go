//go:build linux && (amd64 || arm64)

package ibv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// A Context is an open device.
type Context struct {
	lib  *library
	ptr  uintptr
	head *contextHead
}

// Devices returns the names of the machine's devices.
func Devices() ([]string, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	var names []string
	err = l.eachDevice(func(name string, _ uintptr) bool { names = append(names, name); return true })
	return names, err
}

// eachDevice calls f for each device until it returns false. The device is valid during the call.
func (l *library) eachDevice(f func(name string, dev uintptr) bool) error {
	n := heap[int32]()
	list, err := l.call(getDeviceList, address(n))
	if err != nil {
		if errors.Is(err, syscall.ENOSYS) {
			return errors.New("the kernel has no uverbs devices: its RDMA modules are not loaded")
		}
		return fmt.Errorf("list of RDMA devices: %w", err)
	}
	defer func() { _, _ = l.call(freeDeviceList, list) }()
	for _, dev := range unsafe.Slice(at[uintptr](list), *n) {
		name, err := l.call(getDeviceName, dev)
		if err == nil && !f(text(name), dev) {
			break
		}
	}
	return nil
}

// text returns the C string at an address.
func text(p uintptr) string {
	var b strings.Builder
	for ; *at[byte](p) != 0; p++ {
		b.WriteByte(*at[byte](p))
	}
	return b.String()
}

// Open opens a device by name.
func Open(name string) (*Context, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	var names []string
	var ptr uintptr
	var openErr error
	err = l.eachDevice(func(n string, dev uintptr) bool {
		names = append(names, n)
		if n == name {
			ptr, openErr = l.call(openDevice, dev)
		}
		return n != name
	})
	switch {
	case err != nil:
		return nil, err
	case openErr != nil:
		return nil, fmt.Errorf("device %s: %w; /dev/infiniband/uverbs* must be readable and writable, and the "+
			"device's provider installed", name, openErr)
	case ptr != 0:
		return &Context{l, ptr, at[contextHead](ptr)}, nil
	case len(names) == 0:
		return nil, fmt.Errorf("device %s: this machine has no RDMA devices", name)
	}
	return nil, fmt.Errorf("device %s: this machine has no such device; it has %s", name, strings.Join(names, ", "))
}

// Close closes the device.
func (c *Context) Close() error { return c.lib.do(closeDevice, c.ptr) }

// Vectors returns the number of completion vectors.
func (c *Context) Vectors() int { return int(c.head.numCompVectors) }

// Query returns the attributes of the device.
func (c *Context) Query() (a DeviceAttr, err error) {
	p := heap[DeviceAttr]()
	err = c.lib.do(queryDevice, c.ptr, address(p))
	return *p, err
}

// GUID returns the number of a GUID in an attribute.
func GUID(g be64) uint64 { return binary.BigEndian.Uint64(g[:]) }

// Firmware returns the version of the firmware.
func (a *DeviceAttr) Firmware() string {
	s, _, _ := strings.Cut(string(a.FwVer[:]), "\x00")
	return s
}

// QueryPort returns the attributes of a port.
func (c *Context) QueryPort(port uint8) (PortAttr, error) {
	p := heap[PortAttr]()
	err := c.lib.do(queryPort, c.ptr, uintptr(port), address(p))
	return *p, err
}

// QueryGID returns an entry of a GID table; syscall.ENODATA for one that is empty.
func (c *Context) QueryGID(port uint8, index uint32) (GIDEntry, error) {
	p := heap[GIDEntry]()
	err := c.lib.do(queryGIDEx, c.ptr, uintptr(port), uintptr(index), address(p), 0, unsafe.Sizeof(*p))
	return *p, err
}

// QueryPKey returns an entry of a P_Key table.
func (c *Context) QueryPKey(port uint8, index uint16) (uint16, error) {
	p := heap[be16]()
	err := c.lib.do(queryPKey, c.ptr, uintptr(port), uintptr(index), address(p))
	return binary.BigEndian.Uint16(p[:]), err
}

// AsyncFD returns the descriptor from which AsyncEvent reads.
func (c *Context) AsyncFD() int { return int(c.head.asyncFD) }

// AsyncEvent reads an event. On a descriptor that does not block, syscall.EAGAIN means that there is none.
func (c *Context) AsyncEvent() (AsyncEvent, error) {
	p := heap[AsyncEvent]()
	err := c.lib.do(getAsyncEvent, c.ptr, address(p))
	return *p, err
}

// Ack acknowledges an event, for which destroying its object waits.
func (c *Context) Ack(e AsyncEvent) {
	p := heap[AsyncEvent]()
	*p = e
	_, _ = c.lib.call(ackAsyncEvent, address(p))
	runtime.KeepAlive(p)
}
