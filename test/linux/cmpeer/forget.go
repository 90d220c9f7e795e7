package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// forget is a client of ucmatose that sends a REQ and then loses its state, like a program that is restarted. The new
// connection manager must reject the REP.
func forget(ctx context.Context, al *accesslayer.AL, o options, out io.Writer) (err error) {
	svc, err := mads.New(al, mads.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.Close()) }()
	if err := ask(svc, al.Adapters()[0], o); err != nil {
		return err
	}
	m, err := cm.New(al, svc, cm.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for m.Counters().Sent[mad.AttrREJ] == 0 { // if the REP arrived before the manager existed, Linux sends it again
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("no REP came: %w", ctx.Err())
		}
	}
	fmt.Fprintln(out, "REP refused")
	return nil
}

// ask sends the REQ.
func ask(svc mads.Service, a *accesslayer.Adapter, o options) error {
	port := mads.Port{CA: a.GUID(), Num: 1}
	agent, err := svc.Register(mads.AgentConfig{Name: "who forgets", Port: port, Class: mad.ClassCM,
		Version: mad.ClassVersionCM})
	if err != nil {
		return err
	}
	r := &mad.REQ{LocalCommID: 0x11223344, ServiceID: mad.PortSpaceTCP.ServiceID(portConnect),
		LocalCAGUID: uint64(a.GUID()), LocalQPN: 0x123456, ResponderRes: 1,
		InitiatorDepth: 1, RemoteTimeout: 20, LocalTimeout: 18, StartingPSN: 7, RetryCount: 7, PKey: 0xffff,
		PathMTU: mad.MTU1024, RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: o.Addr.As16(), RemoteGID: o.Peer.As16(),
			HopLimit: 64, AckTimeout: 17}}
	h, err := mad.NewIPCM(netip.AddrPortFrom(o.Addr, 40000), o.Peer)
	if err != nil {
		return err
	}
	if err := mad.SetIPCM(r, &h, nil); err != nil {
		return err
	}
	head := mad.CMHeader(1, r)
	b, err := mad.AppendCM(nil, &head, r)
	if err != nil {
		return err
	}
	to := mads.Address{AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: o.Peer.As16(), HopLimit: 64}}, QPN: 1}
	return errors.Join(agent.Send(&mads.Message{To: to, MAD: b}), agent.Close())
}
