//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/test/linux/guest/channel"
)

// patience limits every wait for the kernel. Under TCG these waits take a second or two, beside busy processes ten
// times that.
const patience = 2 * time.Minute

func mountAll() error {
	for _, m := range []struct{ fs, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		// The kernel may have mounted devtmpfs already.
		if err := unix.Mount(m.fs, m.dir, m.fs, 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return nil
}

// loadModules loads the files that list names, in its order (dependencies first).
func loadModules(list string) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if err := loadModule(s.Text(), ""); err != nil {
			return fmt.Errorf("module %s: %w", s.Text(), err)
		}
	}
	return nil
}

func loadModule(path, parameters string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), parameters, flags); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// openPort waits for the virtio-serial port of a name, because the driver finds its ports some time after it was
// loaded.
func openPort(name string) (*os.File, error) {
	var dev string
	err := await("virtio-serial port "+name, func() bool {
		files, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == name {
				dev = "/dev/" + filepath.Base(filepath.Dir(f))
				_, err := os.Stat(dev)
				return err == nil
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	// Blocking: the port's poll support reports hang-ups that the runtime's poller would spin on.
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dev, err)
	}
	return os.NewFile(uintptr(fd), dev), nil
}

// configure brings the loopback interface and eth0 up, and creates the rxe device.
func configure(c channel.Config) error {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	// Addresses must be usable at once, and the guest must not send packets by itself.
	for _, f := range []string{"accept_dad", "router_solicitations", "accept_ra"} {
		for _, i := range []string{"all", "default", "eth0"} {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+i+"/"+f, []byte("0"), 0); err != nil {
				return err
			}
		}
	}
	steps := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "set", "eth0", "mtu", strconv.Itoa(c.MTU)},
	}
	for _, a := range c.Addresses {
		add := []string{"ip", "addr", "add", a.String(), "dev", "eth0"}
		if a.Addr().Is6() {
			add = append(add, "nodad")
		}
		steps = append(steps, add)
	}
	steps = append(steps, []string{"ip", "link", "set", "eth0", "up"})
	if c.Device != "" {
		steps = append(steps, []string{"rdma", "link", "add", c.Device, "type", "rxe", "netdev", "eth0"})
	}
	for _, s := range steps {
		if out, err := command(s).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(s, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// hello describes the guest when its rxe device, if it has one, is ready.
func hello(c channel.Config) (h channel.Hello, err error) {
	if c.Device != "" {
		if h.GIDs, err = awaitGIDs(c); err != nil {
			return h, err
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return h, err
	}
	h.Kernel = unix.ByteSliceToString(u.Release[:])
	return h, nil
}

// awaitGIDs waits until the device's port is active and each address has its GID: the kernel fills the table from a
// work queue.
func awaitGIDs(c channel.Config) (table []netip.Addr, err error) {
	port := "/sys/class/infiniband/" + c.Device + "/ports/1/"
	err = await("an active port of "+c.Device+" with a GID for each address", func() bool {
		state, err := os.ReadFile(port + "state")
		if err != nil || !strings.Contains(string(state), "ACTIVE") {
			return false
		}
		table = gids(port + "gids/")
		return !slices.ContainsFunc(c.Addresses, func(p netip.Prefix) bool {
			return !slices.Contains(table, netip.AddrFrom16(p.Addr().As16()))
		})
	})
	if err != nil {
		return table, fmt.Errorf("%w; the table is %v", err, table)
	}
	return table, nil
}

// gids reads the first rows of a GID table; further ones stay empty with two or three addresses.
func gids(dir string) []netip.Addr {
	var t []netip.Addr
	for i := range 8 {
		b, err := os.ReadFile(dir + strconv.Itoa(i))
		a, perr := netip.ParseAddr(strings.TrimSpace(string(b)))
		if err != nil || perr != nil || a.IsUnspecified() {
			a = netip.Addr{}
		}
		t = append(t, a)
	}
	return t
}

func await(what string, ok func() bool) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no %s within %v", what, patience)
		}
	}
}

// command is exec.Command with an environment for the guest, because PID 1 has none.
func command(args []string) *exec.Cmd {
	path, err := lookPath(args[0])
	c := &exec.Cmd{Path: path, Args: args, Err: err, Dir: "/", Env: []string{"PATH=" + searchPath,
		"HOME=/", "LC_ALL=C"}}
	return c
}

const searchPath = "/usr/bin:/usr/sbin:/bin:/sbin"

func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, d := range filepath.SplitList(searchPath) {
		if st, err := os.Stat(d + "/" + name); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return d + "/" + name, nil
		}
	}
	return "", fmt.Errorf("%s is not in the guest's image", name)
}
