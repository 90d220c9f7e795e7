package sa

import (
	"context"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// SubscriptionConfig describes a subscription to notices.
type SubscriptionConfig struct {
	// Trap selects the generic notices with one number, such as mad.TrapGIDInService; mad.InformAllTraps selects all.
	// If Inform is not nil, Trap is ignored.
	Trap uint16
	// Inform selects notices in full. Subscribe and QPN are filled in.
	Inform *mad.InformInfo
	// OnNotice is called with each notice. Calls are made one at a time, with no lock held. While one runs, up to 256
	// notices and changes wait, and further ones are dropped.
	OnNotice func(*mad.NoticeRecord)
	// OnChange, if not nil, is called when the port has subscribed again, or when that has failed for the first time.
	// Further attempts follow. Notices may have been missed before the call. Calls are made in order with those of
	// OnNotice.
	OnChange func(err error)
}

// A Subscription is a port's subscription to notices: of ports and multicast groups that come and go (traps 64 to 67),
// of links, and of what agents report. It is kept until Destroy, and made again on the same occasions as a Membership.
type Subscription struct {
	*registration
	inform   mad.InformInfo
	onNotice func(*mad.NoticeRecord)
}

// NewSubscription subscribes to notices. Only one Client of a port's MAD services can have subscriptions, since it
// receives the reports of the port. Errors: as Client.Do; InvalidParameter (OnNotice is nil); ResourceBusy (another
// Client has subscriptions on the port).
func (c *Client) NewSubscription(ctx context.Context, port mads.Port, cfg SubscriptionConfig) (*Subscription, error) {
	return wait(func(done func(*Subscription, error)) error { return c.StartSubscription(ctx, port, cfg, done) })
}

// StartSubscription starts NewSubscription and returns. done is called with the outcome.
func (c *Client) StartSubscription(ctx context.Context, port mads.Port, cfg SubscriptionConfig,
	done func(*Subscription, error)) error {
	if done == nil {
		return errNoDone
	}
	if cfg.OnNotice == nil {
		return failure(ci.InvalidParameter, "OnNotice is nil", nil)
	}
	inform := mad.InformInfo{LIDBegin: mad.InformAllLIDs, Generic: 1, Type: mad.InformAllTypes, Trap: cfg.Trap,
		Producer: mad.InformAllProducers}
	if cfg.Inform != nil {
		inform = *cfg.Inform
	}
	inform.Subscribe, inform.QPN = 1, 0
	if inform.ResponseTime == 0 {
		inform.ResponseTime = reportResponseTime
	}
	s := &Subscription{inform: inform, onNotice: cfg.OnNotice}
	request := func(subscribe bool) *mad.SA {
		i := s.inform
		if !subscribe {
			i.Subscribe, i.QPN = 0, 1
		}
		req := &mad.SA{Header: mad.Header{Method: mad.Set, Attribute: mad.AttrInformInfo}}
		i.Put(req.Data[:])
		return req
	}
	s.registration = &registration{c: c, port: port, key: inform,
		register:   func() (*mad.SA, error) { return request(true), c.receive(s) },
		accept:     func(*mad.SA) time.Duration { c.forgetReports(port); return 0 },
		unregister: func() *mad.SA { return request(false) },
		onEnd:      func() { c.unreceive(s) },
		onChange:   cfg.OnChange}
	if err := c.receive(s); err != nil { // before the first report
		return err
	}
	err := s.begin(ctx, func(err error) { finish(done, s, err) })
	if err != nil {
		c.unreceive(s)
	}
	return err
}

// reportResponseTime is the time in which a report is answered: 4.096 µs * 2^18, about 1 s.
const reportResponseTime mad.TimeExp = 18

// matches reports whether a notice is one of the subscription.
func (s *Subscription) matches(n *mad.NoticeRecord) bool {
	i := &s.inform
	switch {
	case (i.Generic != 0) != n.Notice.Generic,
		i.Type != mad.InformAllTypes && i.Type != uint16(n.Notice.Type),
		i.Trap != mad.InformAllTraps && i.Trap != n.Notice.Trap,
		i.Producer != mad.InformAllProducers && i.Producer != n.Notice.Producer:
		return false
	case i.GID != [16]byte{}:
		return i.GID == n.IssuerGID
	case i.LIDBegin == mad.InformAllLIDs:
		return true
	}
	return n.Notice.IssuerLID >= i.LIDBegin && n.Notice.IssuerLID <= max(i.LIDBegin, i.LIDEnd)
}
