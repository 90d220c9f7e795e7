// Package driver has the parts of a driver of package ci that do not depend on the hardware: the delivery of callbacks,
// the dependencies between objects, the limits of an adapter, and the states of QPs. The drivers of the kit and the
// template use it; a vendor's driver may.
//
//	type cq struct {
//		pd     *pd
//		refs   driver.Refs
//		notify driver.Notifier
//	}
//
//	func (p *pd) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
//		if !p.refs.Get() {
//			return nil, &ci.Error{Verb: "PD.CreateCQ", Status: ci.InvalidPDHandle}
//		}
//		q := &cq{pd: p}
//		q.notify = driver.Notifier{OnCompletion: c.OnCompletion, OnEvent: c.OnEvent, Context: c.Context}
//		…
//	}
//
//	func (q *cq) Destroy() error {
//		if err := q.refs.BeginDestroy("CQ.Destroy", ci.InvalidCQHandle); err != nil {
//			return err
//		}
//		… // the hardware forgets the queue
//		q.notify.Close()
//		q.pd.refs.Put()
//		return nil
//	}
//
// Use fields, as above, instead of embedding: the methods of an embedded Refs would be methods of the object.
//
// All types are for concurrent use. No method allocates while it delivers a completion, except to start a goroutine.
package driver
