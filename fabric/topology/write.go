package topology

import (
	"bufio"
	"fmt"
	"io"
)

// Write writes the topology in the net format. ibsim accepts the result, and Read returns an equal topology, except
// that the format has no place for the GUIDs of ports without a link. Errors: those of Validate and of w.
func (t *Topology) Write(w io.Writer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	ports := make([][]line, len(t.Nodes))
	for i := range t.Nodes {
		ports[i] = make([]line, t.Nodes[i].NumPorts+1)
	}
	for i := range t.Links {
		l := &t.Links[i]
		ports[l.A.Node][l.A.Port] = line{l, l.B}
		ports[l.B.Node][l.B.Port] = line{l, l.A}
	}
	b := bufio.NewWriter(w)
	device := uint16(0)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.DeviceID != device { // holds for the nodes that follow, too
			fmt.Fprintf(b, "devid=%#x\n", n.DeviceID)
			device = n.DeviceID
		}
		t.writeNode(b, n, ports[i])
	}
	return b.Flush()
}

// line is a link as one of its ends lists it.
type line struct {
	link *Link
	peer End
}

var guidWords = map[Kind]string{CA: "caguid", Switch: "switchguid", Router: "rtguid"}

// writeNode writes one record. The errors of b are those of its Flush.
func (t *Topology) writeNode(b *bufio.Writer, n *Node, ports []line) {
	if n.VendorID != 0 {
		fmt.Fprintf(b, "vendid=%#x\n", n.VendorID)
	}
	if n.SystemGUID != 0 && n.SystemGUID != n.GUID {
		fmt.Fprintf(b, "sysimgguid=%#x\n", n.SystemGUID)
	}
	fmt.Fprintf(b, "%s=%#x\n%v\t%d \"%s\"\t\t# \"%s\"\n", guidWords[n.Kind], n.GUID, n.Kind, n.NumPorts, n.ID, n.Text())
	for p, l := range ports {
		if l.link == nil {
			continue
		}
		guid := ""
		if g, ok := n.PortGUIDs[p]; ok {
			guid = fmt.Sprintf("(%x)", g)
		}
		width, speed := l.link.Rate()
		base, extended := speed.Supported()
		fmt.Fprintf(b, "[%d]%s\t\"%s\"[%d]\tw=%d s=%d", p, guid, t.Nodes[l.peer.Node].ID, l.peer.Port,
			width.Supported(), base)
		if extended != 0 {
			fmt.Fprintf(b, " e=%d", extended)
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b)
}
