package guest

import (
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"ciddk/test/linux/guest/qemu"
)

// Available returns nil if guests can run on this machine. Otherwise it returns an error with all missing dependencies
// and the packages to install.
func Available() error {
	u := &unavailable{}
	if runtime.GOARCH != "amd64" {
		u.add("", "the harness needs Linux on amd64, this is %s", runtime.GOARCH)
	}
	if os.Geteuid() != 0 {
		u.add("", "needs root, for a network namespace and a tap")
	} else if f, err := os.OpenFile(tunDevice, os.O_RDWR, 0); err != nil {
		u.add("", "%v", err)
	} else {
		f.Close()
	}
	if _, err := exec.LookPath(qemu.Emulator); err != nil {
		u.add("qemu-system-x86", "%s is not installed", qemu.Emulator)
	}
	if _, err := newestKernel("/"); err != nil {
		u.add("linux-image-amd64", "%v", err)
	}
	for _, p := range slices.Sorted(maps.Keys(programs)) {
		if _, err := exec.LookPath(p); err != nil {
			u.add(programs[p], "%s is not installed", p)
		}
	}
	if _, err := provider("/", "rxe"); err != nil {
		u.add("ibverbs-providers", "%v", err)
	}
	if _, err := exec.LookPath("go"); err != nil {
		u.add("", "the go command, which builds the guest's agent, is not in PATH")
	}
	if len(u.reasons) > 0 {
		return u
	}
	return nil
}

// AvailableVFIOUser is like Available, for guests with Config.VFIOUser or Config.IOMMU and the given drivers of
// libibverbs. It installs a QEMU in the user's cache directory if the machine's is too old: see package qemu.
func AvailableVFIOUser(providers ...string) error {
	if err := Available(); err != nil {
		return err
	}
	u := &unavailable{}
	for _, name := range providers {
		if _, err := provider("/", name); err != nil {
			u.add("ibverbs-providers", "%v", err)
		}
	}
	if _, err := qemu.Find(); err != nil {
		u.add("", "%v", err)
	}
	if len(u.reasons) > 0 {
		return u
	}
	return nil
}
