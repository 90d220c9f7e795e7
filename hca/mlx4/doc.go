// Package mlx4 is a driver for the ConnectX-3 and the ConnectX-3 Pro in user space. It implements package ci on package
// fw, on a function of any back end of package bus: a card of the machine (bus/vfio), a model in another process
// (bus/vfiouser), or a model in this one (bus/local).
//
//	f, err := vfio.Open("0000:03:00.0")
//	…
//	instance, err := theBus.Add(ctx, f) // after theBus.Register(mlx4.Driver(registrar, mlx4.Config{}))
//
// New is the way without a bus.
//
// # Parts
//
//	hca.go       HCA: start, failure, close; driver.go: probe on a bus; recovery.go: failure and removal there
//	ca.go        CA: capabilities, limits; port.go: ports, their tables and events; localmad.go
//	pd.go, av.go protection domains and address vectors
//	mr.go        memory regions; mrmodify.go, physical.go, fastreg.go: the other kinds; storage.go: memory for DMA
//	mw.go        memory windows and their binds
//	cq.go        completion queues; poll.go: poll, arm
//	qp.go        queue pairs; qpmodify.go, qprange.go: their states; post.go: posting; special.go: QP0 and QP1
//	srq.go       shared receive queues
//	mcast.go     multicast groups
//
// Package queue has the formats of work requests and completions.
//
// # Memory
//
// The adapter reaches memory through the bus only. RegisterMR maps the pages of the memory for the time of the region.
// It rejects memory that the process cannot address (ci.Memory.Slice), and memory in pieces that do not begin and end
// with pages.
//
// The request of a fast registration has no bit for BindWindow (linux mlx4/qp.h, mlx4_wqe_fmr_seg). The adapter decides
// whether a window can be bound to its region. The model permits it.
//
// # VLANs
//
// RoCE packets have no VLAN tag, since addresses of package ci (AVAttr, GIDEntry) have none.
//
// # Trust
//
// The driver checks everything that it reads from the adapter. A completion of an unknown QP, or of a request that is
// not outstanding, raises EventCQError with the QP number and bit 32 in Event.Vendor, and frees nothing. After a
// catastrophic error, a stuck command or a hot unplug, all outstanding requests of QPs complete with WCFlushErr
// (flush.go). Then the consumer receives EventLocalFatal. From then on, verbs return InvalidState, and Destroy releases
// objects without the adapter.
//
// # Concurrency
//
// As package ci requires. A post takes the lock of its queue, Poll and Notify that of the CQ. The data path does not
// allocate, except for the first fast registration in each slot of a send queue and the first bind of a QP.
package mlx4
