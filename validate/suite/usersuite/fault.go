package usersuite

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/kproxy/native"
)

// Fault is a fault in a part of user mode that is not the driver. The stage puts each function that is not nil in its
// place. It belongs to the adapter that With returns.
type Fault struct {
	// Client stands between the application and package ual: a user access layer with a fault.
	Client func(ci.HCA) ci.HCA
	// Library stands between package ual and the user library: a user library, or calls of its hooks, with a fault.
	Library func(*ci.UserLibrary) *ci.UserLibrary
	// Driver stands between the access layer and the driver: a proxy or an access layer with a fault.
	Driver func(ci.HCA) ci.HCA
	// Relay passes the messages between a client and the daemon until both have closed their ends, and closes both. It
	// is a proxy with a fault in its connections.
	Relay func(client, daemon *native.Conn)
}

// With returns an adapter with a fault in the parts of user mode around it.
func With(h ci.HCA, f *Fault) ci.HCA { return faultHCA{ciwrap.HCA{HCA: h}, f} }

type faultHCA struct {
	ciwrap.HCA
	f *Fault
}

// faultOf returns the fault of an adapter, or one without functions.
func faultOf(h ci.HCA) *Fault {
	if x, ok := ci.As[faultHCA](h); ok {
		return x.f
	}
	return new(Fault)
}
