package uverbs

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
)

// tree collects entries.
type tree []devices.Entry

func (t *tree) file(name, format string, args ...any) {
	*t = append(*t, devices.Entry{Path: name, Data: fmt.Appendf(nil, format+"\n", args...)})
}

func (t *tree) dir(name string) { *t = append(*t, devices.Entry{Path: name, Dir: true}) }

// Tree returns the files of all devices: those in sysfs, and one for each device file, which contains the device
// numbers.
func (u *FrontEnd) Tree() []devices.Entry {
	var t tree
	t.file(path.Join(classesDir, classVerbs, "abi_version"), "%d", abiVersion)
	t.dir(path.Join(classesDir, classIB))
	t.dir(devices.PCIDevices)
	t.dir(deviceDir)
	for _, d := range u.Devices() {
		t.device(&d)
	}
	return t
}

func (t *tree) device(d *Device) {
	file := fmt.Sprintf("%s%d", fileName, d.Index)
	numbers := fmt.Sprintf("%d:%d", deviceMajor, firstMinor+d.Index)
	t.file(path.Join(deviceDir, file), "%s", numbers)
	function := devices.FunctionDir(d.Index)
	t.function(function, d.attr)
	verbs := t.classDevice(function, classVerbs, file, devices.DeviceFile(deviceMajor, firstMinor+d.Index, file))
	t.file(path.Join(verbs, "ibdev"), "%s", d.Name)
	t.file(path.Join(verbs, "dev"), "%s", numbers)
	t.file(path.Join(verbs, "abi_version"), "%d", d.provider.ABI)

	ib, a := t.classDevice(function, classIB, d.Name, "NAME="+d.Name+"\n"), d.attr
	t.file(path.Join(ib, "node_type"), "1: CA")
	t.file(path.Join(ib, "node_guid"), "%s", guidText(a.GUID))
	t.file(path.Join(ib, "sys_image_guid"), "%s", guidText(systemGUID(a.GUID, a.SystemGUID)))
	t.file(path.Join(ib, "node_desc"), "%s", d.Name)
	t.file(path.Join(ib, "fw_ver"), "%s", d.FirmwareText())
	t.file(path.Join(ib, "hw_rev"), "%x", a.Revision)
	t.file(path.Join(ib, "hca_type"), "DDK%d", a.DeviceID)
	t.file(path.Join(ib, "board_id"), "DDK_%06x%04x", a.VendorID, a.DeviceID)
	for i := range a.Ports {
		t.port(portDir(ib, i), path.Join(function, "net"), &a.Ports[i])
	}
	t.addCounters(ib, d)
}

func (t *tree) classDevice(parent, class, name, uevent string) (dir string) {
	dir, entries := devices.ClassDevice(parent, class, name, uevent)
	*t = append(*t, entries...)
	return dir
}

// function adds the files of the PCI function that a device of the machine has: programs look there for its place in
// the machine, and for network interfaces. The numbers are those of the adapter, and it is on no node (-1), so that all
// processors are near.
func (t *tree) function(dir string, a *ci.CAAttr) {
	const infiniBandController = 0x020700
	const none, unassigned = 0xffff, 0xddd0 // a function that is not there; a vendor that the PCI-SIG does not know
	vendor, device := uint16(a.VendorID), uint16(a.DeviceID)
	if vendor == none {
		vendor = unassigned
	}
	t.file(path.Join(dir, "vendor"), "0x%04x", vendor)
	t.file(path.Join(dir, "device"), "0x%04x", device)
	t.file(path.Join(dir, "subsystem_vendor"), "0x%04x", vendor)
	t.file(path.Join(dir, "subsystem_device"), "0x%04x", device)
	t.file(path.Join(dir, "revision"), "0x%02x", uint8(a.Revision))
	t.file(path.Join(dir, "class"), "0x%06x", infiniBandController)
	t.file(path.Join(dir, "numa_node"), "-1")
	t.file(path.Join(dir, "irq"), "0")
	t.file(path.Join(dir, "enable"), "1")
	mask, list := processors()
	t.file(path.Join(dir, "local_cpus"), "%s", mask)
	t.file(path.Join(dir, "local_cpulist"), "%s", list)
	config := make([]byte, 256) // the header of a function without registers, capabilities and interrupts
	binary.LittleEndian.PutUint16(config[0:], vendor)
	binary.LittleEndian.PutUint16(config[2:], device)
	binary.LittleEndian.PutUint32(config[8:], infiniBandController<<8|uint32(uint8(a.Revision)))
	binary.LittleEndian.PutUint16(config[0x2c:], vendor)
	binary.LittleEndian.PutUint16(config[0x2e:], device)
	name := path.Base(dir)
	modalias := fmt.Sprintf("pci:v%08Xd%08[2]Xsv%08[1]Xsd%08[2]Xbc02sc07i00", vendor, device)
	t.file(path.Join(dir, "modalias"), "%s", modalias)
	t.file(path.Join(dir, "resource"), "%s", strings.TrimSpace(strings.Repeat("0x0000000000000000 "+
		"0x0000000000000000 0x0000000000000000\n", 7)))
	t.file(path.Join(dir, "uevent"), "DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04[3]X:%04[4]X\n"+
		"PCI_SLOT_NAME=%s\nMODALIAS=%s",
		path.Base(devices.DriverDir), infiniBandController, vendor, device, name, modalias)
	*t = append(*t, devices.Entry{Path: path.Join(dir, "config"), Data: config},
		devices.Link(path.Join(dir, "subsystem"), path.Dir(devices.PCIDevices)),
		devices.Link(path.Join(devices.PCIDevices, name), dir),
		devices.Link(path.Join(dir, "driver"), devices.DriverDir),
		devices.Link(path.Join(devices.DriverDir, name), dir))
	if bus := name[:len("0000:00")]; !slices.ContainsFunc(*t, func(e devices.Entry) bool {
		return e.Path == path.Join(classesDir, "pci_bus", bus)
	}) {
		t.classDevice(path.Dir(dir), "pci_bus", bus, "")
	}
	t.dir(path.Join(dir, "net"))
}

