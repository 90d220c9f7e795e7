package sma

import "ciddk/mad"

// firstVendorAttribute is the first attribute that vendors define (IBTA volume 1, 14.2.5).
const firstVendorAttribute = 0xff00

// hasMethod reports whether a node of a type may have an attribute, with the method Get or Set (14.2.5, table 121).
func hasMethod(nodeType uint8, attr uint16, set bool) bool {
	switch attr {
	case mad.AttrNodeDescription, mad.AttrNodeInfo:
		return !set
	case mad.AttrSwitchInfo, mad.AttrLinearTable, mad.AttrRandomTable, mad.AttrMulticastTable:
		return nodeType == mad.NodeSwitch
	case mad.AttrNotice, mad.AttrGUIDInfo, mad.AttrPortInfo, mad.AttrPKeyTable, mad.AttrSLtoVL,
		mad.AttrVLArbitration, mad.AttrLEDInfo:
		return true
	case mad.AttrVendorDiag:
		return !set
	}
	return attr >= firstVendorAttribute
}
