package devices

import (
	"fmt"
	"path"
	"path/filepath"
)

// Domain is the domain of the PCI functions that devices of the tree have as their parents. No machine is known to have
// it, and it has 16 bits, as most programs expect.
const Domain = "ddd0"

// PCIDevices is the directory with links to all PCI functions, those of the machine and those of the tree.
const PCIDevices = "/sys/bus/pci/devices"

// DriverDir is the directory of the driver of these functions.
const DriverDir = "/sys/bus/pci/drivers/ddkd"

// virtualDir is the directory of devices that have no parent.
const virtualDir = "/sys/devices/virtual"

// functionSlots is the number of functions on a bus.
const functionSlots = 32

// FunctionDir returns the directory of the PCI function of an adapter.
func FunctionDir(index int) string {
	bus := index / functionSlots
	return fmt.Sprintf("/sys/devices/pci%s:%02x/%[1]s:%02[2]x:%02[3]x.0", Domain, bus, index%functionSlots)
}

// Link returns a symbolic link to a file of the tree. It is relative, as those of sysfs.
func Link(name, to string) Entry {
	target, err := filepath.Rel(path.Dir(name), to)
	if err != nil {
		panic(err) // both are absolute
	}
	return Entry{Path: name, Link: filepath.ToSlash(target)}
}

// ClassDevice returns the directory of a device of a class, and the entries that each device has. As in Linux, the
// directory is below that of its parent, and that of the class has a link to it. A device without a parent, "", is a
// virtual one. uevent is what the file of this name has.
func ClassDevice(parent, class, name, uevent string) (dir string, entries []Entry) {
	classDir := path.Join("/sys/class", class)
	dir = path.Join(parent, class, name)
	if parent == "" {
		dir = path.Join(virtualDir, class, name)
	} else {
		// Programs take the name of the parent from this link, so it is not the shortest one.
		entries = append(entries, Entry{Path: path.Join(dir, "device"), Link: "../../../" + path.Base(parent)})
	}
	return dir, append(entries, Entry{Path: path.Join(dir, "uevent"), Data: []byte(uevent)},
		Link(path.Join(dir, "subsystem"), classDir), Link(path.Join(classDir, name), dir))
}

// DeviceFile returns what the file uevent of a device with a device file has.
func DeviceFile(major, minor int, name string) string {
	return fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/%s\n", major, minor, name)
}
