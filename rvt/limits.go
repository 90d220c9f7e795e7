package rvt

import "ciddk/ci"

// defaultVectors is the number of completion vectors of an HCA whose configuration has none.
const defaultVectors = 8

// maxVectors is the most completion vectors of an HCA: ci.Affinity.Vector has 16 bits.
const maxVectors = 1<<16 - 1

// limits returns the attributes of cfg with defaults in the place of zeros.
func limits(cfg Config) ci.CAAttr {
	a := cfg.Attr
	a.GUID = cfg.Info.GUID
	a.VendorID, a.DeviceID, a.Revision = cfg.Info.VendorID, cfg.Info.DeviceID, cfg.Info.Revision
	a.Ports = nil
	if a.Caps.Has(ci.CapSystemGUID) && a.SystemGUID == 0 {
		a.SystemGUID = a.GUID
	}
	def := func(v *int, d int, bit ci.Caps) {
		if !a.Caps.Has(bit) {
			*v = 0
		} else if *v == 0 {
			*v = d
		}
	}
	def(&a.MaxPDs, 1<<15, 0)
	def(&a.MaxAVs, 1<<16, ci.CapAV)
	def(&a.MaxQPs, 1<<17, 0)
	def(&a.MaxWRs, 1<<15-1, 0)
	def(&a.MaxSGEs, 32, 0)
	def(&a.MaxReadSGEs, 32, 0)
	def(&a.MaxInline, 512, 0)
	def(&a.MaxCQs, 1<<17, 0)
	def(&a.MaxCQEs, 1<<20-1, 0)
	def(&a.MaxSRQs, 1<<14, ci.CapSRQ)
	def(&a.MaxSRQWRs, 1<<16-1, ci.CapSRQ)
	def(&a.MaxSRQSGEs, 32, ci.CapSRQ)
	def(&a.MaxMRs, 1<<18, 0)
	if !a.Caps.Has(ci.CapMW1) {
		def(&a.MaxMWs, 1<<18, ci.CapMW2)
	} else {
		def(&a.MaxMWs, 1<<18, ci.CapMW1)
	}
	def(&a.MaxFMRs, 1<<14, ci.CapFMR)
	def(&a.MaxMapsPerFMR, 32, ci.CapFMR)
	def(&a.MaxFastRegPages, 512, ci.CapFastReg)
	def(&a.MaxPartitions, 1, 0)
	def(&a.MaxMcastGroups, 1<<12, ci.CapMulticast)
	for _, p := range cfg.Ports {
		if l, ok := ci.As[GroupLimitPort](p); ok {
			a.MaxMcastGroups = min(a.MaxMcastGroups, l.MaxGroups())
		}
	}
	def(&a.MaxMcastQPs, 1<<14, ci.CapMulticast)
	def(&a.MaxQPsPerMcastGroup, 1<<8, ci.CapMulticast)
	def(&a.MaxRespResPerQP, 128, 0)
	def(&a.MaxInitDepthPerQP, 128, 0)
	def(&a.MaxRespRes, a.MaxQPs*a.MaxRespResPerQP, 0)
	def(&a.Vectors, defaultVectors, 0)
	a.Vectors = min(max(a.Vectors, 1), maxVectors)
	if a.MaxMRSize == 0 {
		a.MaxMRSize = 1 << 40
	}
	if len(a.PageSizes) == 0 {
		a.PageSizes = []uint64{4096, 1 << 16, 1 << 21}
	}
	if a.AckDelay == 0 {
		a.AckDelay = 10 // 4.2 ms: what a scheduler may cost a program
	}
	if a.Atomicity == ci.AtomicNone {
		a.Atomicity = ci.AtomicGlobal // executed by the processor's own atomic instructions
	}
	a.MaxRDDs, a.MaxEECs = 0, 0
	a.MaxRawIPv6QPs, a.MaxRawEtherQPs = 0, 0
	return a
}

// maxMessage is the length of the longest message in bytes (IBTA volume 1, 9.7.6).
const maxMessage = 1 << 31