// processors returns the processors of the machine as the files of a PCI function have them: as a mask, in groups of 32
// of which the last one has the first processors, and as a list.
func processors() (mask, list string) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if list = strings.TrimSpace(string(b)); err != nil || list == "" {
		list = fmt.Sprintf("0-%d", runtime.NumCPU()-1)
	}
	var m big.Int
	for part := range strings.SplitSeq(list, ",") {
		var first, last int
		if n, _ := fmt.Sscanf(part, "%d-%d", &first, &last); n == 1 { // the second one is missing
			last = first
		}
		for ; first <= last; first++ {
			m.SetBit(&m, first, 1)
		}
	}
	const group = 8 // digits
	digits := m.Text(16)
	for len(digits) > group {
		mask = "," + digits[len(digits)-group:] + mask
		digits = digits[:len(digits)-group]
	}
	return digits + mask, list
}

// portDir returns the directory of the port with an index.
func portDir(ib string, i int) string { return path.Join(ib, "ports", strconv.Itoa(i+1)) }

var (
	portStates = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	physStates = [...]string{"", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
		"LinkErrorRecovery", "Phy Test"}
)

func nameOf(names []string, n int) string {
	if n < len(names) && names[n] != "" {
		return names[n]
	}
	return "<unknown>"
}

func (t *tree) port(dir, net string, p *ci.PortAttr) {
	t.file(path.Join(dir, "state"), "%d: %s", p.State, nameOf(portStates[:], int(p.State)))
	t.file(path.Join(dir, "phys_state"), "%d: %s", p.PhysState, nameOf(physStates[:], int(p.PhysState)))
	t.file(path.Join(dir, "lid"), "0x%x", uint16(p.LID))
	t.file(path.Join(dir, "lid_mask_count"), "%d", p.LMC)
	t.file(path.Join(dir, "sm_lid"), "0x%x", uint16(p.SMLID))
	t.file(path.Join(dir, "sm_sl"), "%d", p.SMSL)
	t.file(path.Join(dir, "cap_mask"), "0x%08x", capability(p.Link, p.Capability))
	t.file(path.Join(dir, "rate"), "%s", rateText(p))
	link := "Ethernet"
	if p.Link == ci.LinkInfiniBand {
		link = "InfiniBand"
	}
	t.file(path.Join(dir, "link_layer"), "%s", link)
	for i, k := range p.PKeys {
		t.file(path.Join(dir, "pkeys", fmt.Sprint(i)), "0x%04x", uint16(k))
	}
	n := len(p.GIDs)
	for n > 1 && p.GIDs[n-1].GID == (ci.GID{}) {
		n--
	}
	seen := map[string]bool{}
	for i, g := range p.GIDs[:n] {
		index := fmt.Sprint(i)
		t.file(path.Join(dir, "gids", index), "%s", gidText(g.GID))
		typ := "IB/RoCE v1"
		if g.Type == ci.GIDRoCEv2 {
			typ = "RoCE v2"
		}
		t.file(path.Join(dir, "gid_attrs", "types", index), "%s", typ)
		if g.Interface == "" {
			continue
		}
		t.file(path.Join(dir, "gid_attrs", "ndevs", index), "%s", g.Interface)
		if !seen[g.Interface] {
			seen[g.Interface] = true
			*t = append(*t, devices.Link(path.Join(net, g.Interface), path.Join(classesDir, "net", g.Interface)))
		}
	}
}

// The rates of a lane in units of 0.5 Gb/s, and their names, by the numbers of the ABI.
var laneRates = map[uint8]struct {
	half int
	name string
}{1: {5, "SDR"}, 2: {10, "DDR"}, 4: {20, "QDR"}, 8: {20, "FDR10"}, 16: {28, "FDR"}, 32: {50, "EDR"}}

// rateText returns the rate of a port: "2.5 Gb/sec (1X SDR)".
func rateText(p *ci.PortAttr) string {
	lanes := 1
	switch p.WidthActive {
	case 2, 4, 8:
		lanes = [...]int{4, 8, 12}[bits.TrailingZeros8(p.WidthActive)-1]
	}
	speed := p.SpeedActive
	switch p.SpeedExt {
	case 1:
		speed = 16
	case 2:
		speed = 32
	}
	r, ok := laneRates[speed]
	if !ok {
		r = laneRates[1]
	}
	total := r.half * lanes
	text := fmt.Sprint(total / 2)
	if total%2 != 0 {
		text += ".5"
	}
	return fmt.Sprintf("%s Gb/sec (%dX %s)", text, lanes, r.name)
}

// guidText returns a GUID as sysfs has it: four groups of 16 bits.
func guidText(g ci.GUID) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// gidText returns a GID as sysfs has it: eight groups of 16 bits.
func gidText(g ci.GID) string {
	text := ""
	for i := 0; i < len(g); i += 2 {
		text += fmt.Sprintf(":%04x", binary.BigEndian.Uint16(g[i:]))
	}
	return text[1:]
}
