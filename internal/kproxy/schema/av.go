package schema

import "ciddk/ci"

// AV is a request that names an AV.
type AV struct {
	AV Handle `handle:"av"`
}

// AVAttr is ci.AVAttr.
type AVAttr struct {
	DGID         ci.GID
	FlowLabel    uint32
	DLID         ci.LID
	SGIDIndex    uint16
	DMAC         [6]uint8
	Port         uint8
	SL           ci.SL
	PathBits     uint8
	StaticRate   ci.Rate
	HopLimit     uint8
	TrafficClass uint8
	Global       bool
	Pad          [3]uint8
}

// NewAVAttr returns the encoded form of an address. The private data is not part of it.
func NewAVAttr(a *ci.AVAttr) AVAttr {
	return AVAttr{DGID: a.GRH.DGID, FlowLabel: a.GRH.FlowLabel, DLID: a.DLID, SGIDIndex: a.GRH.SGIDIndex, DMAC: a.DMAC,
		Port: a.Port, SL: a.SL, PathBits: a.PathBits, StaticRate: a.StaticRate, HopLimit: a.GRH.HopLimit,
		TrafficClass: a.GRH.TrafficClass, Global: a.Global}
}

// CI returns the address.
func (a *AVAttr) CI() ci.AVAttr {
	return ci.AVAttr{Port: a.Port, SL: a.SL, PathBits: a.PathBits, StaticRate: a.StaticRate, DLID: a.DLID, DMAC: a.DMAC,
		Global: a.Global, GRH: ci.GRH{DGID: a.DGID, SGIDIndex: a.SGIDIndex, FlowLabel: a.FlowLabel,
			HopLimit:     a.HopLimit,
			TrafficClass: a.TrafficClass}}
}

// CreateAV creates an address vector.
type CreateAV struct {
	PD   Handle `handle:"pd"`
	Attr AVAttr
	User UserBuffer
}

// QueryAVReply contains the attributes that were set.
type QueryAVReply struct {
	Attr AVAttr
}

// ModifyAV replaces an address vector.
type ModifyAV struct {
	AV   Handle `handle:"av"`
	Attr AVAttr
	User UserBuffer
}
