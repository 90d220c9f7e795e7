package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rawArg is the first argument with which the test's program is a verbs program that uses no library: it makes the
// system calls of the ABI by itself.
const rawArg = "raw-program"

var ne = binary.NativeEndian

// rawPrograms are the verbs programs, by the second argument.
var rawPrograms = map[string]func() error{"transfer": rawTransfer, "hostile": rawHostile, "threads": rawThreads,
	"reopen": rawReopen, "orphan": rawOrphan, "children": rawChildren, "ioctls": rawIoctls, "netlink": rawNetlink}

func rawMain(args []string) int {
	if err := rawPrograms[args[0]](); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println("raw program: success")
	return 0
}

const rawDevice = "/dev/infiniband/uverbs0"

// rawContext is an open device file with a context.
type rawContext struct {
	fd  int
	mem []byte // for replies, and messages
	pd  uint32
}

// command executes a command of the ABI, whose reply of n bytes it returns. core begins behind the reply's address.
func (c *rawContext) command(number uint32, core []byte, n int) ([]byte, error) {
	return c.commandAt(number, core, n, addressOf(c.mem))
}

func (c *rawContext) commandAt(number uint32, core []byte, n int, reply uint64) ([]byte, error) {
	b := ne.AppendUint32(nil, number)
	size := 8 + len(core)
	if n > 0 {
		size += 8
	}
	b = ne.AppendUint16(b, uint16(size/4))
	b = ne.AppendUint16(b, uint16(n/4))
	if n > 0 {
		b = ne.AppendUint64(b, reply)
	}
	k, err := unix.Write(c.fd, append(b, core...))
	if err != nil {
		return nil, fmt.Errorf("command %d: %w", number, err)
	}
	if k != size {
		return nil, fmt.Errorf("command %d: %d bytes of %d", number, k, size)
	}
	return c.mem[:n], nil
}

// words returns 32-bit fields.
func words(list ...uint32) (b []byte) {
	for _, w := range list {
		b = ne.AppendUint32(b, w)
	}
	return b
}

