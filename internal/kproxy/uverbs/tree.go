package uverbs

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"path"
	"strconv"

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
	t.file(path.Join(sysfsVerbs, "abi_version"), "%d", abiVersion)
	t.dir(sysfsIB)
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
	verbs := path.Join(sysfsVerbs, file)
	t.file(path.Join(verbs, "ibdev"), "%s", d.Name)
	t.file(path.Join(verbs, "dev"), "%s", numbers)
	t.file(path.Join(verbs, "abi_version"), "%d", d.provider.ABI)

	ib, a := path.Join(sysfsIB, d.Name), d.attr
	t.file(path.Join(ib, "node_type"), "1: CA")
	t.file(path.Join(ib, "node_guid"), "%s", guidText(a.GUID))
	t.file(path.Join(ib, "sys_image_guid"), "%s", guidText(systemGUID(a.GUID, a.SystemGUID)))
	t.file(path.Join(ib, "node_desc"), "%s", d.Name)
	t.file(path.Join(ib, "fw_ver"), "%s", d.FirmwareText())
	t.file(path.Join(ib, "hw_rev"), "%x", a.Revision)
	t.dir(path.Join(ib, "device", "net"))
	for i := range a.Ports {
		t.port(portDir(ib, i), path.Join(ib, "device", "net"), &a.Ports[i])
	}
	t.addCounters(ib, d)
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
			t.dir(path.Join(net, g.Interface))
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
