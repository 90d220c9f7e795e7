package main

import (
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/link/direct"
	"ciddk/validate"
)

// odd returns the setting odd: whether the HCAs have values that few cases would meet otherwise. A case that passes
// only with default values has assumed them.
func odd(o validate.Options) (bool, error) {
	switch v := o.Values["odd"]; v {
	case "", "0", "1":
		return v == "1", nil
	default:
		return false, fmt.Errorf("--set odd=%s: want 0 or 1", v)
	}
}

// fewClaims are the capabilities of an HCA with the setting claims=few. None has a verb, so that every verb of an
// optional capability must be rejected.
const fewClaims = ci.CapSystemGUID | ci.CapPKeyCounter | ci.CapQKeyCounter

// claims returns the setting claims: what the HCAs claim at most, 0 for everything.
func claims(o validate.Options) (ci.Caps, error) {
	switch v := o.Values["claims"]; v {
	case "", "all":
		return 0, nil
	case "few":
		return fewClaims, nil
	default:
		return 0, fmt.Errorf("--set claims=%s: want all or few", v)
	}
}

// oddGUID returns the GUID of HCA i. Its eight bytes differ from each other.
func oddGUID(i int) ci.GUID { return 0x12a3b4c5d6e7f809 + ci.GUID(i)*0x10 }

// oddSystemGUID returns the system image GUID of HCA i, which is not its GUID.
func oddSystemGUID(i int) ci.GUID { return oddGUID(i) + 0x0300000000000000 }

// oddLimits has limits that are small, and neither round nor the same for two kinds of object.
var oddLimits = ci.CAAttr{
	MaxPDs: 43, MaxAVs: 59, MaxQPs: 157, MaxCQs: 131, MaxSRQs: 29, MaxMRs: 181, MaxMWs: 67, MaxFMRs: 23,
	MaxWRs: 301, MaxSGEs: 7, MaxReadSGEs: 5, MaxInline: 97, MaxCQEs: 1201, MaxSRQWRs: 211, MaxSRQSGEs: 3,
	MaxMapsPerFMR: 3, MaxFastRegPages: 37, MaxMcastGroups: 11, MaxMcastQPs: 19, MaxQPsPerMcastGroup: 13,
	MaxRespResPerQP: 5, MaxInitDepthPerQP: 3, MaxRespRes: 101, Vectors: 3,
}

// oddPorts returns both ports of HCA i on the link direct. The first has several LIDs, P_Keys and GIDs, with empty
// entries between them. The second has another LID, MTU and P_Key.
func oddPorts(c direct.Config, i int) (first, second direct.Config) {
	first, second = c, c
	first.LID, first.LMC = ci.LID(0x234+16*i), 2
	first.PKeys = []ci.PKey{0x9234, 0, 0xffff, 0, 0x8005}
	first.Aliases = []ci.GUID{0, oddGUID(i) + 0x0100000000000000, 0}
	second.LID, second.MTU, second.PKeys = ci.LID(0x4561+i), ci.MTU2048, []ci.PKey{0, 0xffff}
	return first, second
}

// oddAddrs returns the addresses of entries 1, 2 and 3 of the GID table of HCA i on the link network.
func oddAddrs(v6 bool, i int) []netip.Addr {
	return []netip.Addr{privateAddr(!v6, 4+i), privateAddr(v6, 4+i), privateAddr(!v6, 6+i)}
}
