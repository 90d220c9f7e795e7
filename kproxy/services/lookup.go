package services

import (
	"context"
	"slices"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/kproxy"
	"ciddk/mad"
)

// lookup is a SIDR request of a client.
type lookup struct{ notices }

func (l *lookup) queue() *notices { return &l.notices }
func (l *lookup) Destroy() error  { l.Abandon(); return nil }
func (l *lookup) Abandon()        { _, _ = l.close() }
func (l *lookup) Status() string  { return "" }

func (s *Service) lookup(c *kproxy.Session, verb string, r *schema.CMLookup) (any, error) {
	parent, err := find[*services](c, verb, schema.KindServices, r.Services)
	if err != nil {
		return nil, err
	}
	item, err := c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindLookup, Token: r.Token, Parent: parent.item,
		Bytes: bytesPerRequest})
	if err != nil {
		return nil, err
	}
	l := &lookup{notices{item: item}}
	if err := item.Commit(verb, l); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	cfg := cm.LookupConfig{Service: mad.ServiceID(r.ServiceID), Path: convert.Path(&r.Path), Private: r.Private,
		Timeout: time.Duration(r.Timeout), Retries: int(r.Retries)}
	_, err = l.start(verb, r.Op, func(ctx context.Context) error {
		return s.cfg.CM.StartLookup(ctx, cfg, func(reply *cm.LookupReply, err error) {
			x := &schema.Notice{Op: r.Op}
			if err == nil {
				x.QPN, x.QKey, x.Private = reply.QPN, reply.QKey, reply.Private
				x.From = convert.ToAddress(&reply.From)
			}
			l.end(x, err)
		})
	})
	if err != nil {
		l.Abandon()
		item.Remove()
		return nil, err
	}
	return &schema.Created{Handle: item.Handle()}, nil
}

// lookupRequest is a SIDR request to a listener of a client.
type lookupRequest struct {
	l    *listener
	item *kproxy.Item
	q    cm.LookupRequest
}

// maxUnanswered is the number of lookup requests of a listener that a client may leave unanswered; beyond it, the
// oldest is forgotten.
const maxUnanswered = 256

func (l *listener) newLookupRequest(verb string, q cm.LookupRequest) (*lookupRequest, error) {
	item, err := l.session.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindLookupRequest, Parent: l.parent.item,
		Bytes: bytesPerObject})
	if err != nil {
		return nil, err
	}
	x := &lookupRequest{l: l, item: item, q: q}
	if err := item.Commit(verb, x); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	var oldest *lookupRequest
	l.requestsMu.Lock()
	if l.requests = append(l.requests, x); len(l.requests) > maxUnanswered {
		oldest, l.requests = l.requests[0], l.requests[1:]
	}
	l.requestsMu.Unlock()
	if oldest != nil {
		oldest.item.Remove()
	}
	return x, nil
}

func (x *lookupRequest) Destroy() error { x.Abandon(); return nil }

// Abandon forgets the request. The connection manager answers it no more.
func (x *lookupRequest) Abandon() {
	l := x.l
	l.requestsMu.Lock()
	defer l.requestsMu.Unlock()
	l.requests = slices.DeleteFunc(l.requests, func(o *lookupRequest) bool { return o == x })
}

func (x *lookupRequest) Status() string { return "" }

func answerLookup(c *kproxy.Session, verb string, r *schema.CMAnswerLookup) (any, error) {
	x, err := find[*lookupRequest](c, verb, schema.KindLookupRequest, r.Request)
	if err != nil {
		return nil, err
	}
	if r.Status == 0 {
		if err := c.CheckQP(verb, x.q.Path().Port.CA, r.QPN); err != nil {
			return nil, err
		}
		err = x.q.Accept(r.QPN, r.QKey, r.Private)
	} else {
		err = x.q.Reject(mad.SIDRStatus(r.Status), r.Info, r.Private)
	}
	if ci.StatusOf(err) == ci.InvalidParameter {
		return nil, err // it can be answered again
	}
	x.Abandon()
	x.item.Remove()
	if err != nil {
		return nil, err
	}
	return &schema.None{}, nil
}
