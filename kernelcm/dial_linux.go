package kernelcm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"ciddk/accesslayer/cm"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// dial is the way of an ID to the answer of a peer: address, route, request.
type dial struct {
	s      *Service
	verb   string
	answer uint32               // the event of a positive answer
	later  func(*abi.EventResp) // receives events after the answer
	x      *kernelID
	to     netip.AddrPort
	left   int // tries to resolve the address
	param  abi.ConnParam

	mu   sync.Mutex
	stop func() bool                 // ends the reaction to the end of the context
	done func(*abi.EventResp, error) // nil after the end
}

// start starts to resolve the address in the IP header of the private data. The kernel adds a header of its own.
func (d *dial) start(ctx context.Context, service mad.ServiceID, private []byte) error {
	h, rest, err := mad.ParseIPCM(private)
	if err != nil {
		return fmt.Errorf("%s: only services whose requests have the IP header of annex A11 can be reached through "+
			"the kernel: %w", d.verb, err)
	}
	limit := mad.REQConsumerLen
	if d.answer == abi.EventEstablished { // of a lookup
		limit = mad.SIDRREQConsumerLen
	}
	if err := checkPrivate(d.verb, rest, limit); err != nil {
		return err
	}
	d.param.Valid, d.left = 1, tries
	d.param.PrivateDataLen = uint8(copy(d.param.PrivateData[:], rest))
	d.to = netip.AddrPortFrom(h.DestinationAddr(), uint16(service))
	if err := d.s.add(d.verb, d); err != nil {
		return err
	}
	local := service&mad.PortSpaceMask | mad.ServiceID(h.SourcePort)
	x, err := d.s.take(d.verb, local, h.SourceAddr().Addr(), d.event)
	if err != nil {
		d.s.remove(d)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.x = x
	if err = closedError(d.verb); d.done != nil { // else Service.Close did not find the ID
		err = x.resolve(netip.Addr{}, d.to)
	}
	if err != nil {
		d.done = nil
		x.destroy()
		d.s.remove(d)
		return err
	}
	d.stop = context.AfterFunc(ctx, func() { d.end(nil, ctx.Err()) })
	return nil
}

// Close ends the way.
func (d *dial) Close() error {
	d.end(nil, closedError(d.verb))
	return nil
}

// event receives the events of the ID.
func (d *dial) event(e *abi.EventResp) {
	d.mu.Lock()
	over := d.done == nil
	d.mu.Unlock()
	if over {
		if d.later != nil {
			d.later(e)
		}
		return
	}
	var err error
	switch {
	case e.Event == abi.EventAddrResolved:
		err = d.x.resolveRoute()
	case again(e, &d.left):
		err = d.x.resolve(netip.Addr{}, d.to)
	case e.Event == abi.EventRouteResolved:
		err = d.x.d.do(abi.CmdConnect, &abi.Connect{ID: d.x.num, Param: d.param}, nil)
	case e.Event == d.answer:
		d.end(e, nil)
	default:
		err = failure(e)
	}
	if err != nil {
		d.end(nil, err)
	}
}

// end ends the way, once.
func (d *dial) end(e *abi.EventResp, err error) {
	d.mu.Lock()
	done, stop, x := d.done, d.stop, d.x
	d.done = nil
	d.mu.Unlock()
	if done == nil || x == nil { // without an ID, start returns the error
		return
	}
	if stop != nil {
		stop()
	}
	if err != nil {
		x.destroy()
	}
	d.s.remove(d)
	done(e, err)
}

// failure returns the error of an event.
func failure(e *abi.EventResp) error {
	switch {
	case e.Event == abi.EventDeviceRemoval:
		return syscall.ENODEV
	case e.Event == abi.EventRejected:
		return rejection(e)
	case e.Status == 0:
		return fmt.Errorf("event %d of the kernel's connection manager was not expected", e.Event)
	case e.Event == abi.EventUnreachable && syscall.Errno(-e.Status) == syscall.ETIMEDOUT:
		return cm.ErrTimeout
	case e.Status > 0:
		return &cm.LookupError{Status: mad.SIDRStatus(e.Status), Private: private(e)}
	}
	err := error(syscall.Errno(-e.Status))
	if e.Event == abi.EventAddrError || e.Event == abi.EventRouteError {
		err = errors.Join(syscall.EHOSTUNREACH, err)
	}
	return err
}

func rejection(e *abi.EventResp) error {
	return &cm.RejectError{Reason: mad.RejReason(e.Status), Message: mad.WhichREQ, Private: private(e)}
}
