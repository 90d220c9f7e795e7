package sa

import (
	"context"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// ServiceConfig describes a service of a port.
type ServiceConfig struct {
	// Record is what the administrator publishes. A GID of zero is the port's GID with index 0, and a PKey of zero is
	// the default partition.
	Record mad.ServiceRecord
	// Lease is how long the administrator keeps the service without renewal, in whole seconds; 0: until it is deleted.
	// A lease is renewed when half of it is over.
	Lease time.Duration
	// OnChange, if not nil, is called when the service was registered again after the administrator had lost it, or
	// when that has failed for the first time. Further attempts follow. Renewals are also reported. Calls are made one
	// at a time, with no lock held.
	OnChange func(err error)
}

// A Service is a service record that the administrator holds for a port. It is kept until Destroy: its lease is
// renewed, and it is registered again on the same occasions as a Membership.
type Service struct{ *registration }

// serviceKey identifies a service record (15.2.5.14).
type serviceKey struct {
	id   mad.ServiceID
	gid  [16]byte
	pkey uint16
}

const serviceMask = mad.ServiceRecordID | mad.ServiceGID | mad.ServicePKey

// serviceDataMask has the components of a record that describe the service: the name and all data.
const serviceDataMask = mad.ServiceName | (mad.ServiceData64<<2 - mad.ServiceData8)

// NewService registers a service, and keeps it registered. Errors: as Client.Do; InvalidParameter (a lease of less than
// 2 s, or of more than 136 years).
func (c *Client) NewService(ctx context.Context, port mads.Port, cfg ServiceConfig) (*Service, error) {
	return wait(func(done func(*Service, error)) error { return c.StartService(ctx, port, cfg, done) })
}

// StartService starts NewService and returns. done is called with the outcome.
func (c *Client) StartService(ctx context.Context, port mads.Port, cfg ServiceConfig,
	done func(*Service, error)) error {
	if done == nil {
		return errNoDone
	}
	seconds := int64(cfg.Lease / time.Second)
	if cfg.Lease != 0 && (seconds < 2 || seconds >= int64(mad.LeaseForever)) {
		return failure(ci.InvalidParameter, "the lease is "+cfg.Lease.String()+
			": want 2 s to 2^32-2 s, or 0 for one without end", nil)
	}
	base := cfg.Record
	base.Lease = uint32(seconds)
	if seconds == 0 {
		base.Lease = mad.LeaseForever
	}
	if base.PKey == 0 {
		base.PKey = uint16(defaultPKey)
	}
	request := func(m mad.Method, mask mad.ComponentMask) (*mad.SA, error) {
		rec := base
		var err error
		if rec.GID == ([16]byte{}) {
			rec.GID, err = c.portGID(port)
		}
		if rec.Key != ([16]byte{}) {
			mask |= mad.ServiceKey
		}
		req := &mad.SA{Header: mad.Header{Method: m, Attribute: mad.AttrServiceRecord}, ComponentMask: mask}
		rec.Put(req.Data[:])
		return req, err
	}
	s := &Service{&registration{c: c, port: port, key: serviceKey{base.ServiceID, base.GID, base.PKey},
		register: func() (*mad.SA, error) { return request(mad.Set, serviceMask|mad.ServiceLeaseTime|serviceDataMask) },
		accept: func(resp *mad.SA) time.Duration {
			var rec mad.ServiceRecord
			if rec.Parse(resp.Data[:]); rec.Lease == mad.LeaseForever || rec.Lease < 2 {
				return 0
			}
			return time.Duration(rec.Lease) * time.Second / 2
		},
		unregister: func() *mad.SA {
			req, _ := request(mad.Delete, serviceMask)
			return req
		},
		onChange: cfg.OnChange}}
	return s.begin(ctx, func(err error) { finish(done, s, err) })
}
