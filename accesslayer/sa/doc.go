// Package sa asks the subnet administrator of an InfiniBand subnet, over MAD services: for paths, and for membership in multicast groups.
//
//	c := sa.New(al, mads, sa.Config{})
//	path, err := c.Path(ctx, port, sa.PathQuery{SGID: mine, DGID: theirs})
//	group, err := c.Join(ctx, port, rec, mask)
//
// The administrator is where the port's attributes say that the subnet manager is. Requests that are lost are sent again, those for which it is too busy
// later; what it refuses is a *StatusError. Ethernet ports have no administrator.
//
// Source: IBTA volume 1, chapter 15.
package sa
