package mad

import "encoding/binary"

// Types of node.
const (
	NodeCA     uint8 = 1
	NodeSwitch uint8 = 2
	NodeRouter uint8 = 3
)

// NodeInfo says what a node is (14.2.5.3).
//
//	byte 0     base version
//	byte 1     class version
//	byte 2     type: 1 CA, 2 switch, 3 router
//	byte 3     number of ports
//	byte 4:8   system image GUID
//	byte 12:8  node GUID
//	byte 20:8  GUID of the port that answers
//	byte 28:2  entries of the P_Key table, per port
//	byte 30:2  device ID
//	byte 32:4  revision
//	byte 36    number of the port that answers
//	byte 37:3  vendor ID
type NodeInfo struct {
	BaseVersion  uint8
	ClassVersion uint8
	Type         uint8
	NumPorts     uint8
	SystemGUID   uint64
	NodeGUID     uint64
	PortGUID     uint64
	PartitionCap uint16
	DeviceID     uint16
	Revision     uint32
	LocalPort    uint8
	VendorID     uint32 // 24 bits
}

// NodeInfoLen is its length in bytes.
const NodeInfoLen = 40

// Put writes it to b[:NodeInfoLen]; b must be that long.
func (n *NodeInfo) Put(b []byte) {
	_ = b[NodeInfoLen-1]
	b[0], b[1], b[2], b[3] = n.BaseVersion, n.ClassVersion, n.Type, n.NumPorts
	binary.BigEndian.PutUint64(b[4:], n.SystemGUID)
	binary.BigEndian.PutUint64(b[12:], n.NodeGUID)
	binary.BigEndian.PutUint64(b[20:], n.PortGUID)
	binary.BigEndian.PutUint16(b[28:], n.PartitionCap)
	binary.BigEndian.PutUint16(b[30:], n.DeviceID)
	binary.BigEndian.PutUint32(b[32:], n.Revision)
	binary.BigEndian.PutUint32(b[36:], uint32(n.LocalPort)<<24|n.VendorID&0xffffff)
}

// Parse reads it from b[:NodeInfoLen]; b must be that long.
func (n *NodeInfo) Parse(b []byte) {
	_ = b[NodeInfoLen-1]
	*n = NodeInfo{BaseVersion: b[0], ClassVersion: b[1], Type: b[2], NumPorts: b[3], SystemGUID: binary.BigEndian.Uint64(b[4:]),
		NodeGUID: binary.BigEndian.Uint64(b[12:]), PortGUID: binary.BigEndian.Uint64(b[20:]), PartitionCap: binary.BigEndian.Uint16(b[28:]),
		DeviceID: binary.BigEndian.Uint16(b[30:]), Revision: binary.BigEndian.Uint32(b[32:]), LocalPort: b[36],
		VendorID: binary.BigEndian.Uint32(b[36:]) & 0xffffff}
}

// Check returns an *Error around ErrRange for a field that is too wide.
func (n *NodeInfo) Check() error {
	c := checker{layout: "NodeInfo"}
	n.check(&c, "")
	return c.err
}

func (n *NodeInfo) check(c *checker, in string) {
	c.fits(in+"VendorID", uint64(n.VendorID), 24)
}

// GUIDBlock is a block of the GUID table (14.2.5.5); the attribute modifier is the block's number.
type GUIDBlock [8]uint64

// Put writes it to b[:64]; b must be that long.
func (g *GUIDBlock) Put(b []byte) {
	for i, v := range g {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
}

// Parse reads it from b[:64]; b must be that long.
func (g *GUIDBlock) Parse(b []byte) {
	for i := range g {
		g[i] = binary.BigEndian.Uint64(b[8*i:])
	}
}

// PKeyBlock is a block of the P_Key table (14.2.5.7): 15 bits of partition, bit 15 full membership, 0 not in use. The low half of the
// attribute modifier is the block's number, the high half a switch's port.
type PKeyBlock [32]uint16

// Put writes it to b[:64]; b must be that long.
func (k *PKeyBlock) Put(b []byte) {
	for i, v := range k {
		binary.BigEndian.PutUint16(b[2*i:], v)
	}
}

// Parse reads it from b[:64]; b must be that long.
func (k *PKeyBlock) Parse(b []byte) {
	for i := range k {
		k[i] = binary.BigEndian.Uint16(b[2*i:])
	}
}

// GID joins a subnet prefix and a port GUID (4.1.1).
func GID(prefix, guid uint64) (g [16]byte) {
	binary.BigEndian.PutUint64(g[:], prefix)
	binary.BigEndian.PutUint64(g[8:], guid)
	return g
}
