package cisuite

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// queryCases are the cases of CA.Query. (SAS 2.3, IBTA 11.2.1.2.)
var queryCases = &validate.Area{Feature: validate.FeatureCore}

var ciQueryCA06 = queryCases.Must("CI-QueryCA-06", "IBTA 11.2.1", "ci_query_ca (5)",
	"A port has no MTUs by service level, or up to 16 valid codes that are at most its MTU. Connections and "+
		"datagrams with that of their service level work, and with a larger one fail.")

var _ = queryCases.Of(validate.FeatureRC).Add("query.mtus", "MTUs by service level", queryMTUs, ciQueryCA06)

var _ = queryCases.Of(validate.FeatureUD).Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV}).Add(
	"query.mtus-datagram", "a datagram of the MTU of its service level, and a longer one", queryMTUDatagram,
	ciQueryCA06)

var _ = queryCases.Add("query.limits", "limits are set and consistent", func(t *validate.T) {
	a := kit.Open(t).Attr
	// An optional object has a limit above 0 exactly if it is claimed.
	for _, x := range kit.Variants(t, "", []struct {
		name  string
		bits  ci.Caps
		limit int
	}{
		{"MaxAVs", ci.CapAV, a.MaxAVs}, {"MaxSRQs", ci.CapSRQ, a.MaxSRQs}, {"MaxSRQWRs", ci.CapSRQ, a.MaxSRQWRs},
		{"MaxSRQSGEs", ci.CapSRQ, a.MaxSRQSGEs}, {"MaxFMRs", ci.CapFMR, a.MaxFMRs},
		{"MaxMapsPerFMR", ci.CapFMR, a.MaxMapsPerFMR},
		{"MaxFastRegPages", ci.CapFastReg, a.MaxFastRegPages}, {"MaxRDDs", ci.CapRD, a.MaxRDDs},
		{"MaxEECs", ci.CapRD, a.MaxEECs},
		{"MaxMcastGroups", ci.CapMulticast, a.MaxMcastGroups}, {"MaxMcastQPs", ci.CapMulticast, a.MaxMcastQPs},
		{"MaxQPsPerMcastGroup", ci.CapMulticast, a.MaxQPsPerMcastGroup},
		{"MaxRawIPv6QPs", ci.CapRawIPv6, a.MaxRawIPv6QPs},
		{"MaxRawEtherQPs", ci.CapRawEther, a.MaxRawEtherQPs},
	}) {
		claimed := a.Caps.Has(x.bits)
		kit.True(t, claimed == (x.limit > 0), "CAAttr."+x.name,
			"above 0 exactly if "+validate.CapNames(x.bits)+" is claimed",
			"%d, claimed: %v", x.limit, claimed)
	}
	windows := a.Caps&(ci.CapMW1|ci.CapMW2) != 0
	kit.True(t, windows == (a.MaxMWs > 0), "CAAttr.MaxMWs", "above 0 exactly if MW1 or MW2 is claimed",
		"%d, claimed: %v", a.MaxMWs, windows)
	for _, bit := range kit.Variants(t, "capability", []ci.Caps{ci.CapUD, ci.CapRD, ci.CapSpecialQP}) {
		kit.True(t, !a.Caps.Has(bit) || a.Caps.Has(ci.CapAV), "CAAttr.Caps",
			"AV claimed together with "+validate.CapNames(bit), "not claimed")
	}
}, req.SAS2_3_03, ciQueryCA01)

var ciQueryCA01 = queryCases.Must("CI-QueryCA-01", "IBTA 11.2.1", "ci_query_ca (5)",
	"The limits in the attributes permit at least one connection and are consistent.")

var _ = queryCases.Add("query.limits-connection", "limits permit a connection", func(t *validate.T) {
	a := kit.Open(t).Attr
	for _, x := range kit.Variants(t, "", []struct {
		name     string
		got, min int
	}{
		{"MaxPDs", a.MaxPDs, 1}, {"MaxCQs", a.MaxCQs, 1}, {"MaxCQEs", a.MaxCQEs, 1}, {"MaxQPs", a.MaxQPs, 2},
		{"MaxWRs", a.MaxWRs, 1},
		{"MaxSGEs", a.MaxSGEs, 1}, {"MaxReadSGEs", a.MaxReadSGEs, 1}, {"MaxMRs", a.MaxMRs, 1},
		{"MaxPartitions", a.MaxPartitions, 1},
		{"MaxRespRes", a.MaxRespRes, a.MaxRespResPerQP}, {"MaxRespResPerQP", a.MaxRespResPerQP, 1},
		{"MaxInitDepthPerQP", a.MaxInitDepthPerQP, 1}, {"Vectors", a.Vectors, 1}, {"ports", len(a.Ports), 1},
		{"MaxInline", a.MaxInline, 0},
	}) {
		kit.AtLeast(t, "CAAttr."+x.name, x.got, x.min)
	}
	kit.True(t, a.MaxReadSGEs <= a.MaxSGEs, "CAAttr.MaxReadSGEs", "at most MaxSGEs", "%d, MaxSGEs %d", a.MaxReadSGEs,
		a.MaxSGEs)
	kit.AtLeast(t, "CAAttr.MaxMRSize", a.MaxMRSize, 4096)
	kit.True(t, a.AckDelay < 32, "CAAttr.AckDelay", "a 5-bit exponent, below 32", "%d", a.AckDelay)
}, ciQueryCA01)

