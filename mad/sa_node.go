package mad

import "bytes"

// NodeRecordLen is the length of a NodeRecord, and NodeDescriptionLen that of a node description, in bytes.
const (
	NodeDescriptionLen = 64
	NodeRecordLen      = 4 + NodeInfoLen + NodeDescriptionLen
)

// Components of a NodeRecord (15.2.5.2, table 190).
const (
	NodeRecordLID         ComponentMask = 1 << 0
	NodeRecordType        ComponentMask = 1 << 4
	NodeRecordNumPorts    ComponentMask = 1 << 5
	NodeRecordSystemGUID  ComponentMask = 1 << 6
	NodeRecordNodeGUID    ComponentMask = 1 << 7
	NodeRecordPortGUID    ComponentMask = 1 << 8
	NodeRecordDeviceID    ComponentMask = 1 << 10
	NodeRecordLocalPort   ComponentMask = 1 << 12
	NodeRecordVendorID    ComponentMask = 1 << 13
	NodeRecordDescription ComponentMask = 1 << 14
)

// NodeRecord is the NodeInfo and the NodeDescription of a node (15.2.5.2).
type NodeRecord struct {
	LID         uint16                   // bytes 0-1
	Reserved2   uint16                   // bytes 2-3
	NodeInfo    NodeInfo                 // bytes 4-43
	Description [NodeDescriptionLen]byte // bytes 44-107: UTF-8, padded with zeros
}

// DescriptionString returns the description up to the first zero byte.
func (n *NodeRecord) DescriptionString() string {
	d, _, _ := bytes.Cut(n.Description[:], []byte{0})
	return string(d)
}

// Put writes the record to b[:NodeRecordLen]. It panics if b is shorter.
func (n *NodeRecord) Put(b []byte) {
	_ = b[NodeRecordLen-1]
	be.PutUint16(b, n.LID)
	be.PutUint16(b[2:], n.Reserved2)
	n.NodeInfo.Put(b[4:])
	copy(b[44:NodeRecordLen], n.Description[:])
}

// Parse reads the record from b[:NodeRecordLen]. It panics if b is shorter.
func (n *NodeRecord) Parse(b []byte) {
	_ = b[NodeRecordLen-1]
	n.LID, n.Reserved2 = be.Uint16(b), be.Uint16(b[2:])
	n.NodeInfo.Parse(b[4:])
	n.Description = [NodeDescriptionLen]byte(b[44:NodeRecordLen])
}
