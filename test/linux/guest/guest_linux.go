package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/test/linux/guest/channel"
	"ciddk/test/linux/guest/qemu"
)

// Device is the name of the rxe device in a guest that has one. Its GID table has a row for each address of the guest.
const Device = "rxe0"

// Config describes a Guest. The zero value is valid.
type Config struct {
	Programs []string // further programs of this machine for the guest, by name or path, with their libraries
	Modules  []string // further modules of the kernel, by name
	CPUs     int      // 0 is 2: with one, polling programs starve the kernel
	MemoryMB int      // 0 is 512

	// VFIOUser lists the sockets of PCI functions that vfio-user servers serve. Each is behind a root port of its own.
	// The servers must listen already. Such a guest needs the QEMU of package qemu: see AvailableVFIOUser.
	VFIOUser []string
	// Machine replaces the harness's options of QEMU for the machine: board, accelerator, processors, memory, and
	// devices other than those of the harness. CPUs, MemoryMB, VFIOUser and IOMMU have no effect then. Such a guest
	// needs the same QEMU.
	Machine []string
	// IOMMU adds an IOMMU to the machine, so that a program of the guest can use VFIO. It needs the same QEMU.
	IOMMU bool
	// Dgram lists network interfaces eth1, eth2, … of the guest, by the pair of Unix sockets that carries each
	// interface's frames: that of the guest, and that of the other side.
	Dgram [][2]string
	// Stream lists further network interfaces of the guest, behind those of Dgram, by the Unix socket on which the
	// other side listens for the connection that carries the frames of an interface.
	Stream []string
	// NoRXE leaves out the rxe device.
	NoRXE bool
	// Loadable lists modules of the kernel that are in the guest and not loaded: see Guest.Load.
	Loadable []string
	// Providers lists further drivers of libibverbs, such as "mlx4".
	Providers []string
	// Kernel is a root directory with another kernel than that of this machine, in boot and lib/modules. Programs and
	// providers are those of this machine.
	Kernel string
	// Files are further files, by their path in the guest, with the path of their content on this machine.
	Files map[string]string
}

// needsQEMU reports whether the guest needs the QEMU of package qemu.
func (c *Config) needsQEMU() bool { return len(c.VFIOUser) > 0 || c.IOMMU || c.Machine != nil }

// Guest is a machine running Linux with an rxe device. Its methods may be called concurrently.
type Guest struct {
	net     *Network
	kernel  *kernel
	noRXE   bool
	index   int
	tap     string
	hello   channel.Hello
	console buffer // last part of the output
	ctl     net.Conn
	stop    context.CancelFunc
	pid     int           // of qemu
	exited  chan struct{} // closed when qemu has exited
	closing sync.Once
	readers sync.WaitGroup // dispatch and the watchers; Add under mu while gone is nil

	send sync.Mutex // one frame at a time

	mu       sync.Mutex
	commands map[uint32]*Process
	last     uint32
	gone     error // why the guest no longer answers
}

// Boot starts a guest and returns when its rxe port is active, which takes some seconds under TCG. The context applies
// only to the start. The guest runs until Close, or until the network is closed. Errors end with the last console
// output of the guest.
func (n *Network) Boot(ctx context.Context, c Config) (*Guest, error) {
	k, err := newestKernel(cmp.Or(c.Kernel, "/"))
	if err != nil {
		return nil, err
	}
	initrd, err := buildImage(ctx, k, &c)
	if err != nil {
		return nil, err
	}
	program := qemu.Plain()
	if c.needsQEMU() {
		if program, err = qemu.Find(); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	n.last++
	g := &Guest{
		net: n, kernel: k, noRXE: c.NoRXE, index: n.last, tap: fmt.Sprintf("tap%d",
			n.last), console: buffer{limit: 16 << 10},
		exited: make(chan struct{}), commands: map[uint32]*Process{},
	}
	n.mu.Unlock()
	if err := g.start(ctx, program, &c, initrd); err != nil {
		return nil, err
	}
	if err := g.setup(ctx); err != nil {
		_ = g.Close() // the first error says more
		return nil, fmt.Errorf("guest %d: %w; console:\n%s", g.index, err, g.console.String())
	}
	g.readers.Go(g.dispatch)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.Join(errClosed, g.Close())
	}
	n.guests = append(n.guests, g)
	return g, nil
}