func openRaw() (*rawContext, error) {
	fd, err := unix.Open(rawDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	mem, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	c := &rawContext{fd: fd, mem: mem}
	if _, err := c.command(0, nil, 8); err != nil { // get context
		return nil, err
	}
	unix.Close(int(ne.Uint32(c.mem))) // asynchronous events
	b, err := c.command(3, nil, 4)    // alloc PD
	if err == nil {
		c.pd = ne.Uint32(b)
	}
	return c, err
}

func (c *rawContext) close() error {
	return errors.Join(unix.Munmap(c.mem), unix.Close(c.fd))
}

// rawQueue is a queue that is shared with the adapter.
type rawQueue struct {
	b    []byte
	elem int
}

// queue maps a queue: u64 offset, u32 size.
func (c *rawContext) queue(info []byte) (*rawQueue, error) {
	b, err := unix.Mmap(c.fd, int64(ne.Uint64(info)), int(ne.Uint32(info[8:])), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return &rawQueue{b, 1 << ne.Uint32(b)}, nil
}

const (
	offProducer, offConsumer, offElements = 128, 256, 384
)

func (q *rawQueue) slot(at int) []byte {
	i := ne.Uint32(q.b[at:]) & ne.Uint32(q.b[4:])
	return q.b[offElements+int(i)*q.elem:][:q.elem]
}

func (q *rawQueue) advance(at int) {
	ne.PutUint32(q.b[at:], (ne.Uint32(q.b[at:])+1)&ne.Uint32(q.b[4:]))
}

type rawQP struct {
	handle, number uint32
	recv, send     *rawQueue
}

func (c *rawContext) newQP(cq uint32) (*rawQP, error) {
	core := append(make([]byte, 8), words(c.pd, cq, cq, 0, 16, 16, 1, 1, 0, 2<<8)...) // an RC QP
	b, err := c.command(24, core, 32+32)
	if err != nil {
		return nil, err
	}
	b = bytes.Clone(b)
	q := &rawQP{handle: ne.Uint32(b), number: ne.Uint32(b[4:])}
	if q.recv, err = c.queue(b[32:]); err == nil {
		q.send, err = c.queue(b[48:])
	}
	return q, err
}

// modify changes a QP: fields are bytes by offset.
func (c *rawContext) modify(q *rawQP, mask uint32, set func(b []byte)) error {
	b := make([]byte, 112)
	ne.PutUint32(b[64:], q.handle)
	ne.PutUint32(b[68:], mask)
	set(b)
	_, err := c.command(26, b, 0)
	return err
}

// connect connects a QP to the number of another one of the same port.
func (c *rawContext) connect(q *rawQP, to uint32, gid []byte) error {
	err := c.modify(q, 1|1<<3|1<<4|1<<5, func(b []byte) {
		b[96], b[104] = 1, 1              // Init, port 1
		ne.PutUint32(b[88:], 1|1<<1|1<<2) // rights
	})
	if err != nil {
		return err
	}
	err = c.modify(q, 1|1<<7|1<<8|1<<12|1<<15|1<<17|1<<20, func(b []byte) {
		copy(b, gid)
		b[25], b[30], b[31] = 64, 1, 1 // hop limit, a global address, port 1
		ne.PutUint32(b[84:], to)
		b[96], b[98] = 2, 3    // RTR, MTU 1024
		b[102], b[103] = 1, 12 // responder resources, minimum RNR timer
	})
	if err != nil {
		return err
	}
	return c.modify(q, 1|1<<9|1<<10|1<<11|1<<13|1<<16, func(b []byte) {
		b[96], b[101] = 3, 1              // RTS, initiator depth
		b[105], b[106], b[107] = 14, 7, 7 // timeout, retry counts
	})
}

// rawGID reads the GID of the port from sysfs.
func rawGID() ([]byte, error) {
	text, err := os.ReadFile("/sys/class/infiniband/rxe_ddk0/ports/1/gids/0")
	if err != nil {
		return nil, err
	}
	var gid []byte
	for group := range bytes.SplitSeq(bytes.TrimSpace(text), []byte(":")) {
		var n uint16
		if _, err := fmt.Sscanf(string(group), "%x", &n); err != nil {
			return nil, err
		}
		gid = binary.BigEndian.AppendUint16(gid, n)
	}
	return gid, nil
}

// pause lets other processes run for some milliseconds, since a program without a library waits for a queue in memory.
func pause(milliseconds int) { _, _ = unix.Poll(nil, milliseconds) }

// rawTransfer sends a message from one QP to another one.
func rawTransfer() error {
	c, err := openRaw()
	if err != nil {
		return err
	}
	defer c.close()
	gid, err := rawGID()
	if err != nil {
		return err
	}
	const from, to, size = 8192, 16384, 3000
	b, err := c.command(17, nil, 4) // create comp channel
	if err != nil {
		return err
	}
	channel := int(ne.Uint32(b))
	b, err = c.command(18, append(ne.AppendUint64(nil, 4711), words(64, 0, uint32(channel), 0)...), 8+16)
	if err != nil {
		return err
	}
	cq := ne.Uint32(b)
	wcs, err := c.queue(bytes.Clone(b[8:]))
	if err != nil {
		return err
	}
	start := addressOf(c.mem)
	core := ne.AppendUint64(ne.AppendUint64(ne.AppendUint64(nil, start), uint64(len(c.mem))), start)
	if b, err = c.command(9, append(core, words(c.pd, 1)...), 12); err != nil { // register memory
		return err
	}
	lkey := ne.Uint32(b[4:])
	sender, err := c.newQP(cq)
	if err != nil {
		return err
	}
	receiver, err := c.newQP(cq)
	if err != nil {
		return err
	}
	err = errors.Join(c.connect(sender, receiver.number, gid), c.connect(receiver, sender.number, gid))
	if err != nil {
		return err
	}
	for i := range size {
		c.mem[from+i] = byte(i * 7)
	}
	element := func(w []byte, sge int, offset uint64) { // of a queue with one SGE
		copy(w[sge-24:], words(size, size, 0, 1, 0, 0))
		ne.PutUint64(w[sge:], start+offset)
		copy(w[sge+8:], words(size, lkey))
	}
	if _, err := c.command(23, words(cq, 0), 0); err != nil { // request notification
		return err
	}
	w := receiver.recv.slot(offProducer)
	ne.PutUint64(w, 1)
	element(w, 40, to)
	receiver.recv.advance(offProducer)
	w = sender.send.slot(offProducer)
	ne.PutUint64(w, 2)
	copy(w[12:], words(2, 2)) // send, signaled
	element(w, 208, from)
	sender.send.advance(offProducer)
	if _, err := c.command(28, words(sender.handle, 0, 0, 0), 4); err != nil { // post send
		return err
	}
	token := make([]byte, 8)
	if n, err := unix.Read(channel, token); err != nil || n != 8 || ne.Uint64(token) != 4711 {
		return fmt.Errorf("completion event: %d bytes, %v, %w", n, token, err)
	}
	deadline := time.Now().Add(patience)
	for done := 0; done < 2; {
		if ne.Uint32(wcs.b[offConsumer:]) == ne.Uint32(wcs.b[offProducer:]) {
			if time.Now().After(deadline) {
				return errors.New("no completion")
			}
			pause(1)
			continue
		}
		if w := wcs.slot(offConsumer); ne.Uint32(w[8:]) != 0 {
			return fmt.Errorf("work request %d: status %d", ne.Uint64(w), ne.Uint32(w[8:]))
		}
		wcs.advance(offConsumer)
		done++
	}
	if !bytes.Equal(c.mem[from:from+size], c.mem[to:to+size]) {
		return errors.New("other data arrived")
	}
	return nil
}

// expect returns an error unless err is an errno.
func expect(what string, want syscall.Errno, err error) error {
	if want == 0 && err == nil || want != 0 && errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("%s: %w, want %q", what, err, want.Error())
}

// rawHostile makes calls that are wrong.
func rawHostile() error {
	c, err := openRaw()
	if err != nil {
		return err
	}
	defer c.close()
	raw := func(what string, want syscall.Errno, nr uintptr, a ...uint64) error {
		var args [6]uintptr
		for i, x := range a {
			args[i] = uintptr(x)
		}
		_, _, errno := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
		if errno != want {
			return expect(what, want, errno)
		}
		return nil
	}
	fd, good := uint64(c.fd), addressOf(c.mem)
	copy(c.mem[4096:], rawDevice+"\x00")
	name, long := good+4096, good+8192
	copy(c.mem[8192:], bytes.Repeat([]byte("/"), 5000))
	const bad, cwd = 0x10, ^uint64(99)
	_, replyErr := c.commandAt(3, nil, 4, bad)
	_, unknown := c.command(99, nil, 4)
	_, short := unix.Write(c.fd, []byte{0})
	_, read := unix.Read(c.fd, make([]byte, 8))
	return errors.Join(expect("reply at a bad address", syscall.EFAULT, replyErr),
		expect("an unknown command", syscall.EINVAL, unknown), expect("a short write", syscall.EINVAL, short),
		expect("read", syscall.EINVAL, read),
		raw("write of bad memory", syscall.EFAULT, unix.SYS_WRITE, fd, bad, 32),
		raw("write across the end of the address space", syscall.EFAULT, unix.SYS_WRITE, fd, ^uint64(7), 32),
		raw("a long write", syscall.EINVAL, unix.SYS_WRITE, fd, good, 1<<40),
		raw("open of a bad address", syscall.EFAULT, unix.SYS_OPENAT, cwd, bad, 0),
		raw("open of a long name", syscall.ENAMETOOLONG, unix.SYS_OPENAT, cwd, long, 0),
		raw("stat to a bad address", syscall.EFAULT, unix.SYS_FSTAT, fd, bad),
		raw("stat of a path to a bad address", syscall.EFAULT, unix.SYS_STATX, cwd, name, 0, 0, bad),
		raw("an unknown ioctl", syscall.ENOTTY, unix.SYS_IOCTL, fd, 0x1234, bad),
		raw("dup3 out of the range", syscall.EBUSY, unix.SYS_DUP3, fd, 900000%500, 0),
		raw("close", 0, unix.SYS_CLOSE, fd), raw("write after close", syscall.EBADF, unix.SYS_WRITE, fd, good, 32))
}

// rawThreads opens, copies and closes descriptors on several threads, while another one changes a path.
func rawThreads() error {
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	copy(mem, rawDevice)
	stop := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				mem[len(rawDevice)-1] = "0x"[i%2]
			}
		}
	}()
	var wait sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wait.Go(func() { errs[i] = errors.Join(rawThread(), rawRace(mem)) })
	}
	wait.Wait()
	close(stop)
	return errors.Join(errs...)
}

