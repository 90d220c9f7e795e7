package mad

import "fmt"

var classNames = map[Class]string{
	ClassSubnetLID: "SubnLID", ClassSubnetDirected: "SubnDR", ClassSubnetAdmin: "SubnAdm", ClassPerformance: "Perf",
	ClassBoard:  "BM",
	ClassDevice: "DevMgt", ClassCM: "ComMgt", ClassSNMP: "SNMP", ClassDeviceAdmin: "DevAdm", ClassBoot: "Boot",
	ClassBIS:        "BIS",
	ClassCongestion: "CongMgt",
}

// String returns the prefix that IBTA gives to the methods of the class, or the number of a vendor class.
func (c Class) String() string {
	if n, ok := classNames[c]; ok {
		return n
	}
	if c.Vendor1() || c.Vendor2() {
		return fmt.Sprintf("Vendor(%#02x)", uint8(c))
	}
	return fmt.Sprintf("Class(%#02x)", uint8(c))
}

// Vendor1 reports whether the class is in vendor range 1.
func (c Class) Vendor1() bool { return c >= ClassVendor1First && c <= ClassVendor1Last }

// Vendor2 reports whether the class is in vendor range 2, whose datagrams carry the vendor's OUI.
func (c Class) Vendor2() bool { return c >= ClassVendor2First && c <= ClassVendor2Last }

var methodNames = map[Method]string{
	Get: "Get", Set: "Set", Send: "Send", Trap: "Trap", Report: "Report", TrapRepress: "TrapRepress",
	GetResp:    "GetResp",
	ReportResp: "ReportResp", GetTable: "GetTable", GetTraceTable: "GetTraceTable", GetMulti: "GetMulti",
	Delete:       "Delete",
	GetTableResp: "GetTableResp", GetTraceTableResp: "GetTraceTableResp", GetMultiResp: "GetMultiResp",
	DeleteResp: "DeleteResp",
}

func (m Method) String() string {
	if n, ok := methodNames[m]; ok {
		return n
	}
	return fmt.Sprintf("Method(%#02x)", uint8(m))
}

var subnetAttributes = map[uint16]string{
	AttrNotice: "Notice", AttrNodeDescription: "NodeDescription", AttrNodeInfo: "NodeInfo",
	AttrSwitchInfo: "SwitchInfo",
	AttrGUIDInfo:   "GUIDInfo", AttrPortInfo: "PortInfo", AttrPKeyTable: "P_KeyTable", AttrSLtoVL: "SLtoVLMappingTable",
	AttrLinearTable: "LinearForwardingTable", AttrRandomTable: "RandomForwardingTable",
	AttrMulticastTable: "MulticastForwardingTable",
	AttrVLArbitration:  "VLArbitrationTable", AttrSMInfo: "SMInfo", AttrVendorDiag: "VendorDiag",
	AttrLEDInfo: "LedInfo",
}

var attributeNames = map[Class]map[uint16]string{
	ClassSubnetLID:      subnetAttributes,
	ClassSubnetDirected: subnetAttributes,
	ClassSubnetAdmin: {
		AttrClassPortInfo: "ClassPortInfo", AttrNotice: "Notice", AttrInformInfo: "InformInfo",
		AttrNodeRecord:     "NodeRecord",
		AttrPortInfoRecord: "PortInfoRecord", AttrSMInfoRecord: "SMInfoRecord", AttrLinkRecord: "LinkRecord",
		AttrServiceRecord: "ServiceRecord", AttrPKeyTableRecord: "P_KeyTableRecord", AttrPathRecord: "PathRecord",
		AttrMCMemberRecord: "MCMemberRecord", AttrMultiPathRecord: "MultiPathRecord",
		AttrInformInfoRecord: "InformInfoRecord", AttrSLtoVLRecord: "SLtoVLMappingTableRecord",
		AttrSwitchInfoRecord: "SwitchInfoRecord", AttrVLArbRecord: "VLArbitrationTableRecord",
	},
	ClassPerformance: {
		AttrClassPortInfo: "ClassPortInfo", AttrPortSamplesControl: "PortSamplesControl",
		AttrPortSamplesResult: "PortSamplesResult",
		AttrPortCounters:      "PortCounters", AttrPortCountersExtended: "PortCountersExtended",
	},
	ClassCM: {
		AttrClassPortInfo: "ClassPortInfo", AttrREQ: "REQ", AttrMRA: "MRA", AttrREJ: "REJ",
		AttrREP: "REP", AttrRTU: "RTU",
		AttrDREQ: "DREQ", AttrDREP: "DREP", AttrSIDRREQ: "SIDR_REQ", AttrSIDRREP: "SIDR_REP",
		AttrLAP: "LAP", AttrAPR: "APR",
	},
}

// AttributeName returns the name of an attribute ID of a class.
func AttributeName(c Class, attr uint16) string {
	if n, ok := attributeNames[c][attr]; ok {
		return n
	}
	return fmt.Sprintf("%v attribute %#04x", c, attr)
}
