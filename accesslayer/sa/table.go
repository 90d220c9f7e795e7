package sa

import (
	"context"
	"errors"
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// An Attribute is a type of record of the administrator. Its methods query records; the variables of this package, such
// as NodeRecords, are the attributes.
type Attribute[R any] struct {
	id    uint16
	size  int
	put   func(*R, []byte)
	parse func(*R, []byte)
}

// Attributes that can be queried. The component masks of a query are those of the record in package mad.
var (
	PathRecords = Attribute[mad.PathRecord]{mad.AttrPathRecord, mad.PathRecordLen,
		(*mad.PathRecord).Put, (*mad.PathRecord).Parse}
	NodeRecords = Attribute[mad.NodeRecord]{mad.AttrNodeRecord, mad.NodeRecordLen,
		(*mad.NodeRecord).Put, (*mad.NodeRecord).Parse}
	PortInfoRecords = Attribute[mad.PortInfoRecord]{mad.AttrPortInfoRecord, mad.PortInfoRecordLen,
		(*mad.PortInfoRecord).Put, (*mad.PortInfoRecord).Parse}
	LinkRecords = Attribute[mad.LinkRecord]{mad.AttrLinkRecord, mad.LinkRecordLen,
		(*mad.LinkRecord).Put, (*mad.LinkRecord).Parse}
	ServiceRecords = Attribute[mad.ServiceRecord]{mad.AttrServiceRecord, mad.ServiceRecordLen,
		(*mad.ServiceRecord).Put, (*mad.ServiceRecord).Parse}
	MCMemberRecords = Attribute[mad.MCMemberRecord]{mad.AttrMCMemberRecord, mad.MCMemberRecordLen,
		(*mad.MCMemberRecord).Put, (*mad.MCMemberRecord).Parse}
	SMInfoRecords = Attribute[mad.SMInfoRecord]{mad.AttrSMInfoRecord, mad.SMInfoRecordLen,
		(*mad.SMInfoRecord).Put, (*mad.SMInfoRecord).Parse}
	SwitchInfoRecords = Attribute[mad.SwitchInfoRecord]{mad.AttrSwitchInfoRecord, mad.SwitchInfoRecordLen,
		(*mad.SwitchInfoRecord).Put, (*mad.SwitchInfoRecord).Parse}
	PKeyTableRecords = Attribute[mad.PKeyTableRecord]{mad.AttrPKeyTableRecord, mad.PKeyTableRecordLen,
		(*mad.PKeyTableRecord).Put, (*mad.PKeyTableRecord).Parse}
	ClassPortInfos = Attribute[mad.ClassPortInfo]{mad.AttrClassPortInfo, mad.ClassPortInfoLen,
		(*mad.ClassPortInfo).Put, (*mad.ClassPortInfo).Parse}
)

// ID returns the number of the attribute.
func (a Attribute[R]) ID() uint16 { return a.id }

func (a Attribute[R]) request(m mad.Method, q *R, mask mad.ComponentMask) *mad.SA {
	req := &mad.SA{Header: mad.Header{Method: m, Attribute: a.id}, ComponentMask: mask}
	a.put(q, req.Data[:])
	return req
}

// Get returns the record that matches the components of q that mask selects. Errors: as Client.Do; the administrator
// refuses a query that matches no record or several ones (mad.StatusSANoRecords, mad.StatusSATooManyRecords).
func (a Attribute[R]) Get(ctx context.Context, c *Client, port mads.Port, q R, mask mad.ComponentMask) (*R, error) {
	return wait(func(done func(*R, error)) error { return a.StartGet(ctx, c, port, q, mask, done) })
}

// StartGet sends the request of Get and returns. done is called with the outcome.
func (a Attribute[R]) StartGet(ctx context.Context, c *Client, port mads.Port, q R, mask mad.ComponentMask,
	done func(*R, error)) error {
	if done == nil {
		return errNoDone
	}
	return c.start(ctx, port, a.request(mad.Get, &q, mask), func(r *response, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		var rec R
		a.parse(&rec, r.Data[:])
		done(&rec, nil)
	})
}

// Table returns all records that match the components of q that mask selects. No records are no error. Errors: as
// Client.Do; InsufficientResources (the table has more than Config.MaxTable bytes); ErrorStatus with an *mads.RMPPError
// (the segments of the table did not arrive).
func (a Attribute[R]) Table(ctx context.Context, c *Client, port mads.Port, q R, mask mad.ComponentMask) ([]R, error) {
	return wait(func(done func([]R, error)) error { return a.StartTable(ctx, c, port, q, mask, done) })
}

// StartTable sends the request of Table and returns. done is called with the outcome.
func (a Attribute[R]) StartTable(ctx context.Context, c *Client, port mads.Port, q R, mask mad.ComponentMask,
	done func([]R, error)) error {
	if done == nil {
		return errNoDone
	}
	return c.start(ctx, port, a.request(mad.GetTable, &q, mask), func(r *response, err error) {
		if s, ok := errors.AsType[*StatusError](err); ok && s.Status == mad.StatusSANoRecords {
			done(nil, nil)
			return
		}
		if err != nil {
			done(nil, err)
			return
		}
		done(a.records(r))
	})
}

// records decodes the records of a response. One without RMPP has at most one record.
func (a Attribute[R]) records(r *response) ([]R, error) {
	data := r.data
	if !r.RMPP.Active() {
		if r.AttributeOffset == 0 {
			return nil, nil
		}
		data = r.Data[:a.size]
	}
	parts, err := mad.Records(data, r.AttributeOffset, a.size)
	if err != nil {
		return nil, failure(ci.ErrorStatus, fmt.Sprintf("the table of %s cannot be parsed (was it cut on its way?)",
			mad.AttributeName(mad.ClassSubnetAdmin, a.id)), err)
	}
	list := make([]R, len(parts))
	for i, b := range parts {
		a.parse(&list[i], b)
	}
	return list, nil
}