// rawRace opens a path that changes.
func rawRace(mem []byte) error {
	for range 20 {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(addressOf(mem)), unix.O_RDWR, 0, 0, 0)
		if errno != 0 && errno != syscall.ENOENT && errno != syscall.ENOMEM {
			return fmt.Errorf("a path that changes: %w", errno)
		}
		if errno == 0 {
			unix.Close(int(fd))
		}
	}
	return nil
}

func rawThread() error {
	for range 5 {
		c, err := openRaw()
		if err != nil {
			return err
		}
		other, err := unix.Dup(c.fd)
		if err != nil {
			return fmt.Errorf("dup: %w", err)
		}
		third, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("fcntl: %w", err)
		}
		unix.Close(c.fd)
		unix.Close(third)
		c.fd = other
		var st unix.Stat_t
		if err := unix.Fstat(other, &st); err != nil || st.Rdev != unix.Mkdev(231, 192) {
			return fmt.Errorf("fstat: device %#x, %w", st.Rdev, err)
		}
		if _, err := c.command(4, words(c.pd), 0); err != nil { // dealloc PD, by the copy
			return err
		}
		if err := c.close(); err != nil {
			return err
		}
	}
	return nil
}

// rawReopen opens more device files, one after another, than a user may have open.
func rawReopen() error {
	for i := range 40 {
		c, err := openRaw()
		for wait := time.Now(); errors.Is(err, syscall.ENOMEM) && time.Since(wait) < patience; {
			pause(10) // the daemon closes the earlier ones
			c, err = openRaw()
		}
		if err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		if err := c.close(); err != nil {
			return err
		}
	}
	return nil
}

