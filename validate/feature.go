package validate

import (
	"slices"

	"ciddk/ci"
)

// A Feature is a part of the interface that a driver implements or not. It is a row of the matrix, and profiles are
// sets of features.
type Feature string

// The features. Every driver has those up to FeatureClaims; the others depend on capabilities.
const (
	FeatureCore      Feature = "core"      // HCA, CA, queries, PD, order of destruction
	FeatureCQ        Feature = "cq"        // completion queues: create, poll, notify
	FeatureQP        Feature = "qp"        // QP objects and their state machine
	FeatureMR        Feature = "mr"        // regions over virtual addresses, keys, rights
	FeatureRC        Feature = "rc"        // RC data path
	FeatureEvents    Feature = "events"    // asynchronous events
	FeatureTeardown  Feature = "teardown"  // concurrency, destruction under load
	FeatureClaims    Feature = "claims"    // capability bits against behavior
	FeatureUC        Feature = "uc"        //
	FeatureUD        Feature = "ud"        // UD data path and address vectors
	FeatureAtomic    Feature = "atomic"    //
	FeatureSRQ       Feature = "srq"       //
	FeatureMW        Feature = "mw"        // memory windows of both types
	FeatureMROpt     Feature = "mr-opt"    // physical, shared, modified, fast registered and FMR regions
	FeatureMulticast Feature = "multicast" //
	FeatureSpecial   Feature = "special"   // QP0, QP1
	FeatureAPM       Feature = "apm"       //
	FeatureCQOpt     Feature = "cq-opt"    // resize, moderation, peek, notify after n
	FeatureMAD       Feature = "mad"       // local MADs, the management agent's attributes
	FeatureSMA       Feature = "sma"       // the protocol of subnet management at an InfiniBand port
	FeatureRD        Feature = "rd"        //
	FeatureUser      Feature = "user"      // user mode
	FeatureAL        Feature = "al"        // the access layer above the driver
	FeatureCM        Feature = "cm"        // management datagrams and connections, over the access layer
	FeatureWire      Feature = "wire"      // packets seen from outside
)

var features = []Feature{
	FeatureCore, FeatureCQ, FeatureQP, FeatureMR, FeatureRC, FeatureEvents, FeatureTeardown, FeatureClaims,
	FeatureUC, FeatureUD, FeatureAtomic, FeatureSRQ, FeatureMW, FeatureMROpt, FeatureMulticast, FeatureSpecial,
	FeatureAPM, FeatureCQOpt, FeatureMAD, FeatureSMA, FeatureRD, FeatureUser, FeatureAL, FeatureCM, FeatureWire,
}

// Features returns all features in the order of reports.
func Features() []Feature { return slices.Clone(features) }

// A Profile is the set of features and capabilities that a certificate covers. Cases of other features are not run. If
// the driver does not claim a capability in Demands, or none in OneOf, the case claims.profile fails.
type Profile struct {
	Name     string
	Title    string
	Features []Feature
	Demands  ci.Caps
	OneOf    ci.Caps      // demanded is at least one of them, if not zero
	Atomics  ci.Atomicity // demanded
	// Exhaustive makes cases with Case.Exhaustive go to the adapter's limits. Such a run takes long.
	Exhaustive bool
}

var minimal = []Feature{
	FeatureCore, FeatureCQ, FeatureQP, FeatureMR, FeatureRC, FeatureEvents, FeatureTeardown, FeatureClaims,
}

var profiles = []Profile{
	{Name: "minimal", Title: "reliable connections: what package ci requires of every driver", Features: minimal},
	{
		Name:  "rc",
		Title: "minimal, with atomics, shared receive queues, windows and optional regions if claimed",
		Features: slices.Concat(minimal, []Feature{
			FeatureAtomic, FeatureSRQ, FeatureMW, FeatureMROpt, FeatureCQOpt, FeatureAPM,
		}),
	},
	{
		Name: "ud", Title: "minimal, with datagrams and multicast",
		Features: slices.Concat(minimal, []Feature{FeatureUD, FeatureMulticast}), Demands: ci.CapUD | ci.CapAV,
	},
	{
		Name:     "cm",
		Title:    "minimal, with the special QPs, management datagrams and connections by the kit's connection manager",
		Features: slices.Concat(minimal, []Feature{FeatureSpecial, FeatureCM}), Demands: ci.CapSpecialQP | ci.CapAV,
	},
	{
		Name:     "sma",
		Title:    "minimal, with the subnet management agent of InfiniBand ports",
		Features: slices.Concat(minimal, []Feature{FeatureMAD, FeatureSMA}),
		OneOf:    ci.CapLocalMAD | ci.CapHardwareSMA,
	},
	{
		Name: "claimed",
		Title: "minimal, with each option of the profiles above that is claimed, and packets if the driver offers an " +
			"end of the link",
		Features: slices.Concat(minimal, []Feature{
			FeatureUC, FeatureUD, FeatureAtomic, FeatureSRQ, FeatureMW, FeatureMROpt, FeatureMulticast, FeatureSpecial,
			FeatureAPM, FeatureCQOpt, FeatureMAD, FeatureSMA, FeatureCM, FeatureWire,
		}),
	},
	{
		Name:     "wire",
		Title:    "packets that the adapter sends and receives; the driver has to offer an end of the link",
		Features: []Feature{FeatureWire},
	},
	{
		Name:     "user",
		Title:    "user mode: processes that use the adapter through a daemon, with and without a user library",
		Features: []Feature{FeatureUser},
	},
	{
		Name: "full", Title: "everything the SAS calls mandatory, and each option that is claimed",
		Features: features, Demands: mandatory,
	},
	{
		Name:     "exhaustive",
		Title:    "full, with every table filled to its limit and used many times over; a large adapter takes an hour",
		Features: features, Demands: mandatory, Exhaustive: true,
	},
}

// mandatory is what the SAS and the headers treat as mandatory: all services but RD, address vectors, special QPs,
// physical and shared registration, modification of regions, windows, resize of CQs, multicast.
const mandatory = ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapPhysicalMR |
	ci.CapSharedMR | ci.CapModifyMR | ci.CapMW1 | ci.CapResizeCQ

// Profiles returns all profiles, weakest first.
func Profiles() []Profile { return slices.Clone(profiles) }

// FindProfile returns the profile with the name.
func FindProfile(name string) (Profile, bool) {
	for _, p := range profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// Has reports whether cases of the feature belong to the profile.
func (p Profile) Has(f Feature) bool { return slices.Contains(p.Features, f) }