var _ = queryCases.Add("query.ports", "port attributes", func(t *validate.T) {
	a := kit.Open(t).Attr
	for i, p := range a.Ports {
		where := func(f string) string { return "CAAttr.Ports[" + string(rune('0'+i)) + "]." + f }
		kit.Equal(t, where("Num"), p.Num, uint8(i+1))
		kit.True(t, p.State >= ci.PortDown && p.State <= ci.PortActiveDefer, where("State"),
			"a state of PortInfo, 1 to 5", "%d", p.State)
		kit.True(t, p.MTU.Bytes() > 0 && p.MTU <= p.MaxMTU, where("MTU"), "a valid MTU code that is at most MaxMTU",
			"%d, MaxMTU %d", p.MTU, p.MaxMTU)
		kit.True(t, p.MaxMTU.Bytes() > 0, where("MaxMTU"), "an MTU code, 1 to 5", "%d", p.MaxMTU)
		kit.True(t, p.MaxMsgSize >= uint64(p.MTU.Bytes()) && p.MaxMsgSize <= 1<<31, where("MaxMsgSize"),
			"from the MTU to 2^31", "%d", p.MaxMsgSize)
		kit.True(t, len(p.GIDs) > 0 && p.GIDs[0].GID != ci.GID{}, where("GIDs"), "a GID in entry 0", "%d entries: %v",
			len(p.GIDs), p.GIDs)
		isValid := func(k ci.PKey) bool { return k&0x7fff != 0 } // IBTA 10.9.1.2; any entry may be empty
		kit.True(t, slices.ContainsFunc(p.PKeys, isValid), where("PKeys"), "a valid P_Key", "%04x", p.PKeys)
		kit.True(t, p.Link <= ci.LinkEthernet, where("Link"), "a known link layer", "%d", p.Link)
		if p.Link == ci.LinkInfiniBand && p.State == ci.PortActive {
			kit.True(t, p.LID >= 1 && p.LID <= 0xbfff, where("LID"), "a unicast LID, 1 to 0xbfff, on an active port",
				"%#x", p.LID)
			guid := ci.GUID(0)
			for _, b := range p.GIDs[0].GID[8:] {
				guid = guid<<8 | ci.GUID(b)
			}
			kit.Equal(t, where("GIDs[0], lower half"), guid, p.GUID)
		}
	}
}, queryCases.Must("CI-QueryCA-02", "IBTA 11.2.1", "ci_query_ca (5)",
	"Ports are numbered 1 to n in order. Each has an MTU that its hardware permits, a GID and, on InfiniBand, "+
		"the default partition."))

var _ = queryCases.Add("query.page-sizes", "page sizes", func(t *validate.T) {
	a := kit.Open(t).Attr
	has4k := false
	for i, s := range a.PageSizes {
		kit.True(t, s != 0 && s&(s-1) == 0, "CAAttr.PageSizes", "powers of two", "%d", a.PageSizes)
		kit.True(t, i == 0 || s > a.PageSizes[i-1], "CAAttr.PageSizes", "ascending", "%d", a.PageSizes)
		has4k = has4k || s == 4096
	}
	kit.True(t, has4k, "CAAttr.PageSizes", "a list that includes 4096", "%d", a.PageSizes)
}, queryCases.Must("CI-QueryCA-04", "IBTA 11.2.1", "ci_query_ca (5)",
	"Page sizes are powers of two in ascending order and include 4096."))

var _ = queryCases.Add("query.snapshot", "the snapshot belongs to the caller", func(t *validate.T) {
	ca := kit.Open(t)
	// Counters may change between two queries.
	words := func(a *ci.CAAttr) string {
		b := *a
		b.Ports = slices.Clone(a.Ports)
		for i := range b.Ports {
			b.Ports[i].PKeyErrors, b.Ports[i].QKeyErrors = 0, 0
		}
		return fmt.Sprintf("%+v", b)
	}
	first, err := ca.Query()
	kit.OK(t, err, "CA.Query")
	before := words(first) // formatted, since a driver may return the same structure each time
	for i := range first.Ports {
		clear(first.Ports[i].GIDs)
		clear(first.Ports[i].PKeys)
		first.Ports[i] = ci.PortAttr{}
	}
	clear(first.PageSizes)
	again, err := ca.Query()
	kit.OK(t, err, "CA.Query")
	kit.Equal(t, "CA.Query after its result was overwritten", words(again), before)
}, queryCases.Must("CI-QueryCA-03", "IBTA 11.2.1", "ci_query_ca (5)",
	"Query returns a snapshot that belongs to the caller: changes to it do not affect the next Query."))
