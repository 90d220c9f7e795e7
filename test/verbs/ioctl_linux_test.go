package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// verbsIoctl is the number of the ioctl interface of verbs (RDMA_VERBS_IOCTL).
const verbsIoctl = 0xc0181b01

// rawIoctl is an ioctl in the memory of the program: a header of 24 bytes, and attributes of 16.
type rawIoctl struct {
	c *rawContext
	b []byte
}

func (c *rawContext) ioctl(object, method uint16) *rawIoctl {
	q := &rawIoctl{c, c.mem[32768:32768:36864]}
	q.b = append(q.b, make([]byte, 24)...)
	ne.PutUint16(q.b[2:], object)
	ne.PutUint16(q.b[4:], method)
	ne.PutUint32(q.b[16:], 14) // the driver of librxe
	return q
}

func (q *rawIoctl) attr(id, size uint16, data uint64) *rawIoctl {
	for _, x := range []uint16{id, size, 1, 0} { // mandatory
		q.b = ne.AppendUint16(q.b, x)
	}
	q.b = ne.AppendUint64(q.b, data)
	return q
}

// data returns the last field of an attribute by its place.
func (q *rawIoctl) data(i int) uint64 { return ne.Uint64(q.b[24+16*i+8:]) }

func (q *rawIoctl) do() error {
	ne.PutUint16(q.b, uint16(len(q.b)))
	ne.PutUint16(q.b[6:], uint16((len(q.b)-24)/16))
	return q.c.callIoctl(verbsIoctl, addressOf(q.b))
}

func (c *rawContext) callIoctl(request, address uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), uintptr(request), uintptr(address))
	if errno != 0 {
		return errno
	}
	return nil
}

// rawIoctls makes calls by the ioctl interface: context, events, GID table, a CQ on a channel, destroy; and wrong ones.
func rawIoctls() error {
	fd, err := unix.Open(rawDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	mem, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	c := &rawContext{fd: fd, mem: mem}
	defer c.close()
	out := addressOf(mem) + 8192
	if err := c.ioctl(0, 3).attr(0, 4, out).do(); err != nil {
		return fmt.Errorf("get context: %w", err)
	}
	if ne.Uint32(mem[8192:]) == 0 {
		return errors.New("no completion vectors")
	}
	events := c.ioctl(16, 0).attr(0, 0, ^uint64(0))
	if err := events.do(); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(events.data(0)), unix.F_GETFD, 0); err != nil {
		return fmt.Errorf("descriptor %d of events: %w", events.data(0), err)
	}
	return errors.Join(rawGIDs(c, out), rawIoctlCQ(c, out), rawIoctlErrors(c, out))
}

// rawGIDs compares the GID table with sysfs.
func rawGIDs(c *rawContext, out uint64) error {
	gid, err := rawGID()
	if err != nil {
		return err
	}
	if err := c.ioctl(0, 5).attr(0, 8, 32).attr(2, 32*512, out).attr(3, 8, out-8).do(); err != nil {
		return fmt.Errorf("GID table: %w", err)
	}
	if ne.Uint64(c.mem[8184:]) == 0 || !bytes.Equal(c.mem[8192:8208], gid) {
		return fmt.Errorf("GID table: %d entries, %x, want %x", ne.Uint64(c.mem[8184:]), c.mem[8192:8208], gid)
	}
	if err := c.ioctl(0, 6).attr(0, 8, 1).attr(1, 8, 0).attr(3, 32, out+64).do(); err != nil {
		return fmt.Errorf("GID entry: %w", err)
	}
	if !bytes.Equal(c.mem[8256:8256+32], c.mem[8192:8192+32]) {
		return errors.New("GID entry: not that of the table")
	}
	return nil
}

// rawIoctlCQ creates a CQ with a channel, a long value and driver data, and destroys it.
func rawIoctlCQ(c *rawContext, out uint64) error {
	b, err := c.command(17, nil, 4) // create comp channel
	if err != nil {
		return err
	}
	channel := uint64(ne.Uint32(b))
	q := c.ioctl(3, 0).attr(0, 0, 0).attr(1, 4, 64).attr(2, 8, 4711).attr(3, 0, channel).attr(4, 4, 0).
		attr(6, 4, out).attr(0x1000, 16, out+1024).attr(0x1001, 16, out+16)
	if err := q.do(); err != nil {
		return fmt.Errorf("create CQ: %w", err)
	}
	if ne.Uint32(c.mem[8192:]) < 64 {
		return fmt.Errorf("CQ of %d entries", ne.Uint32(c.mem[8192:]))
	}
	if _, err := c.queue(bytes.Clone(c.mem[8192+16 : 8192+32])); err != nil {
		return err
	}
	return c.ioctl(3, 1).attr(0, 0, q.data(0)).attr(1, 8, out).do()
}

func rawIoctlErrors(c *rawContext, out uint64) error {
	const bad = 0x10
	return errors.Join(
		expect("ioctl at a bad address", syscall.EFAULT, c.callIoctl(verbsIoctl, bad)),
		expect("ioctl across the end of the address space", syscall.EFAULT, c.callIoctl(verbsIoctl, ^uint64(7))),
		expect("value at a bad address", syscall.EFAULT, c.ioctl(3, 0).attr(0x1000, 100, bad).do()),
		expect("reply at a bad address", syscall.EFAULT, c.ioctl(0, 2).attr(0, 8, 1).attr(1, 48, bad).do()),
		expect("unknown method", syscall.EPROTONOSUPPORT, c.ioctl(99, 0).do()),
		expect("not a channel", syscall.EBADF, c.ioctl(3, 0).attr(3, 0, 1).do()),
		expect("no descriptor", syscall.EBADF, c.ioctl(3, 0).attr(3, 0, 1000000).do()),
		expect("no object", syscall.ENOENT, c.ioctl(1, 0).attr(0, 0, 77).do()))
}
