// Package sa is a client of the subnet administrator of an InfiniBand subnet, over MAD services. It queries paths, and
// joins and leaves multicast groups.
//
//	c := sa.New(al, mads, sa.Config{})
//	defer c.Close()
//	path, err := c.Path(ctx, port, sa.PathQuery{SGID: mine, DGID: theirs})
//	group, err := c.Join(ctx, port, rec, mask)
//
// The client sends a request to the LID of the subnet manager, which it takes from the attributes of the port. It sends
// requests again that are not answered, and waits before it repeats a request that the administrator was too busy for.
// Any other refusal is a *StatusError. Ethernet ports have no subnet administrator.
//
// # Requests without waiting
//
// Each call that waits has an event-driven form, whose name begins with Start. It checks its arguments, sends the
// request and returns. If it returns an error, the request did not start, and done is not called. Otherwise done is
// called exactly once, with what the waiting form would return. When ctx ends first, that is the error of ctx; after
// Close, it is ErrClosed.
//
// A pending request holds no goroutine, provided that ctx was made by package context. done is called on a goroutine
// that exists only for the call, with no lock held. It may block, and may call anything.
//
// Source: IBTA volume 1, chapter 15.
package sa
