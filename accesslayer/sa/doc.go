// Package sa is a client of the subnet administrator of an InfiniBand subnet, over MAD services. It queries paths and
// tables, and keeps a port's memberships in multicast groups, services and subscriptions registered.
//
//	c := sa.New(al, mads, sa.Config{})
//	defer c.Close()
//	path, err := c.Path(ctx, port, sa.PathQuery{SGID: mine, DGID: theirs})
//	nodes, err := sa.NodeRecords.Table(ctx, c, port, mad.NodeRecord{}, 0) // all nodes
//	group, err := c.NewMembership(ctx, port, sa.MembershipConfig{Record: rec, Mask: mask})
//
// The client sends a request to the LID of the subnet manager, which it takes from the attributes of the port. It sends
// requests again that are not answered, and waits before it repeats a request that the administrator was too busy for,
// or whose response did not arrive in full. Any other refusal is a *StatusError. Ethernet ports have no subnet
// administrator.
//
// # Queries
//
//	Client.Path               the path that the administrator prefers
//	Paths                     the same from a cache
//	Attribute.Get, Table      one record, or all, of PathRecords, NodeRecords, PortInfoRecords, LinkRecords, …
//	Client.Do                 any request of one datagram, such as one with attributes of a vendor
//
// Tables arrive in segments (RMPP). Config.MaxTable bounds them in bytes.
//
// # Registrations
//
// An administrator that restarts loses what ports have registered, and asks them to register again. Objects do so by
// themselves:
//
//	Client.NewMembership      membership in a multicast group
//	Client.NewService         a service record with a lease
//	Client.NewSubscription    notices: ports and groups that come and go, changes of links
//
// They register again after a client reregister, after a change of the subnet manager, of the LID or of the GIDs of the
// port, and when the port is active again, also after its HCA was removed and added. An attempt that fails is repeated
// after Config.Timeout, then after twice that time, up to 64 times it. OnChange reports the first failure and each
// success.
//
// Destroy and DestroyAsync end a registration, as those of the objects of package accesslayer. Of several registrations
// that are the same for the administrator, the last one to be destroyed is ended there.
//
// # Requests without waiting
//
// Each call that waits has an event-driven form, whose name begins with Start. It checks its arguments, sends the
// request and returns. If it returns an error, the request did not start, and done is not called. Otherwise done is
// called exactly once, with what the waiting form would return. When ctx ends first, that is the error of ctx; after
// Close, it is ErrClosed.
//
// A pending request holds no goroutine, provided that ctx was made by package context. done is called on a goroutine
// that exists only for the call, with no lock held. It may block, and may call anything. Registrations and caches of
// paths hold no goroutine either.
//
// # From the access layer of 2003
//
//	ib_query                                 Client.Path, Attribute.Get, Attribute.Table, Client.Do
//	ib_cancel_query                          the context of the request
//	ib_get_query_path_rec and its siblings   the results of Get and Table
//	ib_reg_svc, ib_dereg_svc                 Client.NewService, Service.Destroy
//	ib_subscribe, ib_unsubscribe             Client.NewSubscription, Subscription.Destroy
//	ib_join_mcast_no_qp, ib_leave_mcast      Client.NewMembership, Membership.Destroy
//	ib_join_mcast                            NewMembership, then accesslayer.QP.AttachMcast
//
// Source: IBTA volume 1, chapter 15.
package sa
