package alsuite

import (
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// What begins or ends while something else does: registrations for PnP beside adapters, and pumps beside completions.
var races = area()

var _ = races.Add("al.pnp.race", "clients register and leave while an adapter is added and removed", pnpRace,
	req.SAS2_2_05)

func pnpRace(t *validate.T) {
	const rounds, others = 15, 3
	s := newStage(t)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(stop)
	for range others {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := new(notices)
				p, err := s.client.RegisterPnP(n.config(true))
				if err == nil {
					err = p.Destroy()
				}
				if err != nil || !n.isEven() {
					t.Report(validate.Failure{Where: "a registration for PnP beside adapters that come and go",
						Expected: "success, and a remove callback for each add callback",
						Got:      fmt.Sprintf("%s, and %s", kit.Describe(err), n)})
					return
				}
			}
		})
	}
	for i := range rounds {
		n, during := new(notices), make(chan error, 1)
		var p *accesslayer.PnP
		wait.Go(func() {
			var err error
			p, err = s.client.RegisterPnP(n.config(i%2 == 0))
			during <- err
		})
		kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
		kit.OK(t, expect(t, during, "Client.RegisterPnP beside Registrar.Register"), "Client.RegisterPnP")
		kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
		kit.Equal(t, "callbacks of a client that registered while an adapter was added", n.String(),
			"1 add callbacks and 0 remove callbacks")
		ended := make(chan error, 1)
		if i%3 == 0 { // the registration ends while the adapter is removed
			wait.Go(func() { ended <- p.Destroy() })
		}
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
		if i%3 != 0 {
			ended <- p.Destroy()
		}
		kit.OK(t, expect(t, ended, "PnP.Destroy beside Registrar.Deregister"), "PnP.Destroy")
		kit.Equal(t, "callbacks of a client that left while the adapter was removed", n.String(),
			"1 add callbacks and 1 remove callbacks")
	}
}

// notices counts the callbacks of one registration. They run one after the other.
type notices struct {
	adds, removes atomic.Int32
	isAhead       atomic.Bool // a remove callback came before its add callback
}

func (n *notices) config(sync bool) accesslayer.PnPConfig {
	return accesslayer.PnPConfig{
		Sync: sync,
		Add:  func(*accesslayer.Adapter) (any, error) { n.adds.Add(1); return nil, nil },
		Remove: func(*accesslayer.Adapter, any) {
			if n.removes.Add(1) > n.adds.Load() {
				n.isAhead.Store(true)
			}
		},
	}
}

func (n *notices) isEven() bool { return n.adds.Load() == n.removes.Load() && !n.isAhead.Load() }

func (n *notices) String() string {
	return fmt.Sprintf("%d add callbacks and %d remove callbacks", n.adds.Load(), n.removes.Load())
}

var _ = races.Add("al.pump.end", "a pump ends in its own handler, and another one takes over", pumpEnd, CIPump03,
	CIPump01)

func pumpEnd(t *validate.T) {
	const messages = 48
	s := registered(t)
	p := s.pair(kit.Depth(64))
	cq := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ")
	for _, last := range kit.Variants(t, "destroyed at completion", []uint64{1, 7, 31, messages}) {
		p.B.Recv(p.B.RecvWRs(messages, 1)...)
		var got atomic.Uint64 // ids begin with 1
		wrong := make(chan string, 1)
		count := func(wcs []ci.WC) {
			for _, wc := range wcs {
				if id := got.Add(1); wc.ID != id || wc.Status != ci.WCSuccess {
					select {
					case wrong <- fmt.Sprintf("%s, but request %d is next", kit.Completions([]ci.WC{wc}), id):
					default: // the first one is reported
					}
				}
			}
		}
		created, destroyed := make(chan *accesslayer.Pump, 1), make(chan error, 1)
		first, err := cq.NewPump(accesslayer.PumpConfig{Batch: 1, Handle: func(wcs []ci.WC) {
			if count(wcs); got.Load() == last {
				if err := (<-created).DestroyAsync(func(err error) { destroyed <- err }); err != nil {
					destroyed <- err
				}
			}
		}})
		kit.OK(t, err, "CQ.NewPump")
		created <- first
		p.A.Send(p.A.SendWRs(messages)...)
		kit.OK(t, expect(t, destroyed, "callback of Pump.DestroyAsync called in Handle"), "Pump.DestroyAsync")
		kit.Equal(t, "completions that a pump delivered which ended at one of them", got.Load(), last)
		p.A.CQ.Wait(messages)
		kit.Equal(t, "completions that the pump delivered after its end", got.Load(), last)
		done := make(chan struct{}, messages)
		second, err := cq.NewPump(accesslayer.PumpConfig{Handle: func(wcs []ci.WC) {
			if count(wcs); got.Load() == messages {
				done <- struct{}{}
			}
		}})
		kit.OK(t, err, "CQ.NewPump after the end of another one")
		if last < messages {
			expect(t, done, "the rest of the completions, by the second pump")
		}
		kit.OK(t, second.Destroy(), "Pump.Destroy")
		kit.Equal(t, "completions that both pumps delivered", got.Load(), messages)
		select {
		case what := <-wrong:
			t.Failf("completions that two pumps delivered", "each one once and in order", "%s", what)
		default:
		}
		p.B.RecvCQ.Empty()
	}
}
