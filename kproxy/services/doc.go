// Package services is the daemon's side of the access layer's services for client processes: the connection manager,
// the MAD services, the ports of the port spaces, and notices of adapters that come and go. It executes the commands of
// package schema that are not verbs. Package ual/services is the other side.
//
//	m, err := mads.New(al, mads.Config{})
//	c, err := cm.New(al, m, cm.Config{})
//	s, err := services.New(services.Config{AL: al, MAD: m, CM: c})
//	core, err := kproxy.New(kproxy.Config{AL: al, Service: s})
//
// # Clients
//
// Connections and listeners belong to the daemon's connection manager, so they outlive their client as the standard
// requires: when a client exits, its listeners and ports are released, its requests are rejected, and its connections
// are disconnected. The manager repeats the DREQ and keeps them in time-wait, and the numbers of their QPs are not used
// again for that time.
//
// A client names its own objects only. It can request and accept connections only for QPs that it has. It cannot create
// a listener that would receive a request which a listener of another client receives. A client that is not privileged
// (kproxy.Config.Privileged) listens on single service IDs, and its agents
//
//   - are not on QP0, and not of the class of communication management;
//   - receive requests, and send responses, of vendor-specific classes only;
//   - send requests with the methods Get, GetTable and GetMulti only, except in vendor-specific classes;
//   - have transaction IDs of their own: a datagram that Send sends has no upper half in its transaction ID, unless it
//     is a response.
//
// # Notices
//
// Everything that is not the reply to a request is a notice: the outcome of a step, an event of a connection, a
// datagram. Notices wait at their object until the client takes them. An event reports that an object has notices; it
// is repeated only after the client has taken all of them. The daemon has no goroutine for a step that is pending.
//
// # Limits
//
// kproxy.Quota limits objects and, with ServiceBytes, the memory that objects, requests and datagrams hold. Steps of an
// object, datagrams that wait and unanswered lookup requests have limits of their own.
package services
