// Command onesided is what to read after examples/first: two processes move data over UDP, by messages and by one-sided RDMA.
//
//	go run ./examples/onesided serve       # in one terminal: the adapter of 127.0.0.1
//	go run ./examples/onesided call        # in another: that of 127.0.0.2
//
// The caller SENDs a greeting, then WRITEs into the server's memory and READs it back, which the server's processor has no part in, and
// SENDs again to say that it is done.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

type options struct {
	Role    string        `arg:"" enum:"serve,call" help:"serve: wait for a caller. call: do the talking."`
	Server  netip.Addr    `default:"127.0.0.1" help:"IP address of the server's adapter, and where it is to be found by TCP."`
	Caller  netip.Addr    `default:"127.0.0.2" help:"IP address of the caller's adapter."`
	Port    uint16        `default:"18516" help:"TCP port of the server."`
	Timeout time.Duration `default:"1m" help:"Give up after so long."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onesided:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("onesided"), kong.Description("Two processes move data over UDP with verbs."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return run(ctx, o, out)
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	us := o.Server
	if o.Role == "call" {
		us = o.Caller
	}
	// The lines that name a driver. From here on, any adapter will do.
	port, err := udp.New(udp.Config{Addr: us})
	if err != nil {
		return err
	}
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hca.Close()) }()

	s, err := open(hca)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	at := netip.AddrPortFrom(o.Server, o.Port).String()
	if o.Role == "serve" {
		return s.serve(ctx, at, out)
	}
	return s.call(ctx, at, out)
}

// room is the size of each side's memory in bytes: its first half is for messages, the second for the peer's RDMA.
const (
	room  = 8192
	stage = room / 2
)

// side has what one side needs of an adapter.
type side struct {
	qp   ci.QP
	cq   ci.CQ
	gid  ci.GID
	psn  ci.PSN // where our packets begin to count
	buf  []byte
	mem  ci.Region // over buf
	wake chan struct{}
	undo []func() error // in the order of creation
}

// open makes the objects: a protection domain, and in it a completion queue, a region of memory, and a reliable connected queue pair.
func open(hca ci.HCA) (s *side, err error) {
	s = &side{psn: randomPSN(), buf: make([]byte, room), wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	ca, err := hca.OpenCA(hca.Info().GUID, func(e ci.Event) { fmt.Fprintln(os.Stderr, "event:", e.Type) }, nil)
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, ca.Destroy)
	attr, err := ca.Query()
	if err != nil {
		return s, err
	}
	s.gid = attr.Ports[0].GIDs[0].GID // our IP address
	pd, err := ca.AllocatePD(ci.PDNormal)
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, pd.Destroy)
	s.cq, err = pd.CreateCQ(ci.CQCreate{Size: 16, OnCompletion: func(any) {
		select {
		case s.wake <- struct{}{}:
		default: // one is waiting already
		}
	}})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, s.cq.Destroy)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(s.buf), Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, mr.Destroy)
	s.mem = mr.Region()
	s.qp, err = pd.CreateQP(ci.QPCreate{
		Type: ci.RC, SendCQ: s.cq, RecvCQ: s.cq,
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1},
	})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, s.qp.Destroy)
	return s, nil
}

// randomPSN keeps packets of an earlier connection from passing for ours.
func randomPSN() ci.PSN { return ci.PSN(rand.Uint32N(1 << 24)) }

// close destroys the objects, last made first.
func (s *side) close() error {
	var errs []error
	for _, f := range slices.Backward(s.undo) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// connect takes the QP through its states, towards the peer.
func (s *side) connect(p peer) error {
	to := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: p.GID, HopLimit: 64}}
	if err := s.qp.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite | ci.RemoteRead}.For(ci.RC)); err != nil {
		return err
	}
	rtr := ci.ToRTR{AV: to, MTU: ci.MTU1024, DestNum: p.QPN, RQPSN: p.PSN, RespRes: 1, MinRNRTimer: 12}
	if err := s.qp.Modify(rtr.For(ci.RC)); err != nil {
		return err
	}
	rts := ci.ToRTS{SQPSN: s.psn, AckTimeout: 14, RetryCount: 7, RNRRetry: 7, InitDepth: 1}
	return s.qp.Modify(rts.For(ci.RC))
}

// complete waits for the next completion, which must be a success. It sleeps meanwhile.
func (s *side) complete(ctx context.Context) (ci.WC, error) {
	var wc [1]ci.WC
	for {
		n, err := s.cq.Poll(wc[:])
		if err == nil && n == 0 {
			if err = s.cq.Notify(ci.NotifyNext); err == nil {
				n, err = s.cq.Poll(wc[:]) // what came before the arming raises no event
			}
		}
		switch {
		case err != nil:
			return ci.WC{}, err
		case n > 0 && wc[0].Status != ci.WCSuccess:
			return ci.WC{}, wc[0].Err()
		case n > 0:
			return wc[0], nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return ci.WC{}, fmt.Errorf("no completion: %w", context.Cause(ctx))
		}
	}
}