// rawChildren starts a child, which uses a device, and inherits a descriptor.
func rawChildren() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, rawArg, "transfer").CombinedOutput()
	if err != nil {
		return fmt.Errorf("child: %w: %s", err, out)
	}
	return rawTransfer()
}

// rawOrphan prints its parent's number, the supervisor's, and expects that it is killed.
func rawOrphan() error {
	fmt.Println(os.Getppid())
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	_, err := unix.Open(rawDevice, unix.O_RDWR, 0)
	return expect("open without the supervisor", syscall.ENOSYS, err)
}

// rawNetlink lists the devices by RDMA netlink, as Go programs do: with a socket that is polled, by datagrams whose
// sender is checked, and by messages.
func rawNetlink() error {
	const dump, getDevice, protocol = 0x300 | 1, 5<<10 | 1, 20
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Bind(fd, kernel); err != nil {
		return err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	own, ok := name.(*unix.SockaddrNetlink)
	if !ok || own.Pid == 0 {
		return fmt.Errorf("the socket's address is %+v", name)
	}
	b := make([]byte, 8<<10)
	receive := map[string]func() (int, unix.Sockaddr, error){
		"recvfrom": func() (int, unix.Sockaddr, error) { return unix.Recvfrom(fd, b, 0) },
		"recvmsg": func() (int, unix.Sockaddr, error) {
			n, _, _, from, err := unix.Recvmsg(fd, b, nil, 0)
			return n, from, err
		},
	}
	for call, take := range receive {
		_, _, err := take()
		if err := expect(call+" without a reply", syscall.EAGAIN, err); err != nil {
			return err
		}
		request := words(16, getDevice|dump<<16, 7, 0)
		if err := unix.Sendto(fd, request, 0, kernel); err != nil {
			return err
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil {
			return err
		}
		n, from, err := take()
		if err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		sender, ok := from.(*unix.SockaddrNetlink)
		if !ok || sender.Pid != 0 || n < 16 || ne.Uint32(b[8:]) != 7 || ne.Uint32(b[12:]) != own.Pid ||
			!bytes.Contains(b[:n], []byte("rxe_ddk0\x00")) {
			return fmt.Errorf("%s: %x from %+v, to port %d", call, b[:n], from, own.Pid)
		}
		for ne.Uint16(b[4:]) != unix.NLMSG_DONE { // the end of the list, or another device
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil {
				return err
			}
			if _, _, err = take(); err != nil {
				return err
			}
		}
	}
	return nil
}
