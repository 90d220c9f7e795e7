package validate

import (
	"slices"

	"ciddk/ci"
)

// Feature is a part of the interface that a driver has or lacks: a row of the second matrix, and what profiles are made of.
type Feature string

// Every driver has the features up to FeatureClaims; the others stand behind capabilities.
const (
	FeatureCore      Feature = "core"      // HCA, CA, queries, PD, order of destruction
	FeatureCQ        Feature = "cq"        // completion queues: create, poll, notify
	FeatureQP        Feature = "qp"        // QP objects and their state machine
	FeatureMR        Feature = "mr"        // regions over virtual addresses, keys, rights
	FeatureRC        Feature = "rc"        // RC data path
	FeatureEvents    Feature = "events"    // asynchronous events
	FeatureTeardown  Feature = "teardown"  // concurrency, destruction under load
	FeatureClaims    Feature = "claims"    // capability bits against answers
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
	FeatureRD        Feature = "rd"        //
	FeatureUser      Feature = "user"      // user mode
	FeatureAL        Feature = "al"        // the access layer above the driver
	FeatureCM        Feature = "cm"        // management datagrams and connections, over the access layer
	FeatureWire      Feature = "wire"      // packets seen from outside
)

var features = []Feature{FeatureCore, FeatureCQ, FeatureQP, FeatureMR, FeatureRC, FeatureEvents, FeatureTeardown, FeatureClaims,
	FeatureUC, FeatureUD, FeatureAtomic, FeatureSRQ, FeatureMW, FeatureMROpt, FeatureMulticast, FeatureSpecial, FeatureAPM,
	FeatureCQOpt, FeatureMAD, FeatureRD, FeatureUser, FeatureAL, FeatureCM, FeatureWire}

// Features lists all, in the order of reports.
func Features() []Feature { return slices.Clone(features) }

// Profile is what a certificate speaks about. Cases of other features are not run. A capability that the profile demands and the
// driver does not claim fails the case claims.profile.
type Profile struct {
	Name     string
	Title    string
	Features []Feature
	Demands  ci.Caps
	Atomics  ci.Atomicity // demanded
}

var minimal = []Feature{FeatureCore, FeatureCQ, FeatureQP, FeatureMR, FeatureRC, FeatureEvents, FeatureTeardown, FeatureClaims}

var profiles = []Profile{
	{Name: "minimal", Title: "reliable connections: what package ci asks of every driver", Features: minimal},
	{Name: "rc", Title: "minimal, with atomics, shared receive queues, windows and optional regions as far as claimed",
		Features: slices.Concat(minimal, []Feature{FeatureAtomic, FeatureSRQ, FeatureMW, FeatureMROpt, FeatureCQOpt, FeatureAPM})},
	{Name: "ud", Title: "minimal, with datagrams and multicast",
		Features: slices.Concat(minimal, []Feature{FeatureUD, FeatureMulticast}), Demands: ci.CapUD | ci.CapAV},
	{Name: "cm", Title: "minimal, with the special QPs, management datagrams and connections through the kit's connection manager",
		Features: slices.Concat(minimal, []Feature{FeatureSpecial, FeatureCM}), Demands: ci.CapSpecialQP | ci.CapAV},
	{Name: "wire", Title: "packets as they leave, and what those that come in do: an end of the link for the certifier to play the peer at",
		Features: []Feature{FeatureWire}},
	// What the SAS and the headers treat as not optional: all services but RD, address vectors, special QPs, physical and shared
	// registration, modification of regions, windows, resize of CQs, multicast.
	{Name: "full", Title: "everything the SAS calls mandatory, and each option that is claimed",
		Features: features,
		Demands: ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR |
			ci.CapMW1 | ci.CapResizeCQ},
}

// Profiles lists all, weakest first.
func Profiles() []Profile { return slices.Clone(profiles) }

// FindProfile gives the profile of that name.
func FindProfile(name string) (Profile, bool) {
	for _, p := range profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// Has tells whether cases of the feature belong to the profile.
func (p Profile) Has(f Feature) bool { return slices.Contains(p.Features, f) }
