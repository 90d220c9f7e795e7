package kproxy

import (
	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// A Resource is an object of a client, for lists of what uses an adapter.
type Resource struct {
	Kind  schema.Kind
	Index uint32 // of the handle
	PID   int
	Users int             // objects that use it, and that are its children
	Bytes int64           // of memory, of an MR
	QP    *accesslayer.QP // of a QP
	CQ    *accesslayer.CQ // of a CQ
	Type  ci.QPType       // of a QP
}

// Resources returns the objects of all clients that belong to an adapter.
func (s *Server) Resources(guid ci.GUID) (list []Resource) {
	for _, c := range s.Sessions() {
		list = append(list, c.resources(guid)...)
	}
	return list
}

func (c *Session) resources(guid ci.GUID) (list []Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects() {
		if o.state != live || o.kind == schema.KindEventQueue {
			continue
		}
		ca := o.ca
		if o.kind == schema.KindCA {
			ca = o
		}
		if ca == nil || ca.attr == nil || ca.attr.GUID != guid {
			continue
		}
		r := Resource{Kind: o.kind, Index: uint32(o.handle), PID: c.peer.PID, Type: o.qpType,
			Users: o.users + o.children, Bytes: o.charge.memory}
		switch x := o.al.(type) {
		case *accesslayer.QP:
			r.QP = x
		case *accesslayer.CQ:
			r.CQ = x
		}
		list = append(list, r)
	}
	return list
}
