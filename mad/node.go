package mad

import "encoding/binary"

// Node types.
const (
	NodeCA     uint8 = 1
	NodeSwitch uint8 = 2
	NodeRouter uint8 = 3
)

// NodeInfo describes a node (14.2.5.3).
type NodeInfo struct {
	BaseVersion  uint8  // byte 0
	ClassVersion uint8  // byte 1
	Type         uint8  // byte 2: NodeCA, NodeSwitch or NodeRouter
	NumPorts     uint8  // byte 3
	SystemGUID   uint64 // bytes 4-11: system image GUID
	NodeGUID     uint64 // bytes 12-19
	PortGUID     uint64 // bytes 20-27: of the port that answers
	PartitionCap uint16 // bytes 28-29: entries in the P_Key table of each port
	DeviceID     uint16 // bytes 30-31
	Revision     uint32 // bytes 32-35
	LocalPort    uint8  // byte 36: number of the port that answers
	VendorID     uint32 // bytes 37-39
}

// NodeInfoLen is the length of a NodeInfo in bytes.
const NodeInfoLen = 40

// Put writes the attribute to b[:NodeInfoLen]. It panics if b is shorter.
func (n *NodeInfo) Put(b []byte) {
	_ = b[NodeInfoLen-1]
	b[0], b[1] = n.BaseVersion, n.ClassVersion
	b[2], b[3] = n.Type, n.NumPorts
	binary.BigEndian.PutUint64(b[4:], n.SystemGUID)
	binary.BigEndian.PutUint64(b[12:], n.NodeGUID)
	binary.BigEndian.PutUint64(b[20:], n.PortGUID)
	binary.BigEndian.PutUint16(b[28:], n.PartitionCap)
	binary.BigEndian.PutUint16(b[30:], n.DeviceID)
	binary.BigEndian.PutUint32(b[32:], n.Revision)
	binary.BigEndian.PutUint32(b[36:], uint32(n.LocalPort)<<24|n.VendorID&0xffffff)
}

// Parse reads the attribute from b[:NodeInfoLen]. It panics if b is shorter.
func (n *NodeInfo) Parse(b []byte) {
	_ = b[NodeInfoLen-1]
	*n = NodeInfo{BaseVersion: b[0], ClassVersion: b[1], Type: b[2], NumPorts: b[3],
		SystemGUID: binary.BigEndian.Uint64(b[4:]),
		NodeGUID:   binary.BigEndian.Uint64(b[12:]), PortGUID: binary.BigEndian.Uint64(b[20:]),
		PartitionCap: binary.BigEndian.Uint16(b[28:]),
		DeviceID:     binary.BigEndian.Uint16(b[30:]), Revision: binary.BigEndian.Uint32(b[32:]), LocalPort: b[36],
		VendorID: binary.BigEndian.Uint32(b[36:]) & 0xffffff}
}

// GUIDBlock is a block of the GUID table (GUIDInfo, 14.2.5.5). The attribute modifier is the number of the block.
type GUIDBlock [8]uint64

// Put writes the attribute to b[:64]. It panics if b is shorter.
func (g *GUIDBlock) Put(b []byte) {
	for i, v := range g {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
}

// Parse reads the attribute from b[:64]. It panics if b is shorter.
func (g *GUIDBlock) Parse(b []byte) {
	for i := range g {
		g[i] = binary.BigEndian.Uint64(b[8*i:])
	}
}

// PKeyBlock is a block of the P_Key table (14.2.5.7). In an entry, bits 14-0 are the partition and bit 15 is full
// membership; 0 is an unused entry. The low half of the attribute modifier is the number of the block, and the high
// half is the port number of a switch.
type PKeyBlock [32]uint16

// Put writes the attribute to b[:64]. It panics if b is shorter.
func (k *PKeyBlock) Put(b []byte) {
	for i, v := range k {
		binary.BigEndian.PutUint16(b[2*i:], v)
	}
}

// Parse reads the attribute from b[:64]. It panics if b is shorter.
func (k *PKeyBlock) Parse(b []byte) {
	for i := range k {
		k[i] = binary.BigEndian.Uint16(b[2*i:])
	}
}

// GID returns the GID with a subnet prefix and a port GUID (4.1.1).
func GID(prefix, guid uint64) (g [16]byte) {
	binary.BigEndian.PutUint64(g[:], prefix)
	binary.BigEndian.PutUint64(g[8:], guid)
	return g
}
