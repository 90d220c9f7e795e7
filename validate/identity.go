package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ciddk/ci"
)

// Identity describes the adapter under test. It is read before the first case.
type Identity struct {
	Driver     string     `json:"driver"`
	Version    string     `json:"version,omitempty"`
	Link       string     `json:"link,omitempty"`
	GUID       string     `json:"guid"`
	VendorID   uint32     `json:"vendor_id"`
	DeviceID   uint16     `json:"device_id"`
	Revision   uint16     `json:"revision"`
	Firmware   uint64     `json:"firmware"`
	Library    string     `json:"library,omitempty"`
	Interface  string     `json:"interface"` // version of package ci the driver was built with
	HCAs       int        `json:"hcas"`
	Ports      int        `json:"ports"`
	PortLink   string     `json:"port_link,omitempty"`
	Claims     []string   `json:"claims"`
	Impair     bool       `json:"impair"`
	Live       bool       `json:"live"`
	Capture    bool       `json:"capture"`
	Wire       bool       `json:"wire"`
	Services   bool       `json:"services,omitempty"`
	Withheld   []string   `json:"withheld,omitempty"`    // by a layer in front of the driver
	QueryError string     `json:"query_error,omitempty"` // why the claims could not be read; Claims is then empty
	attr       *ci.CAAttr // never nil
}

// identify opens and queries the first HCA. If that fails, the identity has no claims: cases that need none are run,
// the others fail (SAS-2.2-02).
func identify(_ context.Context, d Driver, link string, t *Target) *Identity {
	info := t.HCAs[0].Info()
	id := &Identity{
		Driver: d.Name, Version: t.Version, Link: link, GUID: fmt.Sprintf("%016x", uint64(info.GUID)),
		VendorID: info.VendorID, DeviceID: info.DeviceID, Revision: info.Revision, Library: info.Library,
		Interface: fmt.Sprintf("%d.%d", info.Version>>16, info.Version&0xffff), HCAs: len(t.HCAs),
		Impair: t.Impair != nil, Live: t.Live != nil, Capture: t.Capture != nil, Wire: t.Wire != nil,
		Services: t.Services, Withheld: CapList(t.Withheld), Claims: []string{}, attr: &ci.CAAttr{},
	}
	ca, err := t.HCAs[0].OpenCA(info.GUID, func(ci.Event) {}, nil)
	if err != nil {
		id.QueryError = fmt.Sprintf("OpenCA: %v", err)
		return id
	}
	attr, err := ca.Query()
	switch {
	case err != nil:
		id.QueryError = fmt.Sprintf("CA.Query: %v", err)
	case attr == nil:
		id.QueryError = "CA.Query returned neither attributes nor an error"
	default:
		id.attr, id.Firmware = attr, attr.Firmware
		id.Ports, id.Claims = len(attr.Ports), CapList(attr.Caps)
		if len(attr.Ports) > 0 {
			id.PortLink = LinkName(attr.Ports[0].Link)
		}
	}
	if err := ca.Destroy(); err != nil && id.QueryError == "" {
		id.QueryError = fmt.Sprintf("CA.Destroy: %v", err)
	}
	return id
}

// adapters names the adapters of the kit by vendor and device ID.
var adapters = map[[2]uint32]string{
	{0xffffff, 0xdd01}: "the kit's software adapter",
	{0xffffff, 1}:      "software device of the driver template",
	{0x0002c9, 0x1003}: "Mellanox ConnectX-3",
	{0x0002c9, 0x1007}: "Mellanox ConnectX-3 Pro",
}

// Adapter returns the adapter's name, if it is known, and its IDs of vendor and device.
func (id *Identity) Adapter() string {
	ids := fmt.Sprintf("vendor %06x, device %04x", id.VendorID, id.DeviceID)
	if name := adapters[[2]uint32{id.VendorID, uint32(id.DeviceID)}]; name != "" {
		return name + " (" + ids + ")"
	}
	if id.VendorID == 0xffffff { // as Linux names software devices, which have no OUI
		return "a software adapter (" + ids + ")"
	}
	return ids
}

// String describes the driver, its adapters and its claims in a line.
func (id *Identity) String() string {
	s := strings.TrimSpace(id.Driver+" "+id.Version) + ", " + id.Adapter() + ", GUID " + id.GUID
	if id.Link != "" {
		s += ", link " + id.Link
	}
	claims := strings.Join(id.Claims, " ")
	if claims == "" {
		claims = "nothing optional"
	}
	if len(id.Withheld) > 0 {
		claims += "; not offered by the layer: " + strings.Join(id.Withheld, " ")
	}
	return fmt.Sprintf("%s: %s, %s, claims %s", s, plural(id.HCAs, "adapter"), plural(id.Ports, "port"), claims)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// caps returns the claims as bits, from their names: an identity that came from a worker has no attributes.
func (id *Identity) caps() ci.Caps {
	var out ci.Caps
	for _, name := range id.Claims {
		i := slices.Index(capNames[:], name)
		if i < 0 {
			if _, err := fmt.Sscanf(name, unnamedCap, &i); err != nil || i < 0 || i > 63 {
				continue
			}
		}
		out |= 1 << i
	}
	return out
}
