package guest

import (
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
)

// qemuProgram is the emulator.
const qemuProgram = "qemu-system-x86_64"

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
	if _, err := exec.LookPath(qemuProgram); err != nil {
		u.add("qemu-system-x86", "%s is not installed", qemuProgram)
	}
	if _, err := newestKernel("/"); err != nil {
		u.add("linux-image-amd64", "%v", err)
	}
	for _, p := range slices.Sorted(maps.Keys(programs)) {
		if _, err := exec.LookPath(p); err != nil {
			u.add(programs[p], "%s is not installed", p)
		}
	}
	if _, err := rxeProvider("/"); err != nil {
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
