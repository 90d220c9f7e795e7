package tap

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// CAs and the functions below replace each object of a kind by one that embeds a wrapper of it.
func CAs(f func(ciwrap.CA) ci.CA) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return f(ciwrap.CA{CA: c}) }})
}

// PDs replaces protection domains.
func PDs(f func(ciwrap.PD) ci.PD) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return f(ciwrap.PD{PD: p}) }})
}

// AVs replaces address vectors.
func AVs(f func(ciwrap.AV) ci.AV) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{AV: func(a ci.AV, _ ci.AVAttr) ci.AV { return f(ciwrap.AV{AV: a}) }})
}

// CQs replaces completion queues.
func CQs(f func(ciwrap.CQ) ci.CQ) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return f(ciwrap.CQ{CQ: c}) }})
}

// SRQs replaces shared receive queues.
func SRQs(f func(ciwrap.SRQ) ci.SRQ) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ { return f(ciwrap.SRQ{SRQ: s}) }})
}

// QPs replaces queue pairs.
func QPs(f func(ciwrap.QP) ci.QP) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return f(ciwrap.QP{QP: q}) }})
}

// Mcasts replaces attachments of multicast groups.
func Mcasts(f func(ciwrap.Mcast) ci.Mcast) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{Mcast: func(m ci.Mcast, _ ci.McastAttach) ci.Mcast { return f(ciwrap.Mcast{Mcast: m}) }})
}

// MRs replaces memory regions.
func MRs(f func(ciwrap.MR) ci.MR) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return f(ciwrap.MR{MR: m}) }})
}

// FMRs replaces fast memory regions.
func FMRs(f func(ciwrap.FMR) ci.FMR) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{FMR: func(r ci.FMR, _ ci.FMRCreate) ci.FMR { return f(ciwrap.FMR{FMR: r}) }})
}

// MWs replaces memory windows.
func MWs(f func(ciwrap.MW) ci.MW) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{MW: func(w ci.MW, _ ci.MWCreate) ci.MW { return f(ciwrap.MW{MW: w}) }})
}

// DMAs replaces mappings for DMA.
func DMAs(f func(ciwrap.DMA) ci.DMA) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{DMA: func(d ci.DMA, _ ci.Memory) ci.DMA { return f(ciwrap.DMA{DMA: d}) }})
}