// start runs qemu. The tap and one end of the channel, passed as descriptors, are its only connections to the host.
func (g *Guest) start(ctx context.Context, program *qemu.Program, c *Config, initrd string) error {
	tap, err := g.net.ns.newTap(g.tap)
	if err != nil {
		return err
	}
	defer tap.Close()
	if err := g.net.ns.run(ctx, "ip", "link", "set", g.tap, "mtu", strconv.Itoa(g.net.mtu), "master", bridge,
		"up"); err != nil {
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()

	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	q := program.Command(life, qemuArgs(c, g.index, g.kernel.image(), initrd)...)
	q.ExtraFiles = []*os.File{tap, theirs} // descriptors 3 and 4
	q.Stdout, q.Stderr = &g.console, &g.console
	q.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	q.WaitDelay = time.Second
	if err := g.net.ns.do(q.Start); err != nil {
		stop()
		ours.Close()
		return fmt.Errorf("%s: %w", qemu.Emulator, err)
	}
	g.ctl, g.stop, g.pid = ours, stop, q.Process.Pid
	go func() {
		defer close(g.exited)
		_ = q.Wait() // always "killed" or, after a guest's panic, 0
	}()
	return nil
}

func qemuArgs(c *Config, index int, kernelImage, initrd string) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-kernel", kernelImage, "-initrd", initrd,
		"-append", kernelArgs(c),
		"-netdev", "tap,id=net,fd=3",
		"-device", fmt.Sprintf("virtio-net-pci,netdev=net,mac=52:54:00:77:00:%02x,romfile=", index+1),
		"-chardev", "socket,id=agent,fd=4",
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=" + channel.PortName,
	}
	for i, path := range c.Dgram {
		args = append(args, "-netdev", fmt.Sprintf("dgram,id=dgram%d,local.type=unix,local.path=%s,remote.type=unix,"+
			"remote.path=%s", i, path[0], path[1]),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=dgram%d,mac=52:54:00:78:%02x:%02x,romfile=", i, index, i))
	}
	for i, path := range c.Stream {
		args = append(args,
			"-netdev", fmt.Sprintf("stream,id=stream%d,server=off,addr.type=unix,addr.path=%s", i, path),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=stream%d,mac=52:54:00:79:%02x:%02x,romfile=", i, index, i))
	}
	if c.Machine != nil {
		return append(args, c.Machine...)
	}
	return append(args, machineArgs(c)...)
}

// machineArgs returns the options of the machine.
func machineArgs(c *Config) []string {
	cpus, mem := c.CPUs, c.MemoryMB
	if cpus == 0 {
		cpus = 2
	}
	if mem == 0 {
		mem = 512
	}
	// Nehalem: newer models' instructions (PCLMUL, AVX2, fast REP) are slower than the plain ones under TCG.
	args := []string{"-accel", "tcg,thread=multi,tb-size=128", "-cpu", "Nehalem",
		"-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(mem)}
	if !c.needsQEMU() {
		return append(args, "-machine", "pc,usb=off,vmport=off,hpet=off")
	}
	args = append(args, "-machine", "q35,usb=off,vmport=off,hpet=off,memory-backend=ram",
		// Servers of vfio-user map the memory, so it is shared.
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", mem))
	if c.IOMMU {
		args = append(args, "-device", "intel-iommu,intremap=on,caching-mode=on")
	}
	for i, path := range c.VFIOUser {
		args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=rp%d,chassis=%d,slot=%[1]d", i, i+1),
			"-device", vfioUserDevice(i, path))
	}
	return args
}

// vfioUserDevice returns the argument for a function behind root port i. It has no option ROM.
func vfioUserDevice(i int, path string) string {
	b, err := json.Marshal(map[string]any{
		"driver": "vfio-user-pci", "bus": fmt.Sprintf("rp%d", i), "rombar": 0,
		"socket": map[string]string{"type": "unix", "path": path},
	})
	if err != nil {
		panic("guest: strings cannot be encoded: " + err.Error())
	}
	return string(b)
}

// kernelArgs returns the kernel's command line. A busy host stops a guest for many seconds, which its
// watchdogs must not take for a fault of its kernel.
func kernelArgs(c *Config) string {
	args := "console=ttyS0 loglevel=4 panic=-1 mitigations=off audit=0 apparmor=0 selinux=0 " +
		"no_timer_check rcupdate.rcu_expedited=1 random.trust_cpu=on " +
		"nowatchdog rcupdate.rcu_cpu_stall_suppress=1 workqueue.watchdog_thresh=0 " +
		"sysctl.kernel.hung_task_timeout_secs=0"
	if c.IOMMU {
		args += " intel_iommu=on"
	}
	return args
}

// socketPair returns one end of a socket pair as a connection, and the other end as a file.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "agent")
	defer f.Close() // FileConn has a copy
	theirs := os.NewFile(uintptr(fds[1]), "agent")
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c, theirs, nil
}

// setup sends the configuration to the agent and waits for its answer.
func (g *Guest) setup(ctx context.Context) error {
	// The channel ends with the guest or with the wait.
	stop := context.AfterFunc(ctx, func() { _ = g.ctl.SetDeadline(time.Unix(1, 0)) })
	config := channel.Config{
		Hostname: "guest" + strconv.Itoa(g.index), MTU: g.net.mtu, Device: Device,
		Addresses: []netip.Prefix{prefix(prefix4, g.index), prefix(prefix6, g.index)},
	}
	if g.noRXE {
		config.Device = ""
	}
	if err := channel.WriteJSON(g.ctl, 0, channel.Setup, config); err != nil {
		stop()
		return err
	}
	f, err := channel.Read(g.ctl)
	switch {
	case !stop():
		return fmt.Errorf("not ready: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("the guest ended while booting: %w", err)
	case f.Type == channel.Failed:
		return errors.New(string(f.Body))
	case f.Type != channel.Ready:
		return fmt.Errorf("unexpected frame type %d", f.Type)
	}
	return json.Unmarshal(f.Body, &g.hello)
}

// Index returns the number of the guest on its network, from 1.
func (g *Guest) Index() int { return g.index }

// Kernel returns the release of the guest's kernel.
func (g *Guest) Kernel() string { return g.hello.Kernel }

// GIDIndex returns the index of an address of the guest in the GID table of the rxe port, or -1.
func (g *Guest) GIDIndex(a netip.Addr) int {
	for i, gid := range g.hello.GIDs {
		if gid.IsValid() && gid.Unmap() == a.Unmap() {
			return i
		}
	}
	return -1
}

// Console returns the last part of the kernel's console output.
func (g *Guest) Console() string { return g.console.String() }

// dispatch passes frames of the guest to their commands.
func (g *Guest) dispatch() {
	for {
		f, err := channel.Read(g.ctl)
		if err != nil {
			g.fail(fmt.Errorf("guest %d has ended: %w", g.index, err))
			return
		}
		g.mu.Lock()
		p := g.commands[f.Session]
		if f.Type == channel.Exit {
			delete(g.commands, f.Session)
		}
		g.mu.Unlock()
		if p == nil {
			continue // the end of an abandoned command
		}
		switch f.Type {
		case channel.Stdout:
			_, _ = p.stdout.Write(f.Body) // to memory
		case channel.Stderr:
			_, _ = p.stderr.Write(f.Body)
		case channel.Exit:
			p.exit(f.Body)
		}
	}
}

func (p *Process) exit(body []byte) {
	var s channel.Status
	p.err = json.Unmarshal(body, &s)
	p.code = s.Code
	if s.Err != "" {
		p.err = errors.New(s.Err)
	}
	close(p.done)
}

// fail ends all commands.
func (g *Guest) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone == nil {
		g.gone = err
	}
	for s, p := range g.commands {
		delete(g.commands, s)
		p.err = g.gone
		close(p.done)
	}
}

// Start runs a program of the guest, found in its PATH. It is killed, with its process group, when ctx ends or the
// guest is closed.
func (g *Guest) Start(ctx context.Context, args ...string) (*Process, error) {
	if len(args) == 0 {
		return nil, errors.New("guest: no command given")
	}
	p := newProcess(ctx, args)
	g.mu.Lock()
	if g.gone != nil {
		g.mu.Unlock()
		return nil, g.gone
	}
	g.last++
	id := g.last
	g.commands[id] = p
	g.readers.Add(1)
	g.mu.Unlock()
	go g.watch(ctx, id, p)
	if err := g.write(func() error {
		return channel.WriteJSON(g.ctl, id, channel.Exec,
			channel.Command{Args: args})
	}); err != nil {
		g.fail(err)
		return nil, err
	}
	return p, nil
}

// watch kills the command when its context ends, and abandons it if the guest does not answer.
func (g *Guest) watch(ctx context.Context, id uint32, p *Process) {
	defer g.readers.Done()
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	err := g.write(func() error { return channel.Write(g.ctl, channel.Frame{Session: id, Type: channel.Kill}) })
	late := time.NewTimer(grace)
	defer late.Stop()
	if err == nil {
		select {
		case <-p.done:
			return
		case <-late.C:
			err = fmt.Errorf("the guest did not report its end within %v", grace)
		}
	}
	g.mu.Lock()
	_, waiting := g.commands[id]
	delete(g.commands, id)
	g.mu.Unlock()
	if waiting {
		p.err = errors.Join(context.Cause(ctx), err)
		close(p.done)
	}
}

func (g *Guest) write(f func() error) error {
	g.send.Lock()
	defer g.send.Unlock()
	if err := g.ctl.SetWriteDeadline(time.Now().Add(grace)); err != nil {
		return err
	}
	return f()
}

// Run calls Start and Wait.
func (g *Guest) Run(ctx context.Context, args ...string) (Result, error) {
	p, err := g.Start(ctx, args...)
	if err != nil {
		return Result{}, err
	}
	return p.Wait()
}

// WaitListen waits until a program of the guest listens on the TCP port.
func (g *Guest) WaitListen(ctx context.Context, port uint16) error {
	return waitListen(ctx, port, func() (string, error) {
		r, err := g.Run(ctx, "agent", "cat", "/proc/net/tcp", "/proc/net/tcp6")
		return r.Stdout, err
	})
}

// Close ends the guest at once; commands that still run fail. It may be called more than once.
func (g *Guest) Close() error {
	g.closing.Do(func() {
		g.stop()
		_ = g.ctl.Close() // wakes the reader
	})
	<-g.exited
	g.fail(fmt.Errorf("guest %d is closed", g.index))
	g.readers.Wait()
	return nil
}
